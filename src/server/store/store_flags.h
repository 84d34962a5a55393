// SPDX-License-Identifier: Apache-2.0
// The command lines of `trainyard store` and `trainyard store import` as values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/result.h"
#include "http/tls.h"
#include "s3/adopt/adopt.h"
#include "server/flags.h"

namespace trainyard::server {

struct StoreConfig {
  Path root = {};  // by default objects/ in the server's home
  Path keys = {};  // by default <root>/credentials
  std::string address = "127.0.0.1";
  std::uint16_t port = 8321;  // 0 picks a free one
  std::string region = "us-east-1";
  std::vector<std::string> domains = {"localhost"};  // of virtual-host style
  std::chrono::hours upload_lifetime{7 * 24};
  LogLevel log_level = LogLevel::kInfo;
  std::optional<http::TlsFiles> tls = {};
};

struct ImportConfig {
  Path root = {};
  s3::AdoptOptions what = {};
  bool as_json = false;
};

using StoreCommand = std::variant<StoreConfig, ImportConfig, Usage>;

// `args` without "store". kInvalidArgument as parse_flags() has it.
Result<StoreCommand> parse_store_flags(const std::vector<std::string>& args);

}  // namespace trainyard::server
