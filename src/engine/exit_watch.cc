// SPDX-License-Identifier: Apache-2.0
#include "engine/exit_watch.h"

#include <array>
#include <cerrno>
#include <string_view>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/thread.h"

namespace trainyard::engine {
namespace {

constexpr std::uint64_t kWakeKey = 0;

Result<void> watch(int epoll, int fd, std::uint64_t key) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = key;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    return errno_error("epoll_ctl", errno);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ExitWatch>> ExitWatch::make() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  Fd wake(eventfd(0, EFD_CLOEXEC));
  if (!epoll.is_open() || !wake.is_open()) {
    return errno_error("watching processes", errno);
  }
  YARD_TRY(watch(epoll.get(), wake.get(), kWakeKey));
  std::unique_ptr<ExitWatch> made(new ExitWatch(std::move(epoll), std::move(wake)));
  made->thread_ = start_thread(
      "exit-watch", [self = made.get()](const std::stop_token& stop) { self->run(stop); });
  return made;
}

ExitWatch::~ExitWatch() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  if (auto woken = write_all(wake_.get(), std::as_bytes(std::span(&one, 1))); !woken) {
    log_error(woken.error().in("ending the watch of processes").message);
  }
  thread_.join();
}

Result<void> ExitWatch::add(Fd pidfd, std::function<void()> ended) {
  const MutexLock lock(mutex_);
  const std::uint64_t key = next_key_++;
  YARD_TRY(watch(epoll_.get(), pidfd.get(), key));
  // The thread takes the entry under this lock, so it cannot be too early.
  entries_.emplace(key, Entry{.pidfd = std::move(pidfd), .ended = std::move(ended)});
  return {};
}

void ExitWatch::run(const std::stop_token& stop) {
  std::array<epoll_event, 64> events;
  while (!stop.stop_requested()) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count && !stop.stop_requested(); ++i) {
      if (events[static_cast<std::size_t>(i)].data.u64 != kWakeKey) {
        take(events[static_cast<std::size_t>(i)].data.u64);
      }
    }
  }
}

void ExitWatch::take(std::uint64_t key) {
  Entry entry;
  {
    const MutexLock lock(mutex_);
    auto node = entries_.extract(key);
    if (node.empty()) {
      return;
    }
    entry = std::move(node.mapped());
  }
  // ECHILD for a process that is not ours: somebody else reaps it.
  siginfo_t info = {};
  static_cast<void>(
      waitid(P_PIDFD, static_cast<id_t>(entry.pidfd.get()), &info, WEXITED | WNOHANG));
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, entry.pidfd.get(), nullptr);
  entry.ended();
}

}  // namespace trainyard::engine
