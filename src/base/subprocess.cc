// SPDX-License-Identifier: Apache-2.0
// A child is made as vfork makes one: it borrows our memory on a stack of its own and we stand
// still until it has become the new program. So nothing is copied however large we are, an exec
// that fails is told through a variable, and the child calls nothing but system calls.
#include "base/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <memory>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

extern char** environ;

namespace trainyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kStackBytes = std::size_t{64} << 10;
struct alignas(16) Stack {  // the ABI wants its top aligned
  std::array<std::byte, kStackBytes> bytes;
};
constexpr std::size_t kMaxOutput = std::size_t{64} << 20;

// ThreadSanitizer takes any clone for a fork and marks "its" memory as the child's: there the child
// must have memory of its own.
#if defined(__SANITIZE_THREAD__)
constexpr int kBorrowMemory = 0;
#else
constexpr int kBorrowMemory = CLONE_VM;
#endif

// What the child writes, in a page that is shared even when memory is not.
struct Failure {
  const char* call;  // null: it has become the program
  int number;
};
struct Unmap {
  void operator()(Failure* failure) const { munmap(failure, sizeof *failure); }
};

// All that the child needs, made before it exists.
struct Plan {
  std::vector<std::string> programs;  // tried in turn
  std::vector<char*> argv;
  std::vector<std::string> env_text;
  std::vector<char*> envp;
  std::string directory;
  std::vector<std::pair<int, int>> fds;  // sorted by the number in the child
  int network_namespace = -1;
  bool new_session = false;
  bool die_with_parent = false;
  pid_t parent = 0;

  std::unique_ptr<Failure, Unmap> failure;
};

std::vector<std::string> environment(const SpawnOptions& options) {
  std::map<std::string, std::string> all = options.env;
  if (options.inherit_env) {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::size_t equals = text.find('=');
      if (equals != std::string_view::npos) {
        all.emplace(text.substr(0, equals), text.substr(equals + 1));
      }
    }
  }
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const auto& [name, value] : all) {
    lines.push_back(fmt::format("{}={}", name, value));
  }
  return lines;
}

// The child's own PATH decides, then ours.
std::vector<std::string> programs(const SpawnOptions& options) {
  const std::string& name = options.argv[0];
  if (name.find('/') != std::string::npos) {
    return {name};
  }
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  if (const auto own = options.env.find("PATH"); own != options.env.end()) {
    path = own->second;
  } else if (const char* ours = getenv("PATH")) {
    path = ours;
  }
  std::vector<std::string> found;
  for (const std::string_view folder : split(path, ':')) {
    found.push_back((folder.empty() ? "." : std::string(folder)) + "/" + name);
  }
  return found;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    out.push_back(const_cast<char*>(text.c_str()));  // exec's signature is older than const
  }
  out.push_back(nullptr);
  return out;
}

