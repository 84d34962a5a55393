// SPDX-License-Identifier: Apache-2.0
// How an answer leaves a connection: from memory on the I/O loop, from a file on workers, because a
// disk may block. A peer that takes its time holds none of them: its connection waits in the loop
// and a worker sends as much as fits whenever there is room. Then: what becomes of the connection.
#include <algorithm>
#include <array>
#include <limits>

#include <fcntl.h>

#include "base/log.h"
#include "http/internal/connection.h"

namespace trainyard::http {
namespace {

// For so long the thread of the exchange keeps to a peer that could be faster, if nobody waits for
// the thread: most are done by then, and a change of threads for each buffer would cost them more.
constexpr Duration kPatience{250};
constexpr Duration kGlance{5};
// Then others get their turn.
constexpr std::uint64_t kTurn = std::uint64_t{8} << 20;
// What is left of a body is read to keep the connection, up to here.
constexpr std::uint64_t kMaxDrain = std::uint64_t{256} << 10;
constexpr std::size_t kScratch = std::size_t{4} << 10;
// Closing with unread input resets the connection, and the peer may lose the answer: so input is
// read for a while after the last answer.
constexpr Duration kLingerTime{2'000};

Error gone() {
  return {Code::kUnavailable, "the peer closed the connection", "peer"};
}

}  // namespace

Result<void> Connection::send_file(std::string_view head, FilePart part, bool is_last) {
  YARD_TRY(send(head, {}));
  const SteadyTime enough = core_->clock.steady_now() + kPatience;
  while (part.length > 0) {
    YARD_TRY(const IoStep step, transport_->transmit_file(part));
    if (step.io == Io::kClosed) {
      return gone();
    }
    part.offset += step.count;
    part.length -= step.count;
    if (step.io == Io::kDone) {
      continue;
    }
    if (!is_last) {
      YARD_TRY(block_for(step.io, core_->options.io_timeout));
      continue;
    }
    const bool is_quick = is_ready(step.io, kGlance);
    if (core_->clock.steady_now() < enough && (is_quick || !core_->is_anyone_waiting())) {
      continue;
    }
    rest_file_ = Fd(::fcntl(part.fd, F_DUPFD_CLOEXEC, 0));
    if (rest_file_.is_open()) {
      part.fd = rest_file_.get();
      rest_ = part;
      return {};
    }
    YARD_TRY(block_for(step.io, core_->options.io_timeout));  // no descriptor is left
  }
  return {};
}

void Connection::flush() {
  step_ = Step::kFlush;
  while (out_sent_ < out_.size()) {
    const IoStep step = transport_->transmit(std::string_view(out_).substr(out_sent_), {});
    if (step.io == Io::kClosed) {
      return close();
    }
    out_sent_ += step.count;
    set_deadline(core_->options.io_timeout);
    if (step.io != Io::kDone) {
      return wait_for(step.io);
    }
  }
  out_ = {};
  out_sent_ = 0;
  if (rest_.length > 0) {
    return send_rest_on_a_worker();
  }
  rest_file_.reset();
  after_answer();
}

// A wait for a worker is not the peer's fault, so it has no deadline.
void Connection::send_rest_on_a_worker() {
  deadline_ = std::numeric_limits<std::int64_t>::max();
  FairQueue::Task task = [self = shared_from_this()] { self->send_rest(); };
  switch (core_->dispatch(Core::Kind::kRest, client_ + " takes", task)) {
    case Core::Dispatch::kTaken:
      return;
    case Core::Dispatch::kNoRoom:
      log_warning("an answer was broken off: no thread can be started to send the rest of a file");
      return fail();
    case Core::Dispatch::kStopped:
      return abort();
  }
}

void Connection::send_rest() {
  set_deadline(core_->options.io_timeout);
  std::uint64_t sent = 0;
  while (rest_.length > 0) {
    const Result<IoStep> step = transport_->transmit_file(rest_);
    if (!step) {
      log_warning("an answer was broken off: " + step.error().message);
      return fail();
    }
    if (step->io == Io::kClosed) {
      return close();
    }
    rest_.offset += step->count;
    rest_.length -= step->count;
    sent += step->count;
    if (step->count > 0) {
      set_deadline(core_->options.io_timeout);
    }
    if (step->io != Io::kDone || sent >= kTurn) {
      return rest_.length > 0 ? wait_for(step->io == Io::kDone ? Io::kNeedsRoom : step->io)
                              : flush();
    }
  }
  flush();
}

// --- the last word of an exchange, and what comes after --------------------------------------

// A client that still waits for "100 Continue" may or may not send its body after a final answer,
// so what follows cannot be told apart.
bool Connection::can_keep() const {
  return framing_.keeps_alive && !owes_continue_ && body_left_ <= kMaxDrain &&
         !core_->is_stopping();
}

void Connection::finish(std::string answer, bool keep) {
  out_ = std::move(answer);
  out_sent_ = 0;
  keeps_ = keep;
  step_ = Step::kFlush;
  flush();
}

void Connection::fail() {
  abort();
  close();
}

// --- after the answer ------------------------------------------------------------------------

void Connection::after_answer() {
  if (!keeps_) {
    const bool is_all_read = is_body_done() && in_.empty();
    if (!is_all_read) {
      return linger();
    }
    transport_->end();
    return close();
  }
  drained_ = 0;
  step_ = Step::kDrain;
  set_deadline(core_->options.io_timeout);
  drain();
}

void Connection::drain() {
  std::array<std::byte, kScratch> scratch;
  while (!is_body_done()) {
    const Result<IoStep> step = try_body(scratch);
    if (!step || step->io == Io::kClosed || drained_ > kMaxDrain) {
      return linger();
    }
    if (step->io != Io::kDone) {
      if (in_.empty()) {
        in_.release();  // the rest may take its time
        account();
      }
      return wait_for(step->io);
    }
    drained_ += step->count;
  }
  begin_idle();
}

void Connection::linger() {
  transport_->end();
  ::shutdown(fd_, SHUT_WR);
  step_ = Step::kLinger;
  become_idle();
  in_.release();
  account();
  set_deadline(kLingerTime);
  discard_input();
}

// Limited by the deadline, not by bytes: a client that is in the middle of a large upload must come
// to see the answer.
void Connection::discard_input() {
  constexpr int kTurns = 16;  // then others get theirs
  std::array<char, 4 * kScratch> scratch;
  for (int i = 0; i < kTurns; ++i) {
    const IoStep got = transport_->receive(scratch);
    if (got.io == Io::kClosed) {
      return close();
    }
    if (got.io != Io::kDone) {
      return wait_for(got.io);
    }
  }
  wait_readable();
}

}  // namespace trainyard::http
