// SPDX-License-Identifier: Apache-2.0
// The one program: the first argument says which part of Trainyard this process is. The server and
// the two ends of an instance have their own entry; every other verb is a client of the API.
#include "instance/main.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/program.h"
#include "doctor/doctor_main.h"
#include "instance/launch/mpi_command.h"
#include "instance/mpi/mpi_main.h"
#include "instance/run/init.h"
#include "server/backup/backup_main.h"
#include "server/certificate_main.h"
#include "server/router.h"
#include "server/server_main.h"
#include "server/store/store_main.h"

namespace {

int print(std::string_view text, std::FILE* to, int code) {
  std::fwrite(text.data(), 1, text.size(), to);
  return code;
}

int run(const std::vector<std::string>& args) {
  if (args.empty()) {
    return print(trainyard::cli::program_help(), stderr, 2);
  }
  const std::string& verb = args.front();
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (verb == "server") {
    return trainyard::server::server_main(rest);
  }
  if (verb == "store") {
    return trainyard::server::store_main(rest);
  }
  if (verb == "backup") {
    return trainyard::server::backup_main(rest);
  }
  if (verb == "restore") {
    return trainyard::server::restore_main(rest);
  }
  if (verb == "check") {
    return trainyard::server::check_main(rest);
  }
  if (verb == "certificate") {
    return trainyard::server::certificate_main(rest);
  }
  if (verb == "doctor") {
    return trainyard::doctor::doctor_main(rest);
  }
  if (verb == "instance") {
    return trainyard::instance::instance_main(rest);
  }
  if (verb == "instance-probe") {
    return trainyard::instance::probe_main();
  }
  if (verb == "instance-init") {
    return trainyard::instance::init_main(rest);
  }
  if (verb == trainyard::instance::kMpiVerb) {
    return trainyard::instance::mpi_main(rest);
  }
  if (verb == "--version") {
    return print("trainyard " + std::string(trainyard::server::version()) + "\n", stdout, 0);
  }
  if (verb == "help" && !rest.empty() && rest.front() != "help" && !rest.front().starts_with('-')) {
    return run({rest.front(), "--help"});
  }
  if (verb == "--help" || verb == "-h" || verb == "help") {
    return print(trainyard::cli::program_help(), stdout, 0);
  }
  return trainyard::cli::client_main(args);
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run({argv + 1, argv + argc});
  // A full disk shows no earlier. Whoever has told of it already has a code of its own.
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!is_written && code == 0) {
    return print("trainyard: cannot write the output\n", stderr, 1);
  }
  return code;
}
