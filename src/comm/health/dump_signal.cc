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

}  // namespace

// What a process has asked for. Never destroyed: its thread lives as long as the process.
class OnDumpSignal::Dumps {
 public:
  // This process's own. A child of fork() gets another one: here, a lock may be held for ever.
  static Dumps& here();

  bool is_elsewhere() const { return process_ != ::getpid(); }
  std::uint64_t add(std::function<void()> dump) {
    const MutexLock lock(mutex_);
    all_.emplace(++last_, std::move(dump));
    return last_;
  }
  void remove(std::uint64_t number) {
    const MutexLock lock(mutex_);
    all_.erase(number);
  }

 private:
  void listen();
  void run(int fd);

  const pid_t process_ = ::getpid();
  Mutex mutex_;
  std::map<std::uint64_t, std::function<void()>> all_ GUARDED_BY(mutex_);
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
};

OnDumpSignal::Dumps& OnDumpSignal::Dumps::here() {
  static constinit Mutex mutex;
  static constinit Dumps* all = nullptr;
  const MutexLock lock(mutex);
  if (all == nullptr || all->is_elsewhere()) {
    all = new Dumps;
    all->listen();
  }
  return *all;
}

void OnDumpSignal::Dumps::listen() {
  const int fd = ::eventfd(0, EFD_CLOEXEC);
  struct sigaction current {};
  if (fd < 0 || ::sigaction(SIGUSR2, nullptr, &current) != 0) {
    log_warning("comm: SIGUSR2 brings no flight records: no descriptor is left");
    return;
  }
  wake = fd;
  listener = process_;
  start_thread("comm-dump", [this, fd](std::stop_token) { run(fd); }).detach();
  if ((current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == SIG_DFL) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGUSR2, &action, nullptr);
  }
}

void OnDumpSignal::Dumps::run(int fd) {
  eventfd_t count = 0;
  while (true) {
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

OnDumpSignal::OnDumpSignal(std::function<void()> dump)
    : dumps_(Dumps::here()), number_(dumps_.add(std::move(dump))) {}

OnDumpSignal::~OnDumpSignal() {
  if (!dumps_.is_elsewhere()) {
    dumps_.remove(number_);
  }
}

}  // namespace trainyard::comm
