// SPDX-License-Identifier: Apache-2.0
#include "instance/run/init.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "instance/launch/launch_plan.h"
#include "instance/launch/request.h"
#include "sandbox/container.h"

namespace trainyard::instance {

using nlohmann::json;

std::string to_line(const ProcessEnd& end) {
  json value = {
      {"process", end.process}, {"code", end.code},   {"signal", end.signal},
      {"victim", end.victim},   {"error", end.error}, {"at", end.at.time_since_epoch().count()},
      {"host", end.host},       {"lines", end.lines}, {"sweep", end.is_sweep}};
  if (end.rank) {
    value["rank"] = *end.rank;
  }
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

Result<ProcessEnd> process_end_from_line(std::string_view line) {
  const json value = json::parse(line, nullptr, false);
  const auto number = [&](const char* name) -> std::int64_t {
    const json& found = member(value, name);
    return found.is_number_integer() ? found.get<std::int64_t>() : 0;
  };
  if (!member(value, "process").is_number_integer()) {
    return Error{Code::kInvalidArgument, "not a line of the container's status"};
  }
  ProcessEnd end{.process = static_cast<int>(number("process")),
                 .code = static_cast<int>(number("code")),
                 .signal = static_cast<int>(number("signal")),
                 .victim = flag_at(value, "victim"),
                 .at = WallTime(Duration(number("at"))),
                 .error = text_at(value, "error"),
                 .host = text_at(value, "host"),
                 .lines = strings_in(member(value, "lines")),
                 .is_sweep = flag_at(value, "sweep")};
  if (member(value, "rank").is_number_integer()) {
    end.rank = static_cast<int>(number("rank"));
  }
  return end;
}

std::string to_line(const InitCommand& command) {
  return command.signal == 0 ? "stop " + std::to_string(command.grace.count()) + "\n"
                             : "signal " + std::to_string(command.signal) + "\n";
}

Result<InitCommand> command_from_line(std::string_view line) {
  const std::size_t blank = line.find(' ');
  const std::string_view verb = line.substr(0, blank);
  YARD_TRY(const std::int64_t number,
           parse_int(blank == std::string_view::npos ? "" : line.substr(blank + 1)));
  if (verb == "stop" && number >= 0) {
    return InitCommand{.grace = Duration(number)};
  }
  if (verb == "signal" && (number == SIGUSR1 || number == SIGUSR2)) {
    return InitCommand{.signal = static_cast<int>(number)};
  }
  return Error{Code::kInvalidArgument, "not a command of init"};
}

bool expects_signal(std::string_view status, int number) {
  const auto has = [&](std::string_view field, int which) {
    for (const std::string_view line : split(status, '\n')) {
      if (line.starts_with(field)) {
        const std::string mask(line.substr(field.size()));
        return (std::strtoull(mask.c_str(), nullptr, 16) >> (which - 1) & 1) != 0;
      }
    }
    return false;
  };
  // Shells and libraries block everything for a moment. Nobody waits for SIGSEGV.
  return has("SigCgt:", number) || (has("SigBlk:", number) && !has("SigBlk:", SIGSEGV));
}

namespace {

// After SIGKILL: a process in uninterruptible sleep must not keep the container's end away.
constexpr Duration kKillPatience{5000};
// Of what is left when the plan's processes are over. Well above MirrorTimes::kill_window: what
// these have saved just before they ended was not torn by the kill.
constexpr Duration kRestPatience{1000};

// Every process of the container but ourselves.
std::vector<pid_t> all_others() {
  std::vector<pid_t> pids;
  DIR* const directory = opendir("/proc");
  while (const dirent* entry = directory == nullptr ? nullptr : readdir(directory)) {
    if (const Result<std::int64_t> pid = parse_int(entry->d_name); pid && *pid > 1) {
      pids.push_back(static_cast<pid_t>(*pid));
    }
  }
  if (directory != nullptr) {
    closedir(directory);
  }
  return pids;
}

std::string about(pid_t pid, const char* file) {
  return read_file("/proc/" + std::to_string(pid) + "/" + file).value_or("");
}

void pass_on(int number) {
  for (const pid_t pid : all_others()) {
    if (expects_signal(about(pid, "status"), number)) {
      kill(pid, number);
    }
  }
}

void name_what_stays() {
  for (const pid_t pid : all_others()) {
    const std::string stat = about(pid, "stat");  // "7 (python3) D 1 ..."
    const std::string place = about(pid, "wchan");
    std::fprintf(stderr, "process %s does not end after SIGKILL (state %s, in %s)\n",
                 stat.substr(0, stat.rfind(')') + 1).c_str(),
                 stat.substr(std::min(stat.size(), stat.rfind(')') + 2), 1).c_str(), place.c_str());
  }
}

class Init {
 public:
  explicit Init(std::vector<Process> plan) : plan_(std::move(plan)) {}

  int run() {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    ends_ = Fd(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
    for (std::size_t i = 0; i < plan_.size() && !stopping_; ++i) {
      start(static_cast<int>(i));
    }
    take_stock();
    while (!is_over()) {
      wait_for_news();
      take_stock();
    }
    if (killed_) {
      report({.is_sweep = true});
    }
    return 0;
  }

 private:
  bool is_over() const { return given_up_ || (running_.empty() && is_alone_); }

  void take_stock() {
    reap();
    hurry_the_rest();
    escalate();
  }

  // What runs beside the plan's processes has the whole time of a stop only where that has cut one
  // of them off: what that one had started, a shell its script, may be saving its work.
  void hurry_the_rest() {
    if (!running_.empty() || was_cut_off_ || killed_ || is_hurried_) {
      return;
    }
    const SteadyTime then = clock_.steady_now() + kRestPatience;
    deadline_ = stopping_ ? std::min(deadline_, then) : then;
    stopping_ = true;
    is_hurried_ = true;
  }

  void start(int index) {
    const Process& process = plan_[static_cast<std::size_t>(index)];
    const int output = kFirstOutputFd + index;
    std::vector<std::pair<int, int>> fds = {{output, STDOUT_FILENO}, {output, STDERR_FILENO}};
    if (process.is_launcher) {
      fds.emplace_back(kStatusFd, kStatusFd);
    }
    Result<Child> child = spawn({.argv = process.argv,
                                 .env = process.environment,
                                 .directory = process.directory,
                                 .fds = std::move(fds),
                                 .new_session = true});
    close(output);
    if (child) {
      running_.emplace(child->pid(), index);
      children_.push_back(std::move(*child));
      return;
    }
    report({.process = index, .code = 127, .error = child.error().message});
    begin_stop(kVictimGrace);
  }

  void wait_for_news() {
    std::array<pollfd, 2> ready = {
        {{commands_open_ ? kCommandFd : -1, POLLIN, 0}, {ends_.get(), POLLIN, 0}}};
    int time = -1;
    if (stopping_) {
      const auto left = std::chrono::ceil<Duration>(deadline_ - clock_.steady_now()).count();
      time = static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
    }
    if (poll(ready.data(), ready.size(), time) <= 0) {
      return;
    }
    if (ready[1].revents != 0) {
      std::array<std::byte, sizeof(signalfd_siginfo)> heard;
      static_cast<void>(read_some(ends_.get(), heard));
    }
    if (ready[0].revents != 0) {
      read_commands();
    }
  }

  // waitpid takes orphans and processes of the plan alike, so no Child is ever asked.
  void reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      const auto found = running_.find(pid);
      if (found == running_.end()) {
        continue;
      }
      ProcessEnd end{.process = found->second, .victim = stopping_};
      end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      running_.erase(found);
      report(end);
      if (end.code == 0 && end.signal == 0) {
        continue;
      }
      was_cut_off_ = true;
      if (!stopping_) {  // one that dies of a stop takes no time from the others
        begin_stop(kVictimGrace);
      }
    }
    is_alone_ = pid < 0 && errno == ECHILD;
  }

  void read_commands() {
    std::array<std::byte, 256> piece;
    const Result<std::size_t> got = read_some(kCommandFd, piece);
    if (!got || *got == 0) {
      // Only the supervisor's death closes it; --die-with-parent is ending us, too.
      commands_open_ = false;
      return;
    }
    command_.append(reinterpret_cast<const char*>(piece.data()), *got);
    for (std::size_t end = 0; (end = command_.find('\n')) != std::string::npos;) {
      const Result<InitCommand> command = command_from_line(command_.substr(0, end));
      if (command && command->signal != 0) {
        pass_on(command->signal);
      } else if (command) {
        begin_stop(command->grace);
      }
      command_.erase(0, end + 1);
    }
  }

  // SIGTERM to every process of the container at once; one that is stopped has to wake to hear it.
  // A second stop can only shorten the time.
  void begin_stop(Duration grace) {
    const SteadyTime deadline = clock_.steady_now() + grace;
    if (!stopping_) {
      kill(-1, SIGTERM);
      kill(-1, SIGCONT);
    }
    if (!stopping_ || (!killed_ && deadline < deadline_)) {
      deadline_ = deadline;
    }
    stopping_ = true;
  }

  void escalate() {
    if (!stopping_ || is_over() || clock_.steady_now() < deadline_) {
      return;
    }
    if (killed_) {
      name_what_stays();
      given_up_ = true;
      return;
    }
    kill(-1, SIGKILL);
    killed_ = true;
    deadline_ = clock_.steady_now() + kKillPatience;
  }

  void report(ProcessEnd end) {
    end.at = clock_.now();
    // A supervisor that cannot be told is gone, and takes us with it.
    static_cast<void>(write_all(kStatusFd, to_line(end) + "\n"));
  }

  SystemClock clock_;
  std::vector<Process> plan_;
  std::vector<Child> children_;
  std::map<pid_t, int> running_;  // of the plan
  std::string command_;
  Fd ends_;  // readable when a child has ended
  bool commands_open_ = true;
  bool is_alone_ = false;     // no process but ourselves is left
  bool was_cut_off_ = false;  // a process of the plan has failed or was killed
  bool stopping_ = false;
  bool is_hurried_ = false;  // what is left, by hurry_the_rest()
  bool killed_ = false;
  bool given_up_ = false;
  SteadyTime deadline_{};
};

Result<std::vector<Process>> read_plan() {
  std::string text;
  std::array<std::byte, 65536> piece;
  while (true) {
    YARD_TRY(const std::size_t got, read_some(kPlanFd, piece));
    if (got == 0) {
      break;
    }
    text.append(reinterpret_cast<const char*>(piece.data()), got);
  }
  close(kPlanFd);
  const json list = json::parse(text, nullptr, false);
  if (!list.is_array()) {
    return Error{Code::kInvalidArgument, "the launch plan is not a JSON list"};
  }
  std::vector<Process> plan;
  for (const json& item : list) {
    YARD_TRY(plan.emplace_back(), process_from_json(item));
  }
  return plan;
}

// bubblewrap limits what we hold; this limits what could ever be gained again.
void drop_bounding_set() {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data = {};
  if (syscall(SYS_capget, &header, data.data()) != 0) {
    return;
  }
  for (unsigned capability = 0; capability < 64; ++capability) {
    if ((data[capability / 32].permitted & (1U << (capability % 32))) == 0) {
      prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    }
  }
}

}  // namespace

int init_main(const std::vector<std::string>& args) {
  signal(SIGPIPE, SIG_IGN);
  close(sandbox::kProgramFd);
  const Result<std::int64_t> outputs = args.empty() ? Result<std::int64_t>(0) : parse_int(args[0]);
  for (int fd = kCommandFd; fd < kFirstOutputFd + static_cast<int>(outputs ? *outputs : 0); ++fd) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  drop_bounding_set();
  Result<std::vector<Process>> plan = read_plan();
  if (!plan) {
    std::fprintf(stderr, "instance-init: %s\n", plan.error().message.c_str());
    return 125;
  }
  return Init(std::move(*plan)).run();
}

}  // namespace trainyard::instance
