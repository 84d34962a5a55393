// SPDX-License-Identifier: Apache-2.0
#include "instance/link/inbox.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "base/log.h"

namespace trainyard::instance {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry{100};
constexpr milliseconds kLastRetry{2000};

// Wakes our own signal thread, so that it can end. The number is known at run time only.
int wake_up() {
  return SIGRTMIN;
}

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, wake_up());
  return set;
}

bool asks_to_restart(const wire::Command& command) {
  return command.kind == wire::Command::Kind::kRestart;
}

bool asks_to_leave(const Event& event) {
  if (const auto* command = std::get_if<wire::Command>(&event)) {
    return command->kind == wire::Command::Kind::kRelease || asks_to_restart(*command);
  }
  return std::holds_alternative<Terminated>(event) || std::holds_alternative<Denied>(event);
}

bool asks_to_stop(const Event& event) {
  if (const auto* command = std::get_if<wire::Command>(&event)) {
    return command->kind == wire::Command::Kind::kStop ||
           command->kind == wire::Command::Kind::kAbort;
  }
  return false;
}

// Sleeps, unless `stop` comes first.
void pause(const std::stop_token& stop, milliseconds time) {
  Mutex mutex;
  ConditionVariable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

void Inbox::block_signals() {
  const sigset_t set = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A peer that closes its connection is an error of a call, not our end.
  signal(SIGPIPE, SIG_IGN);
}

bool Inbox::is_terminated_within(Duration time) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const timespec longest{.tv_sec = seconds.count(),
                         .tv_nsec = std::chrono::nanoseconds(time - seconds).count()};
  return sigtimedwait(&set, nullptr, &longest) > 0;
}

Inbox::Inbox(ServerLink& link) : link_(link) {
  signals_ = start_thread("signals", [this](const std::stop_token& stop) { watch_signals(stop); });
  commands_ =
      start_thread("commands", [this](const std::stop_token& stop) { poll_commands(stop); });
}

Inbox::~Inbox() {
  signals_.request_stop();
  commands_.request_stop();
  events_.close();
  pthread_kill(signals_.native_handle(), wake_up());
  signals_.join();
  commands_.join();
}

void Inbox::push(Event event) {
  const bool leave = asks_to_leave(event);
  const bool stop = leave || asks_to_stop(event);
  events_.push(std::move(event));
  if (stop) {
    stop_.request_stop();
  }
  if (leave) {
    leave_.request_stop();
  }
}

void Inbox::watch_signals(const std::stop_token& stop) {
  const sigset_t set = awaited_signals();
  while (!stop.stop_requested()) {
    const int number = sigwaitinfo(&set, nullptr);
    if (number == SIGTERM || number == SIGINT) {
      log_info("received signal " + std::to_string(number));
      push(Terminated{});
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      push(Forwarded{.signal = number});
    }
  }
}

void Inbox::poll_commands(const std::stop_token& stop) {
  std::int64_t after = 0;
  milliseconds retry = kFirstRetry;
  std::string trouble;  // as the log says: once, for it may last for hours
  while (!stop.stop_requested()) {
    Result<std::vector<wire::Command>> commands = link_.commands(after, stop);
    if (commands) {
      retry = kFirstRetry;
      trouble.clear();
      for (wire::Command& command : *commands) {
        // A server that restarts may repeat what it has sent.
        if (command.seq > after) {
          after = command.seq;
          const bool restart = asks_to_restart(command);
          push(std::move(command));
          if (restart) {
            return;  // in this attempt there is no other answer any more
          }
        }
      }
      continue;
    }
    if (stop.stop_requested()) {
      return;
    }
    if (commands.error().code == Code::kDenied) {
      push(Denied{});
      return;
    }
    const std::string& why = commands.error().message;
    if (!is_unproven(commands.error()) && std::exchange(trouble, why) != why) {
      log_warning("no commands: " + why);
    }
    pause(stop, retry);
    retry = std::min(retry * 2, kLastRetry);
  }
}

}  // namespace trainyard::instance
