// SPDX-License-Identifier: Apache-2.0
// The load client of the benches:  trainyard-load run PLAN.json | files DIRECTORY PREFIX BYTES
// COUNT `run` prints the report as JSON; exit code 1 when a request failed. `files` writes the
// contents that a plan expects, as files, for a server that has no PUT.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "bench/load/content.h"
#include "bench/load/plan.h"
#include "bench/load/run.h"

namespace trainyard::load {
namespace {

// Every connection is a descriptor.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

Result<int> run_plan(const std::string& file) {
  YARD_TRY(const std::string text, read_file(file));
  YARD_TRY(const Plan plan, parse_plan(text));
  const SystemClock clock;
  YARD_TRY(const Report report, run(plan, clock));
  fmt::print("{}", to_json_text(report));
  return report.failed == 0 ? 0 : 1;
}

Result<int> write_files(const std::vector<std::string>& args) {
  YARD_TRY(const std::int64_t bytes, parse_int(args[3]));
  YARD_TRY(const std::int64_t count, parse_int(args[4]));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    YARD_TRY(write_file(Path(args[1]) / fmt::format("{}{:09}", args[2], number),
                        make_content(number, static_cast<std::size_t>(bytes))));
  }
  return 0;
}

int main_of(const std::vector<std::string>& args) {
  Result<int> code = 2;
  if (args.size() == 2 && args[0] == "run") {
    code = run_plan(args[1]);
  } else if (args.size() == 5 && args[0] == "files") {
    code = write_files(args);
  } else {
    fmt::print(stderr,
               "usage: trainyard-load run PLAN.json\n"
               "       trainyard-load files DIRECTORY PREFIX BYTES COUNT\n");
  }
  if (!code) {
    fmt::print(stderr, "trainyard-load: {}\n", code.error().message);
    return 2;
  }
  return *code;
}

}  // namespace
}  // namespace trainyard::load

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  trainyard::load::allow_many_files();
  return trainyard::load::main_of(std::vector<std::string>(argv + 1, argv + argc));
}
