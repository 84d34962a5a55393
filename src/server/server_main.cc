// SPDX-License-Identifier: Apache-2.0
#include "server/server_main.h"

#include <cstdio>
#include <variant>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "server/router.h"
#include "server/service.h"
#include "server/serving.h"

namespace trainyard::server {
namespace {

int complain(const Error& error) {
  fmt::print(stderr, "trainyard server: {}\n", error.message);
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

}  // namespace

int run_server(const ServerConfig& config) {
  const sigset_t signals = begin_to_serve(config.tls.has_value());
  if (auto started = start_log(config.log_level); !started) {
    return complain(started.error());
  }
  SystemClock clock;
  SystemRandom random;
  auto service = [&] {
    const StartGuard guard;
    return Service::start(config, local_engine(config), clock, random);
  }();
  if (!service) {
    return complain(service.error());
  }
  fmt::print("Trainyard {} serves {} (access key in {})\n", version(), (*service)->endpoint(),
             (config.home / "credentials").string());
  std::fflush(stdout);
  const int number = wait_for_stop(signals, (*service)->identity(), clock);
  log_info(fmt::format("stopping on {}; jobs go on", number == SIGTERM ? "SIGTERM" : "SIGINT"));
  service->reset();
  return 0;
}

int server_main(const std::vector<std::string>& args) {
  const auto parsed = parse_flags(args);
  if (!parsed) {
    return complain(parsed.error());
  }
  if (const auto* usage = std::get_if<Usage>(&*parsed)) {
    return show(*usage, "trainyard server");
  }
  return run_server(std::get<ServerConfig>(*parsed));
}

}  // namespace trainyard::server
