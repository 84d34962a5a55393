// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor_main.h"

#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/home.h"
#include "doctor/diagnose.h"
#include "doctor/gather.h"

namespace trainyard::doctor {
namespace {

struct Flags {
  std::string home;
  std::string instance_type;
  bool is_json = false;
};

void describe(CLI::App& app, Flags& flags, const Path& home) {
  app.name("trainyard doctor");
  app.add_flag("--json", flags.is_json, "For programs");
  app.add_option("--instance-type", flags.instance_type,
                 "What the machine is, such as ml.p4d.24xlarge: then what belongs to that type is "
                 "asked for, too");
  app.add_option("--home", flags.home, "Where the server keeps its state [" + home.string() + "]");
}

}  // namespace

int doctor_main(std::vector<std::string> args) {
  const Path usual = home_directory(environment_variable, ::geteuid() == 0);
  Flags flags;
  // The library throws for what it finds wrong, and for --help.
  try {
    CLI::App app("Says whether this machine is fit for training, and what to do where it is not.");
    describe(app, flags, usual);
    try {
      std::reverse(args.begin(), args.end());  // it takes them from the back
      app.parse(std::move(args));
    } catch (const CLI::CallForHelp&) {
      fmt::print("{}", app.help());
      return 0;
    }
  } catch (const CLI::Error& error) {
    fmt::print(stderr, "trainyard doctor: {}\n", error.what());
    return 2;
  }
  std::error_code failed;
  const Findings findings = diagnose(gather(
      {.instance_type = flags.instance_type,
       .home = std::filesystem::absolute(flags.home.empty() ? usual : Path(flags.home), failed),
       .program = std::filesystem::read_symlink("/proc/self/exe", failed)}));
  const std::string text = flags.is_json ? to_json(findings) : to_text(findings);
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return is_written && worst(findings) != Verdict::kBad ? 0 : 1;
}

}  // namespace trainyard::doctor
