// SPDX-License-Identifier: Apache-2.0
// What comes in while a session works, from the server, from the container and by signals, and what
// it does when nothing comes.
#include <algorithm>
#include <csignal>
#include <utility>

#include "base/log.h"
#include "instance/session.h"

namespace trainyard::instance {

void Session::wait_for_event(Duration longest) {
  if (std::optional<Event> event = in_.inbox.next(longest)) {
    take(std::move(*event));
  }
  mind_the_server();
}

// While the store takes no results; false: they are not to be sent any more.
bool Session::wait_to_send(Duration time) {
  const SteadyTime until = in_.clock.steady_now() + time;
  for (Duration left = time; left.count() > 0 && !must_leave();) {
    wait_for_event(std::min(left, kEventInterval));
    left = std::chrono::ceil<Duration>(until - in_.clock.steady_now());
  }
  return !must_leave();
}

void Session::mind_the_server() {
  if (must_leave() || (alone_.runs_since && stopping_)) {
    return;
  }
  alone_.heard = in_.reporter.heard();
  const OrphanLimits limits = orphan_limits(in_.assignment);
  const OrphanStep step = orphan_step(alone_, limits, in_.clock.steady_now());
  if (step == OrphanStep::kGoOn) {
    return;
  }
  const std::string told = describe(step, limits, in_.scratch.string());
  log_error(told);
  in_.reporter.note(told);
  orphaned_ = step == OrphanStep::kLeave;
  overdue_ = step == OrphanStep::kStop;
  ask_to_stop(orphaned_ ? Duration(0) : in_.assignment.stop_grace);
}

void Session::take(Event event) {
  if (auto* command = std::get_if<wire::Command>(&event)) {
    take(*command);
  } else if (auto* end = std::get_if<ProcessEnd>(&event)) {
    take(std::move(*end));
  } else if (std::holds_alternative<ContainerClosed>(event)) {
    closed_ = true;
  } else if (const auto* forwarded = std::get_if<Forwarded>(&event)) {
    pass_on(forwarded->signal);
  } else if (std::holds_alternative<Terminated>(event)) {
    // Asked a second time, there is no more patience.
    ask_to_stop(terminated_ ? Duration(0) : in_.assignment.stop_grace);
    terminated_ = true;
  } else {
    log_warning("this attempt is over: the server no longer knows it");
    ask_to_stop(Duration(0));
    denied_ = true;
  }
}

void Session::take(const wire::Command& command) {
  switch (command.kind) {
    case wire::Command::Kind::kGo:
      go_ = true;
      return;
    case wire::Command::Kind::kStop:
      return ask_to_stop(in_.assignment.stop_grace);
    case wire::Command::Kind::kAbort:
      return ask_to_stop(kVictimGrace);
    case wire::Command::Kind::kUpload:
      upload_ = command;
      return;
    case wire::Command::Kind::kRelease:
      released_ = true;
      return ask_to_stop(Duration(0));
    case wire::Command::Kind::kRestart:
      restart_ = true;
      return ask_to_stop(Duration(0));
    case wire::Command::Kind::kSignal:
      return pass_on(command.signal == wire::UserSignal::kUsr1 ? SIGUSR1 : SIGUSR2);
  }
}

void Session::pass_on(int signal) {
  if (container_) {
    container_->signal(signal);
  }
}

void Session::take(ProcessEnd end) {
  if (end.is_sweep) {
    return checkpoints_.killed({.at = end.at});
  }
  if (was_killed(end)) {
    checkpoints_.killed(
        {.at = end.at, .is_by_stop = stopping_ && end.victim && end.signal != SIGKILL});
  }
  if (end.code != 0 || end.signal != 0) {
    expect_kill(kVictimGrace);
  }
  outcome_.ends.push_back(std::move(end));
}

void Session::expect_kill(Duration grace) {
  const SteadyTime then = in_.clock.steady_now() + grace;
  kill_at_ = std::min(kill_at_.value_or(then), then);
}

// Init tells itself what it has ended by force. One that hangs meanwhile is given away by the
// clock, and one that was killed by the ends that are missing.
void Session::tell_kill(std::size_t processes) {
  const bool is_forced = kill_at_ && in_.clock.steady_now() >= *kill_at_;
  if (is_forced || outcome_.out_of_memory || outcome_.ends.size() < processes) {
    checkpoints_.killed({.at = outcome_.closed_at});
  }
}

void Session::ask_to_stop(Duration grace) {
  stopping_ = true;
  if (container_) {
    checkpoints_.stopping();
    expect_kill(grace);
    container_->stop(grace);
  }
}

}  // namespace trainyard::instance