Result<void> fill_plan(const SpawnOptions& options, Plan& plan) {
  if (options.argv.empty() || options.argv[0].empty()) {
    return Error{Code::kInvalidArgument, "a program to start has no name"};
  }
  plan.programs = programs(options);
  plan.argv = pointers(options.argv);
  plan.env_text = environment(options);
  plan.envp = pointers(plan.env_text);
  plan.directory = options.directory.string();
  plan.fds = options.fds;
  for (int standard = 0; standard < 3; ++standard) {
    if (std::none_of(options.fds.begin(), options.fds.end(),
                     [&](const auto& pair) { return pair.second == standard; })) {
      plan.fds.emplace_back(-1, standard);  // -1: /dev/null
    }
  }
  std::sort(plan.fds.begin(), plan.fds.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  for (std::size_t i = 0; i < plan.fds.size(); ++i) {
    if (plan.fds[i].second < 0 || (i > 0 && plan.fds[i].second == plan.fds[i - 1].second)) {
      return Error{Code::kInvalidArgument, "a descriptor number of a child is negative or twice"};
    }
  }
  plan.network_namespace = options.network_namespace.value_or(-1);
  plan.new_session = options.new_session;
  plan.die_with_parent = options.die_with_parent;
  plan.parent = getpid();
  void* page =
      mmap(nullptr, sizeof(Failure), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return errno_error("start " + options.argv[0], errno);
  }
  plan.failure.reset(static_cast<Failure*>(page));
  return {};
}

// From here to run_child(): the child's side. System calls only, no allocation.

bool move_descriptors(Plan& plan) {
  const int above = plan.fds.back().second + 1;
  for (auto& [ours, number] : plan.fds) {
    // First out of the way of every number that is wanted, then onto it.
    const int source = ours >= 0 ? ours : open("/dev/null", O_RDWR | O_CLOEXEC);
    const int parked = source < 0 ? -1 : fcntl(source, F_DUPFD_CLOEXEC, above);
    if (parked < 0) {
      return false;
    }
    ours = parked;
  }
  for (const auto& [parked, number] : plan.fds) {
    if (dup2(parked, number) < 0) {
      return false;
    }
  }
  unsigned first = 0;
  for (const auto& [parked, number] : plan.fds) {
    const auto kept = static_cast<unsigned>(number);
    if (first < kept && syscall(SYS_close_range, first, kept - 1, 0) != 0) {
      return false;
    }
    first = kept + 1;
  }
  return syscall(SYS_close_range, first, UINT_MAX, 0) == 0;
}

// A handler of ours must not run in the child, and a signal that we ignore (SIGPIPE) must not stay
// ignored: that survives exec and surprises every shell pipeline.
void reset_signals() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    sigaction(number, &standard, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

int refuse(Plan& plan, const char* call) {
  *plan.failure = {.call = call, .number = errno};
  _exit(127);
}

int run_child(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  if (plan.new_session && setsid() < 0) {
    return refuse(plan, "setsid");
  }
  if (plan.die_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
      return refuse(plan, "prctl");
    }
    // It may have died before the request was made.
    if (getppid() != plan.parent) {
      _exit(127);
    }
  }
  if (plan.network_namespace >= 0 && setns(plan.network_namespace, CLONE_NEWNET) != 0) {
    return refuse(plan, "setns");
  }
  if (!plan.directory.empty() && chdir(plan.directory.c_str()) != 0) {
    return refuse(plan, "chdir");
  }
  if (!move_descriptors(plan)) {
    return refuse(plan, "dup");
  }
  reset_signals();
  int failure = ENOENT;
  for (const std::string& program : plan.programs) {
    execve(program.c_str(), plan.argv.data(), plan.envp.data());
    // As execvp: a folder without it is passed over, a file that may not be run is remembered.
    if (errno != ENOENT && errno != ENOTDIR) {
      failure = errno;
      if (errno != EACCES) {
        break;
      }
    }
  }
  errno = failure;
  return refuse(plan, "exec");
}

milliseconds left_until(steady_clock::time_point deadline) {
  return std::max(std::chrono::ceil<milliseconds>(deadline - steady_clock::now()), milliseconds(0));
}

int poll_timeout(milliseconds time) {
  return static_cast<int>(std::clamp<long long>(time.count(), 0, INT_MAX));
}

Error failed_start(const SpawnOptions& options, const Plan& plan) {
  const std::string_view call = plan.failure->call;
  std::string what = "start " + options.argv[0];
  if (call == "chdir") {
    what += " in " + plan.directory;
  } else if (call != "exec") {
    what += " (" + std::string(call) + ")";
  }
  return errno_error(what, plan.failure->number);
}

}  // namespace

std::string to_string(ExitStatus status) {
  if (status.signal == 0) {
    return "exit code " + std::to_string(status.code);
  }
  const char* name = sigabbrev_np(status.signal);
  return "signal " + std::to_string(status.signal) +
         (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
}

Result<Child> spawn(const SpawnOptions& options) {
  Plan plan;
  YARD_TRY(fill_plan(options, plan));
  const auto stack = std::make_unique<Stack>();

  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  const pid_t pid = clone(run_child, stack->bytes.data() + kStackBytes,
                          kBorrowMemory | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &plan, &pidfd);
  const int clone_errno = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return errno_error("start " + options.argv[0], clone_errno);
  }
  Child child(pid, Fd(pidfd));
  if (plan.failure->call != nullptr) {
    YARD_TRY(child.wait());
    return failed_start(options, plan);
  }
  return child;
}

