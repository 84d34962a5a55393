// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/mpi_main.h"

#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "instance/launch/mpi_link.h"
#include "instance/machine.h"
#include "instance/mpi/leader.h"
#include "instance/mpi/rank.h"
#include "instance/mpi/stop_signals.h"
#include "instance/mpi/verdict.h"
#include "instance/mpi/worker.h"
#include "instance/remote_shell/shell_client.h"

namespace trainyard::instance {
namespace {

using Words = std::vector<std::string>;

constexpr int kShellFailed = 255;  // as ssh says it

int usage() {
  std::fprintf(stderr, "trainyard instance-mpi: an instance starts this, nobody else\n");
  return 2;
}

int lead(Words args) {
  LeaderWork work{.mpirun = {}, .program = {}, .environment = own_environment()};
  while (!args.empty() && args.front().starts_with("--")) {
    (args.front() == "--mpi4py" ? work.offer_mpi4py : work.alone) = true;
    args.erase(args.begin());
  }
  const auto words = args.empty() ? Result<std::int64_t>(0) : parse_int(args.front());
  if (!words || *words < 1 || *words >= static_cast<std::int64_t>(args.size())) {
    return usage();
  }
  const auto border = args.begin() + 1 + *words;
  work.mpirun.assign(args.begin() + 1, border);
  work.program.assign(border, args.end());
  return lead_main(std::move(work));
}

// `shell HOST WORDS...`, as mpirun calls ssh.
Result<ExitStatus> run_shell(const Words& args) {
  YARD_TRY(const Fd signals, block_stop_signals());
  YARD_TRY(const MpiLink link, mpi_link_in(own_environment()));
  YARD_TRY(const wire::Host host, host_named(link, args.empty() ? std::string() : args.front()));
  // A daemon prints nothing there but the map of the job, which mpirun has shown already.
  YARD_TRY(const Fd nowhere, open_file("/dev/null", O_WRONLY));
  YARD_TRY(Connection peer, dial({.address = host.address, .port = link.port}, link.secret));
  return run_remotely(peer, Words(args.begin() + 1, args.end()),
                      {.input = STDIN_FILENO,
                       .output = nowhere.get(),
                       .errors = STDERR_FILENO,
                       .signals = signals.get()});
}

int shell(const Words& args) {
  const Result<ExitStatus> status = run_shell(args);
  if (!status) {
    std::fprintf(stderr, "trainyard remote shell: %s\n", status.error().message.c_str());
    return kShellFailed;
  }
  return shell_code(*status);
}

}  // namespace

int mpi_main(const Words& args) {
  const std::string role = args.empty() ? std::string() : args.front();
  Words rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (role == "lead") {
    return lead(std::move(rest));
  }
  if (role == "serve") {
    return serve_main(own_environment());
  }
  if (role == "shell") {
    return shell(rest);
  }
  if (role == "rank") {
    return rank_main(own_environment(), !rest.empty() && rest.front() == "--overrule");
  }
  if (role == "guard") {
    return guard_main(rest);
  }
  return usage();
}

}  // namespace trainyard::instance
