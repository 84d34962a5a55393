// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#include <iostream>
#include <memory>
#include <optional>

#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/settings.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "http/client.h"

namespace trainyard::cli {
namespace {

constexpr int kRefused = 1;
constexpr int kInterrupted = 130;

Result<int> run(const Options& options, const Terminal& terminal) {
  YARD_TRY(Settings settings, find_settings(environment_variable, own_home(), options.endpoint));
  const bool watches = options.wait || options.follow;
  std::optional<Interrupt> interrupt;
  if (watches) {
    interrupt.emplace();
  }
  const std::unique_ptr<http::Client> client = http::Client::make(settings.ca_bundle);
  SystemClock clock;
  const ApiClient api(*client, clock, std::move(settings),
                      watches ? interrupt->token() : std::stop_token());
  return run_verb(options, {.api = api,
                            .terminal = terminal,
                            .clock = clock,
                            .in = std::cin,
                            .pause = [&](std::chrono::milliseconds time) {
                              return !watches || interrupt->pause(time);
                            }});
}

}  // namespace

int client_main(const std::vector<std::string>& args) {
  const std::variant<Options, int> parsed = parse_options(args, std::cout, std::cerr);
  if (const int* code = std::get_if<int>(&parsed)) {
    return *code;
  }
  const bool is_tty = isatty(STDOUT_FILENO) == 1;
  const Terminal terminal{.out = std::cout,
                          .err = std::cerr,
                          .is_tty = is_tty,
                          .color = wants_color(is_tty, environment_variable)};
  const Result<int> result = run(*std::get_if<Options>(&parsed), terminal);
  const Result<void> written = flush(terminal);
  const Result<int> end = result && !written ? Result<int>(written.error()) : result;
  if (!end) {
    std::cerr << paint("trainyard: ", Color::kRed, terminal.color) << end.error().message << '\n';
    return end.error().code == Code::kCancelled ? kInterrupted : kRefused;
  }
  return *end;
}

}  // namespace trainyard::cli
