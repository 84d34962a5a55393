// SPDX-License-Identifier: Apache-2.0
#include "comm/health/dump_signal.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <map>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace trainyard::comm {
namespace {

constinit std::atomic<int> wake = -1;
constinit std::atomic<pid_t> listener = 0;  // children of fork() have the handler, but no thread

void on_signal(int) {
  const int before = errno;
  if (::getpid() == listener.load(std::memory_order_relaxed)) {
    ::eventfd_write(wake.load(std::memory_order_relaxed), 1);
  }
  errno = before;
}

// What the process has asked for. Never destroyed: its thread lives as long as the process.
class Dumps {
 public:
  std::uint64_t add(std::function<void()> dump) {
    const MutexLock lock(mutex_);
    if (listener != ::getpid()) {  // the first one, of this process
      all_.clear();
      listen();
    }
    all_.emplace(++last_, std::move(dump));
    return last_;
  }
  void remove(std::uint64_t number) {
    const MutexLock lock(mutex_);
    all_.erase(number);
  }

 private:
  void listen() {
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    struct sigaction current {};
    if (fd < 0 || ::sigaction(SIGUSR2, nullptr, &current) != 0) {
      log_warning("comm: SIGUSR2 brings no flight records: no descriptor is left");
      return;
    }
    const bool is_ours = (current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == on_signal;
    wake = fd;
    listener = ::getpid();
    start_thread("comm-dump", [this, fd](std::stop_token) { run(fd); }).detach();
    if (!is_ours && (current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == SIG_DFL) {
      struct sigaction action {};
      action.sa_handler = on_signal;
      action.sa_flags = SA_RESTART;
      ::sigaction(SIGUSR2, &action, nullptr);
    }
  }

  void run(int fd) {
    while (true) {
      eventfd_t count = 0;
      if (::eventfd_read(fd, &count) != 0) {
        if (errno == EINTR) {
          continue;
        }
        return;
      }
      const MutexLock lock(mutex_);
      for (const auto& [number, dump] : all_) {
        dump();
      }
    }
  }

  Mutex mutex_;
  std::map<std::uint64_t, std::function<void()>> all_ GUARDED_BY(mutex_);
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
};

Dumps& dumps() {
  static Dumps* all = new Dumps;  // see there
  return *all;
}

}  // namespace

OnDumpSignal::OnDumpSignal(std::function<void()> dump) : number_(dumps().add(std::move(dump))) {}

OnDumpSignal::~OnDumpSignal() {
  dumps().remove(number_);
}

}  // namespace trainyard::comm
