// SPDX-License-Identifier: Apache-2.0
// The one program: the first argument says which part of Trainyard this process is. The server and
// the two ends of an instance have their own entry; every other verb is a client of the API.
#include "instance/main.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
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

constexpr std::string_view kHelp =
    "Trainyard runs SageMaker training jobs on your own machines.\n"
    "\n"
    "  trainyard server [--home DIR] [--listen ADDRESS:PORT]   serve the API and run the jobs\n"
    "  trainyard store [import DIR s3://BUCKET/PREFIX]         a store alone; puts files into it\n"
    "  trainyard certificate                                   make one for https\n"
    "  trainyard backup DIR | restore DIR | check [DIR]        copy the server's home, make one\n"
    "                                                          from a copy, look for damage\n"
    "  trainyard doctor                                        is this machine fit for training?\n"
    "  trainyard submit job.yaml | list | describe | logs | why | stop\n"
    "                                                          clients of the API\n"
    "  trainyard instance ...                                  one instance of a job; the server\n"
    "                                                          starts it, nobody else\n"
    "\n"
    "Each verb explains itself with --help. Clients of AWS work too: point AWS_ENDPOINT_URL at "
    "the\n"
    "server and use the keys in its home directory.\n";

int print(std::string_view text, std::FILE* to, int code) {
  std::fwrite(text.data(), 1, text.size(), to);
  return code;
}

int run(const std::vector<std::string>& args) {
  if (args.empty()) {
    return print(kHelp, stderr, 2);
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
  if (verb == "--help" || verb == "-h" || verb == "help") {
    return print(kHelp, stdout, 0);
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