Result<std::optional<ExitStatus>> Child::wait_for(milliseconds time) {
  const auto deadline =
      steady_clock::now() + std::min<milliseconds>(time, std::chrono::hours(24 * 365));
  while (!status_) {
    siginfo_t info = {};
    if (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) != 0 &&
        errno != EINTR) {
      return errno_error("wait for process " + std::to_string(pid_), errno);
    }
    if (info.si_pid != 0) {
      status_ = info.si_code == CLD_EXITED ? ExitStatus{.code = info.si_status, .signal = 0}
                                           : ExitStatus{.code = 0, .signal = info.si_status};
      break;
    }
    const milliseconds left = left_until(deadline);
    if (left.count() == 0) {
      return std::optional<ExitStatus>();
    }
    pollfd ready = {.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, poll_timeout(left)) < 0 && errno != EINTR) {
      return errno_error("poll", errno);
    }
  }
  return status_;
}

Result<ExitStatus> Child::wait() {
  for (;;) {
    YARD_TRY(const auto status, wait_for(std::chrono::hours(24)));
    if (status) {
      return *status;
    }
  }
}

Result<void> Child::signal(int number) {
  if (status_) {
    return Error{Code::kNotFound, "process " + std::to_string(pid_) + " has ended"};
  }
  if (syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) != 0) {
    return errno_error("signal process " + std::to_string(pid_), errno);
  }
  return {};
}

namespace {

// Collects both streams until the command has ended and they are dry. A grandchild that keeps a
// stream open is not waited for.
class Collector {
 public:
  Collector(Child child, Fd out, Fd err) : child_(std::move(child)) {
    streams_[0].fd = std::move(out);
    streams_[1].fd = std::move(err);
  }

  Result<Output> run(steady_clock::time_point deadline) {
    std::optional<ExitStatus> status;
    while (streams_[0].fd.is_open() || streams_[1].fd.is_open() || !status) {
      const milliseconds left = status ? milliseconds(0) : left_until(deadline);
      if (!status && left.count() == 0) {
        return Error{Code::kDeadline, "it did not end in time and was killed"};
      }
      YARD_TRY(const bool any, read_ready(left, status.has_value()));
      if (status && !any) {
        break;
      }
      if (!status) {
        YARD_TRY(status, child_.wait_for(milliseconds(0)));
      }
    }
    return Output{
        .status = *status, .out = std::move(streams_[0].text), .err = std::move(streams_[1].text)};
  }

  // The whole session: a shell's own children would go on otherwise.
  void kill_all() {
    kill(-child_.pid(), SIGKILL);
    static_cast<void>(child_.wait());
  }

 private:
  struct Stream {
    Fd fd;
    std::string text;
  };

  // Waits for something to read, or for the end of the command, and takes one piece of each stream.
  Result<bool> read_ready(milliseconds time, bool ended) {
    std::array<pollfd, 3> ready = {{{streams_[0].fd.get(), POLLIN, 0},
                                    {streams_[1].fd.get(), POLLIN, 0},
                                    {ended ? -1 : child_.pidfd(), POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), poll_timeout(time)) < 0 && errno != EINTR) {
      return errno_error("poll", errno);
    }
    bool any = false;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (ready[i].revents != 0) {
        any = true;
        YARD_TRY(read_one(streams_[i]));
      }
    }
    return any;
  }

  static Result<void> read_one(Stream& stream) {
    std::array<std::byte, 16384> piece;
    YARD_TRY(const std::size_t got, read_some(stream.fd.get(), piece));
    if (got == 0) {
      stream.fd.reset();
    }
    stream.text.append(reinterpret_cast<const char*>(piece.data()), got);
    if (stream.text.size() > kMaxOutput) {
      return Error{Code::kExhausted, "it prints more than " + human_bytes(kMaxOutput)};
    }
    return {};
  }

  Child child_;
  std::array<Stream, 2> streams_;
};

}  // namespace

Result<Output> run_command(const SpawnOptions& options, milliseconds deadline) {
  const auto end = steady_clock::now() + deadline;
  YARD_TRY(Pipe out, make_pipe());
  YARD_TRY(Pipe err, make_pipe());
  SpawnOptions with_pipes = options;
  with_pipes.fds.emplace_back(out.write_end.get(), STDOUT_FILENO);
  with_pipes.fds.emplace_back(err.write_end.get(), STDERR_FILENO);
  with_pipes.new_session = true;
  with_pipes.die_with_parent = true;
  YARD_TRY(Child child, spawn(with_pipes));
  out.write_end.reset();
  err.write_end.reset();
  Collector collector(std::move(child), std::move(out.read_end), std::move(err.read_end));
  auto output = collector.run(end);
  if (!output) {
    collector.kill_all();
    return output.error().in("running " + options.argv[0]);
  }
  return output;
}

}  // namespace trainyard
