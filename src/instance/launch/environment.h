// SPDX-License-Identifier: Apache-2.0
// The environment that every process of a container starts with, and which caller's certificate
// files must be made visible for it. Pure. Three layers, later ones win:
//   1. defaults of ours: PATH, HOME, locale, thread counts, region, endpoints, certificates
//   2. CreateTrainingJob.Environment
//   3. the contract: TRAINING_JOB_NAME, TRAINING_JOB_ARN, CURRENT_HOST,
//      AWS_CONTAINER_CREDENTIALS_RELATIVE_URI (on a shared network ..._FULL_URI and
//      AWS_CONTAINER_AUTHORIZATION_TOKEN); launch_plan.h adds SM_* and the ranks' variables
// So a user may change everything that does no harm, and cannot make a job lie about itself.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/loopback_plan.h"
#include "wire/messages.h"

namespace trainyard::instance {

using Variables = std::map<std::string, std::string>;

// The backend that torch.distributed takes for tensors of the CPU, or of each kind of device, where
// a script names none; read by python/trainyard/_autoload.py.
inline constexpr const char* kDefaultBackend = "TRAINYARD_DEFAULT_BACKEND";
// "1" in a job's Environment: NCCL is watched by the collectives library. Untested on GPUs.
inline constexpr const char* kWatchNccl = "TRAINYARD_WATCH_NCCL";

// A job on CPUs gets "yard", so far as its PyTorch has it. With GPUs PyTorch's own choice stays
// (nullopt) unless the job asks for the watched one.
std::optional<std::string> choose_default_backend(bool has_gpus, const Variables& asked);

// A file or directory of the machine that a variable names but that the container would hide.
struct VisibleFile {
  std::string source;
  std::string target;
};

// What an instance has of the machine's network where it has none of its own: its job's ports, and
// an endpoint for credentials that others can reach, too, and that asks for a token therefore.
struct SharedNetwork {
  sandbox::PortRange ports;
  std::string credentials_endpoint = {};  // "http://127.77.7.1:12702"
  std::string credentials_token = {};     // known to this instance alone
};

struct EnvironmentInput {
  Variables caller;                 // the supervisor's own environment
  std::string credentials_path;     // "/v2/credentials/<token>"
  std::vector<std::string> hidden;  // directories of the machine that the container does not see
  std::optional<SharedNetwork> shared = {};
  Variables defaults = {};  // of this instance, beside those of every one
};

struct ContainerEnvironment {
  Variables defaults_and_user;  // layers 1 and 2
  Variables contract;           // layer 3
  std::vector<VisibleFile> files;
  std::optional<sandbox::PortRange> ports = {};  // where the machine's network is shared
};

ContainerEnvironment container_environment(const wire::Assignment& assignment,
                                           const EnvironmentInput& input);

// `base` with `fixed` on top. Names of the user's that were overruled go to `overruled`.
Variables with_fixed(const Variables& base, const Variables& fixed, const Variables& user,
                     std::vector<std::string>& overruled);

// Linux takes at most 128 KiB in one variable: longer ones are removed from `variables`, and named.
std::vector<std::string> drop_oversized(Variables& variables);

}  // namespace trainyard::instance
