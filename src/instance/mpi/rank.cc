// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/rank.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "instance/launch/mpi_link.h"
#include "instance/launch/rank_environment.h"
#include "instance/launch/request.h"
#include "instance/mpi/stop_signals.h"
#include "instance/mpi/verdict.h"
#include "instance/remote_shell/connection.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;

constexpr Duration kPatience{30'000};
constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr int kNotStarted = 127;

std::string finished(ExitStatus status) {
  return json{{"code", status.code}, {"signal", status.signal}}.dump();
}

int node_of(const MpiLink& link) {
  const auto own = std::find_if(link.hosts.begin(), link.hosts.end(),
                                [&](const wire::Host& host) { return host.name == link.host; });
  return own == link.hosts.end() ? 0 : static_cast<int>(own - link.hosts.begin());
}

// The user's program, whose output goes to the leader until it has ended.
class Running {
 public:
  Running(Connection& leader, Child child, Fd output)
      : leader_(leader), child_(std::move(child)), output_(std::move(output)) {}

  // kUnavailable when the leader has gone: then the program is killed.
  Result<ExitStatus> wait() {
    Result<ExitStatus> status = run();
    if (!status) {
      static_cast<void>(child_.signal(SIGKILL));
      static_cast<void>(child_.wait());
    }
    return status;
  }

 private:
  Result<ExitStatus> run() {
    while (true) {
      std::array<pollfd, 3> ready = {
          {{output_.get(), POLLIN, 0}, {child_.pidfd(), POLLIN, 0}, {leader_.fd(), POLLIN, 0}}};
      if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) {
        return errno_error("poll", errno);
      }
      if (ready[0].revents != 0) {
        YARD_TRY(pass_on());
      }
      if (ready[1].revents != 0) {
        YARD_TRY(drain());
        return child_.wait();
      }
      if (ready[2].revents != 0) {
        YARD_TRY(const bool open, leader_.fill());
        if (!open) {
          return Error{Code::kUnavailable, "the leader has gone"};
        }
      }
    }
  }

  Result<void> pass_on() {
    std::array<std::byte, kChunk> chunk;
    const Result<std::size_t> got = read_some(output_.get(), chunk);
    if (!got || *got == 0) {
      output_.reset();
      return {};
    }
    return leader_.send(FrameKind::kOutput, {reinterpret_cast<const char*>(chunk.data()), *got});
  }

  // What the program has written; what a daemon of its may still write is not waited for.
  Result<void> drain() {
    pollfd ready = {output_.get(), POLLIN, 0};
    while (output_.is_open() && poll(&ready, 1, 0) > 0) {
      YARD_TRY(pass_on());
    }
    return {};
  }

  Connection& leader_;
  Child child_;
  Fd output_;
};

Result<std::vector<std::string>> introduce(Connection& leader, int rank, const std::string& host) {
  YARD_TRY(leader.send(FrameKind::kRank, json{{"rank", rank}, {"host", host}}.dump()));
  YARD_TRY(const Frame start, leader.next(kPatience));
  std::vector<std::string> argv = strings_in(json::parse(start.payload, nullptr, false));
  if (start.kind != FrameKind::kStart || argv.empty()) {
    return Error{Code::kCorrupt, "the leader does not say what to run"};
  }
  return argv;
}

Result<ExitStatus> run_program(Connection& leader, std::vector<std::string> argv,
                               const Variables& environment) {
  YARD_TRY(Pipe output, make_pipe());
  const int end = output.write_end.get();
  Result<Child> child =
      spawn({.argv = std::move(argv),
             .env = environment,
             .fds = {{STDIN_FILENO, STDIN_FILENO}, {end, STDOUT_FILENO}, {end, STDERR_FILENO}}});
  output.write_end.reset();
  if (!child) {
    const std::string why = "The program could not be started: " + child.error().message + "\n";
    YARD_TRY(leader.send(FrameKind::kOutput, why));
    return ExitStatus{.code = kNotStarted, .signal = 0};
  }
  return Running(leader, std::move(*child), std::move(output.read_end)).wait();
}

Result<ExitStatus> run_rank(Variables environment, bool overrule, const Fd& signals) {
  YARD_TRY(const MpiLink link, mpi_link_in(environment));
  YARD_TRY(RankPlace place, place_under_mpi(environment));
  place.node = node_of(link);
  place.nodes = static_cast<int>(link.hosts.size());
  environment.erase(kMpiLinkVariable);
  for (const auto& [name, value] : rank_variables(place)) {
    if (overrule) {
      environment[name] = value;
    } else {
      environment.emplace(name, value);
    }
  }
  YARD_TRY(Connection leader,
           dial({.address = link.hosts.front().address, .port = link.port}, link.secret));
  YARD_TRY(std::vector<std::string> argv, introduce(leader, place.rank, link.host));
  // A stop that came before the program did would not reach it.
  ExitStatus status{.code = 0, .signal = SIGTERM};
  if (!stop_came(signals)) {
    YARD_TRY(status, run_program(leader, std::move(argv), environment));
  }
  YARD_TRY(leader.send(FrameKind::kFinished, finished(status)));
  YARD_TRY(leader.next(kPatience));
  return status;
}

// mpirun is to see the signal, too. The program has left a core, if anybody wants one.
[[noreturn]] void end_like(ExitStatus status) {
  if (status.signal != 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::signal(status.signal, SIG_DFL);
    unblock_stop_signals();
    raise(status.signal);
  }
  _exit(shell_code(status));
}

}  // namespace

int rank_main(Variables environment, bool overrule) {
  const Result<Fd> signals = block_stop_signals();
  const Result<ExitStatus> status =
      signals ? run_rank(std::move(environment), overrule, *signals) : signals.error();
  if (!status) {
    std::fprintf(stderr, "trainyard rank: %s\n", status.error().message.c_str());
    return kNotStarted;
  }
  end_like(*status);
}

}  // namespace trainyard::instance
