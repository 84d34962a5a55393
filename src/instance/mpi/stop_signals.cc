// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/stop_signals.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <sys/signalfd.h>
#include <unistd.h>

namespace trainyard::instance {
namespace {

constexpr int kNotStarted = 127;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    sigaddset(&set, number);
  }
  return set;
}

}  // namespace

Result<Fd> block_stop_signals() {
  const sigset_t set = stop_signals();
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) {
    return errno_error("sigmask", errno);
  }
  Fd signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) {
    return errno_error("signalfd", errno);
  }
  return signals;
}

bool stop_came(const Fd& signals) {
  bool came = false;
  signalfd_siginfo info = {};
  while (read(signals.get(), &info, sizeof info) == sizeof info) {
    came = came || info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
  }
  return came;
}

void unblock_stop_signals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int guard_main(const std::vector<std::string>& command) {
  if (command.empty()) {
    return kNotStarted;
  }
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));  // exec's signature is older than const
  }
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  std::fprintf(stderr, "%s: %s\n", argv[0], std::strerror(errno));
  return kNotStarted;
}

}  // namespace trainyard::instance
