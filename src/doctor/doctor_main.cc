// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor_main.h"

#include <cstdio>

#include <CLI/CLI.hpp>

#include "base/command_line.h"
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
  app.add_flag("--json", flags.is_json, "For programs");
  app.add_option("--instance-type", flags.instance_type,
                 "What the machine is, such as ml.p4d.24xlarge: then what belongs to that type is "
                 "asked for, too");
  app.add_option("--home", flags.home, "Where the server keeps its state [" + home.string() + "]");
}

}  // namespace

int doctor_main(const std::vector<std::string>& args) {
  const Path usual = own_home();
  Flags flags;
  CLI::App app("Says whether this machine is fit for training, and what to do where it is not.",
               "trainyard doctor");
  describe(app, flags, usual);
  if (const auto usage = read_command_line(app, args)) {
    return show(*usage, app.get_name());
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
