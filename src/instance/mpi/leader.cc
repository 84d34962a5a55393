// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/leader.h"

#include <array>
#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <variant>

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "base/thread.h"
#include "instance/launch/mpi_command.h"
#include "instance/launch/mpi_link.h"
#include "instance/mpi/gathering.h"
#include "instance/mpi/rank_talk.h"
#include "instance/mpi/report.h"
#include "instance/mpi/stop_signals.h"
#include "instance/mpi/verdict.h"
#include "instance/remote_shell/acceptor.h"
#include "instance/run/init.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;

constexpr Duration kWorkersPatience{60'000};
constexpr Duration kRetry{20};
constexpr Duration kQuietPatience{2'000};  // for what is still on its way when mpirun has ended
constexpr Duration kVerdictPatience{5'000};
constexpr Duration kTick{250};  // for progress bars that stand still
constexpr Duration kImportPatience{60'000};
constexpr std::size_t kMostEvents = 256;
constexpr int kWatchInterval = 100;  // milliseconds

struct Joined {};
struct Heard {
  int rank = 0;
  std::string bytes;
};
struct MpirunEnded {
  Result<ExitStatus> status;
};
struct StopAsked {};
struct WorkerLost {
  std::string host;
};
using Event = std::variant<Joined, Heard, RankEnd, MpirunEnded, StopAsked, WorkerLost>;
using Events = BoundedQueue<Event>;

struct Mpirun {
  Child child;
  Fd output;
};

class Leader {
 public:
  Leader(LeaderWork work, MpiLink link, Fd signals)
      : work_(std::move(work)),
        link_(std::move(link)),
        signals_(std::move(signals)),
        gathering_(!work_.alone),
        events_(kMostEvents) {}

  ~Leader() {
    events_.close();  // nobody waits for us any more
  }

  // The end of the launch. An error: a worker is not there, or is there no more.
  Result<ProcessEnd> run() {
    choose_program();
    watch_signals();
    YARD_TRY(listen_for_ranks());
    YARD_TRY(find_workers());
    watch_workers();
    YARD_TRY(start_mpirun());
    while (!facts_.has_value() && !lost_) {
      handle_next(kTick);
    }
    if (lost_) {
      return Error{Code::kUnavailable, "the connection to " + *lost_ + " is lost"};
    }
    const auto deadline = clock_.steady_now() + kQuietPatience;
    while (!gathering_.is_quiet() && clock_.steady_now() < deadline) {
      handle_next(kTick);
    }
    facts_->ends = gathering_.ends();
    facts_->stopping = stopping_;
    ProcessEnd end = verdict_of(*facts_);
    if (!end.rank) {
      end.lines = gathering_.tail(Gathering::kMpirun);
    }
    tell_workers(end);
    return end;
  }

 private:
  // mpi4py ends the whole launch when a rank raises, where others would wait for it for ever.
  void choose_program() {
    std::vector<std::string> program = work_.program;
    if (work_.offer_mpi4py) {
      const Result<Output> found = run_command(
          {.argv = {program[0], "-c",
                    "import importlib.util as u, sys; sys.exit(u.find_spec('mpi4py') is None)"},
           .env = work_.environment},
          kImportPatience);
      if (found && found->status.ok()) {
        program.insert(program.begin() + 1, {"-m", "mpi4py"});
      }
    }
    start_ = json(program).dump(-1, ' ', false, json::error_handler_t::replace);
  }

  Result<void> listen_for_ranks() {
    RankSinks sinks{.start = [this] { return may_start_ ? std::optional(start_) : std::nullopt; },
                    .joined = [this] { events_.push(Joined{}); },
                    .heard =
                        [this](int rank, std::string bytes) {
                          events_.push(Heard{rank, std::move(bytes)});
                        },
                    .ended = [this](RankEnd end) { events_.push(std::move(end)); }};
    YARD_TRY(ranks_, Acceptor::listen(
                         {.address = link_.hosts.front().address, .port = link_.port}, link_.secret,
                         [sinks = std::move(sinks)](Connection rank, const auto& stop) {
                           talk_to_rank(std::move(rank), sinks, stop);
                         }));
    return {};
  }

  void watch_signals() {
    signal_watch_ = start_thread("signals", [this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd ready = {signals_.get(), POLLIN, 0};
        if (poll(&ready, 1, kWatchInterval) > 0 && stop_came(signals_)) {
          may_start_ = false;
          events_.push(StopAsked{});
        }
      }
    });
  }

  // The barrier: no rank is started before every instance can be reached.
  Result<void> find_workers() {
    const auto deadline = clock_.steady_now() + kWorkersPatience;
    for (std::size_t i = 1; i < link_.hosts.size(); ++i) {
      const wire::Host& host = link_.hosts[i];
      Result<Connection> worker = dial({host.address, link_.port}, link_.secret);
      while (!worker && worker.error().code == Code::kUnavailable &&
             clock_.steady_now() < deadline && !stopping_) {
        handle_next(kRetry);
        worker = dial({host.address, link_.port}, link_.secret);
      }
      if (!worker) {
        return std::move(worker).error().in("reaching the remote shell of " + host.name);
      }
      YARD_TRY(worker->send(FrameKind::kWatch));
      workers_.emplace_back(host.name, std::move(*worker));
    }
    return {};
  }

  // A worker says nothing; what becomes readable is its end.
  void watch_workers() {
    worker_watch_ = start_thread("workers", [this](const std::stop_token& stop) {
      std::vector<pollfd> ready;
      ready.reserve(workers_.size());
      for (const auto& [host, worker] : workers_) {
        ready.push_back({worker.fd(), POLLIN | POLLRDHUP, 0});
      }
      while (!stop.stop_requested()) {
        poll(ready.data(), ready.size(), kWatchInterval);
        for (std::size_t i = 0; i < ready.size(); ++i) {
          if (ready[i].revents != 0 && !stop.stop_requested()) {
            events_.push(WorkerLost{workers_[i].first});
            return;
          }
        }
      }
    });
  }

  Result<void> start_mpirun() {
    YARD_TRY(Pipe output, make_pipe());
    std::vector<std::string> argv = {kOwnProgram, kMpiVerb, "guard"};
    argv.insert(argv.end(), work_.mpirun.begin(), work_.mpirun.end());
    const int end = output.write_end.get();
    YARD_TRY(Child child, spawn({.argv = std::move(argv),
                                 .env = work_.environment,
                                 .fds = {{end, STDOUT_FILENO}, {end, STDERR_FILENO}}}));
    output.write_end.reset();
    // Shared with nobody: a thread's body has to be copyable.
    auto mpirun = std::make_shared<Mpirun>(Mpirun{std::move(child), std::move(output.read_end)});
    mpirun_watch_ = start_thread(
        "mpirun", [this, mpirun](const std::stop_token& stop) { follow(*mpirun, stop); });
    return {};
  }

  void follow(Mpirun& mpirun, const std::stop_token& stop) {
    std::array<std::byte, 65536> chunk;
    std::array<pollfd, 2> ready = {
        {{mpirun.output.get(), POLLIN, 0}, {mpirun.child.pidfd(), POLLIN, 0}}};
    while (!stop.stop_requested()) {
      poll(ready.data(), ready.size(), kWatchInterval);
      if (ready[0].revents != 0) {
        const Result<std::size_t> got = read_some(mpirun.output.get(), chunk);
        if (got && *got > 0) {
          events_.push(
              Heard{Gathering::kMpirun, {reinterpret_cast<const char*>(chunk.data()), *got}});
          continue;
        }
        ready[0].fd = -1;
      }
      if (ready[1].revents != 0) {
        events_.push(MpirunEnded{mpirun.child.wait()});
        return;
      }
    }
    static_cast<void>(mpirun.child.signal(SIGKILL));
  }

  void handle_next(Duration time) {
    if (std::optional<Event> event = events_.pop_for(time)) {
      std::visit([this](auto& happened) { on(happened); }, *event);
    } else {
      show(gathering_.tick(clock_.steady_now()));
    }
  }

  void on(const Joined& /*event*/) { gathering_.joined(); }
  void on(const Heard& event) {
    show(gathering_.heard(event.rank, event.bytes, clock_.steady_now()));
  }
  void on(RankEnd& end) {
    end.at = clock_.now();
    show(gathering_.ended(std::move(end)));
  }
  void on(MpirunEnded& event) {
    facts_.emplace(
        LaunchFacts{.mpirun = std::move(event.status).value_or({.code = 127}), .at = clock_.now()});
  }
  void on(const StopAsked& /*event*/) { stopping_ = true; }
  void on(const WorkerLost& event) { lost_ = event.host; }

  static void show(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) {
      text += line + "\n";
    }
    // A supervisor that cannot be told is gone, and takes us with it.
    static_cast<void>(write_all(STDOUT_FILENO, text));
  }

  // They end when they have told their supervisors. Nothing is taken from the queue any more:
  // nobody may wait for room in it, the watch least of all, for which we wait.
  void tell_workers(const ProcessEnd& end) {
    events_.close();
    worker_watch_.request_stop();
    worker_watch_.join();
    for (auto& [host, worker] : workers_) {
      static_cast<void>(worker.send(FrameKind::kVerdict, to_line(end)));
    }
    for (auto& [host, worker] : workers_) {
      static_cast<void>(worker.next(kVerdictPatience));
    }
  }

  LeaderWork work_;
  MpiLink link_;
  Fd signals_;
  SystemClock clock_;
  std::string start_;  // payload of kStart
  std::atomic<bool> may_start_ = true;
  std::vector<std::pair<std::string, Connection>> workers_;

  Gathering gathering_;
  bool stopping_ = false;
  std::optional<std::string> lost_;
  std::optional<LaunchFacts> facts_;  // once mpirun has ended

  Events events_;
  // Last: they end before what they use.
  std::unique_ptr<Acceptor> ranks_;
  std::jthread signal_watch_;
  std::jthread worker_watch_;
  std::jthread mpirun_watch_;
};

}  // namespace

int lead_main(LeaderWork work) {
  Result<Fd> signals = block_stop_signals();
  Result<MpiLink> link = mpi_link_in(work.environment);
  if (!signals || !link) {
    return report_lost(link ? signals.error() : link.error());
  }
  Leader leader(std::move(work), std::move(*link), std::move(*signals));
  const Result<ProcessEnd> end = leader.run();
  return end ? report_end(*end) : report_lost(end.error());
}

}  // namespace trainyard::instance
