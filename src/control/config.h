// SPDX-License-Identifier: Apache-2.0
// <home>/config.yaml: what this machine offers and what image names mean. Everything has a default,
// so the file is optional. Read once, at start; a mistake in it stops the server with its line.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "control/decide/decide.h"

namespace trainyard::control {

struct ImageRule {
  // The image's name with or without its tag or digest; '*' stands for any text, '#' for a digit.
  std::string pattern;
  std::string environment;
};

// The keys of config.yaml, with the built-in values:
//   capacity:
//     instances: 4        # default: the cores of the machine, at least 4
//     gpus: [0, 1]        # device numbers; default: all that have a device node
//     gpu_device: /dev/nvidia*   # the device node of a GPU; '*' stands for its number
//   images:               # pattern: environment; looked at before the built-in ones
//     my/image: torch
//   environments:         # name: directory of a Python environment
//     torch: /srv/env/torch
//   stop_grace_seconds: 120      # SIGTERM to SIGKILL
//   upload_limit_seconds: 21600  # for model and output when the program has ended
//   orphan_limit_seconds: 86400  # an instance whose program has ended waits so long for a server
struct Config {
  Machine machine;
  std::vector<ImageRule> images = {};
  std::map<std::string, std::string> environments = {};
  Limits limits = {};
};

// The built-in values: this machine's cores and devices, the PyTorch images, and the environment
// `torch` in $TRAINYARD_ENVS, or trainyard/env in $XDG_CACHE_HOME or ~/.cache.
Config default_config();

// `text` over `defaults`. kInvalidArgument names the line.
Result<Config> parse_config(std::string_view text, Config defaults);

// parse_config of the file, or the defaults when there is none.
Result<Config> load_config(const Path& file);

// The environment's name; kInvalidArgument lists the images that are known.
Result<std::string> resolve_image(const Config& config, std::string_view image);

// The directory of an environment; kInvalidArgument says how to make it when it is not there.
Result<std::string> environment_directory(const Config& config, const std::string& name);

}  // namespace trainyard::control
