// SPDX-License-Identifier: Apache-2.0
// The command line of `trainyard server` as a value, and where things are when it says nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/command_line.h"
#include "base/file.h"
#include "base/log.h"
#include "base/result.h"
#include "http/tls.h"

namespace CLI {
class App;
}

namespace trainyard::server {

struct ServerConfig {
  Path home;  // by default base/home.h's
  std::string address = "127.0.0.1";
  std::uint16_t port = 8321;  // 0 picks a free one
  std::string region = "us-east-1";
  std::string account = "123456789012";
  LogLevel log_level = LogLevel::kInfo;
  // Jobs share the machine's network instead of getting networks of their own, which needs root.
  bool jobs_share_network = false;
  // Of the container of each instance, by its control group.
  std::uint64_t instance_memory = 0;          // bytes; 0: all but a sixteenth of the machine's
  std::uint64_t instance_processes = 32'768;  // threads count; 0: no limit
  double instance_cpus = 0;                   // 0: no limit
  std::optional<http::TlsFiles> tls = {};     // the API is served by https, by this certificate
  std::size_t workers = 128;                  // requests that are worked on at once
  std::size_t queue = 2'048;                  // requests that may wait for a worker
  std::vector<std::string> domains = {"localhost"};  // that buckets are served below: Domains
};

// `args` without the verb. kInvalidArgument for values that do not go together: among others, an
// address that is not of this machine only, without TLS and without --insecure-http.
Result<std::variant<ServerConfig, Usage>> parse_flags(const std::vector<std::string>& args);

// "127.0.0.1:8321", "[::1]:8321", "8321".
struct Endpoint {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
};
Result<Endpoint> parse_endpoint(std::string_view text);
bool is_loopback(std::string_view address);

// How a listener is protected, as --tls-cert, --tls-key and --insecure-http say.
struct TlsFlags {
  std::string certificate;
  std::string key;
  bool insecure_http = false;
};
// Nothing for plain HTTP. kInvalidArgument for half of a pair, for https that may be insecure, and
// for plain HTTP on an address that other machines reach, unless that is allowed.
Result<std::optional<http::TlsFiles>> tls_of(const TlsFlags& flags, const Endpoint& endpoint);

// Names below which buckets are served in virtual-host style, BUCKET.NAME, as --domain gives them.
struct Domains {
  std::vector<std::string> given;

  void describe(CLI::App& app);
  // Lower case, and localhost before them.
  std::vector<std::string> all() const;
};

// `path`, which `flag` gave, from the working directory.
Result<Path> absolute_path(std::string_view flag, const Path& path);

}  // namespace trainyard::server
