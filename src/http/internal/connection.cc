// SPDX-License-Identifier: Apache-2.0
#include "http/internal/connection.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <limits>
#include <sstream>
#include <utility>

#include <boost/asio/post.hpp>
#include <poll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "http/internal/exchange.h"

namespace trainyard::http {
namespace {

constexpr std::size_t kReadSize = std::size_t{4} << 10;
constexpr std::size_t kBodyReadSize = std::size_t{64} << 10;
// A body of this size is read before a worker is asked, so that slow senders hold no thread.
constexpr std::uint64_t kSmallBody = std::uint64_t{64} << 10;
// A connection may hold so much input while all together hold too much.
constexpr std::size_t kModest = std::size_t{16} << 10;
// While the server stops, a peer that makes no progress for so long is given up; whoever waits for
// a peer looks that often.
constexpr Duration kStopPatience{1'000};
constexpr Duration kGlance{250};
// A handshake is a few kilobytes each way.
constexpr Duration kHandshakeTime{10'000};
// Of a body, in bytes a second: an upload that shares the slowest line with others still has more.
constexpr std::uint64_t kLeastRate = 256;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

Error gone() {
  return {Code::kUnavailable, "the peer closed the connection", "peer"};
}

std::string text_of(const boost::asio::ip::tcp::endpoint& peer) {
  std::ostringstream out;
  out << peer;
  return out.str();
}

// Handlers throw nothing. What a library throws through one costs its own exchange, which is
// dropped on the way and so answered, and not the process.
void run_handler(const Handler& handler, std::unique_ptr<Exchange> exchange) {
  const std::string what = exchange->request().method + " " + exchange->request().path;
  try {
    handler(std::move(exchange));
  } catch (const std::exception& thrown) {
    log_error("http: " + what + ": its handler threw: " + thrown.what());
  }
}

}  // namespace

Duration patience_with(const BodyPace& pace, Duration io_timeout, SteadyTime now) {
  const Duration earned(static_cast<Duration::rep>(pace.bytes * 1'000 / kLeastRate));
  const Duration in_all = io_timeout + earned - std::chrono::duration_cast<Duration>(pace.waited);
  const Duration most = std::min(io_timeout, in_all);
  return pace.end ? std::min(most, std::chrono::duration_cast<Duration>(*pace.end - now)) : most;
}

Connection::Connection(std::shared_ptr<Core> core, TcpSocket socket,
                       std::unique_ptr<Transport> transport, Origin origin)
    : core_(std::move(core)),
      socket_(std::move(socket)),
      fd_(socket_.native_handle()),
      transport_(std::move(transport)),
      origin_(std::move(origin)),
      idle_since_(core_->clock.steady_now().time_since_epoch().count()) {
  set_deadline(core_->options.idle_timeout);
}

Connection::~Connection() {
  in_.release();
  account();
}

void Connection::account() {
  const auto before = static_cast<std::int64_t>(std::exchange(held_, in_.capacity()));
  core_->hold(static_cast<std::int64_t>(held_) - before);
}

void Connection::start() {
  if (transport_->is_handshaking()) {
    step_ = Step::kHandshake;
    set_deadline(std::min<Duration>(kHandshakeTime, core_->options.io_timeout));
  }
  wait_readable();
}

void Connection::abort() {
  ::shutdown(fd_, SHUT_RDWR);
}

void Connection::abort_if_idle() {
  if (is_idle_) {
    abort();
  }
}

void Connection::hurry() {
  std::int64_t until = deadline_;
  const std::int64_t soon = (core_->clock.steady_now() + kStopPatience).time_since_epoch().count();
  // A handler that runs has no deadline; where it waits for its peer, it looks itself.
  if (until > soon && until != std::numeric_limits<std::int64_t>::max()) {
    deadline_.compare_exchange_strong(until, soon);
  }
}

std::optional<SteadyTime> Connection::idle_since() const {
  return is_idle_ ? std::optional(SteadyTime(SteadyTime::duration(idle_since_))) : std::nullopt;
}

bool Connection::is_past_deadline(SteadyTime now) const {
  return now.time_since_epoch().count() > deadline_;
}

void Connection::set_deadline(Duration from_now) {
  deadline_ = (core_->clock.steady_now() + from_now).time_since_epoch().count();
}

// Goes on in the loop, behind those who wait there: a peer that sends much does not keep the
// thread.
void Connection::take_turn(void (Connection::*step)()) {
  boost::asio::post(core_->io, [weak = weak_from_this(), step] {
    if (const auto self = weak.lock()) {
      ((*self).*step)();
    }
  });
}

// The wait holds the connection weakly: the register owns it.
void Connection::wait_readable() {
  if (transport_->has_received_more()) {
    return take_turn(&Connection::on_more_received);
  }
  socket_.async_wait(TcpSocket::wait_read,
                     [weak = weak_from_this()](const boost::system::error_code& ec) {
                       if (const auto self = weak.lock()) {
                         self->on_ready(ec.failed());
                       }
                     });
}

void Connection::wait_for(Io need) {
  need == Io::kNeedsRoom ? wait_writable() : wait_readable();
}

void Connection::wait_writable() {
  socket_.async_wait(TcpSocket::wait_write,
                     [weak = weak_from_this()](const boost::system::error_code& ec) {
                       if (const auto self = weak.lock()) {
                         self->on_ready(ec.failed());
                       }
                     });
}

void Connection::on_ready(bool failed) {
  if (failed) {
    return close();
  }
  switch (step_) {
    case Step::kHandshake:
      return advance_handshake();
    case Step::kIdle:
    case Step::kHead:
    case Step::kSmallBody:
      return read_more();
    case Step::kFlush:
      return flush();
    case Step::kDrain:
      return drain();
    case Step::kLinger:
      return discard_input();
    case Step::kExchange:
      return;  // not reached: an exchange has no pending wait
  }
}

void Connection::close() {
  core_->remove(this);
}

// --- reading a request -----------------------------------------------------------------------

void Connection::advance_handshake() {
  const IoStep step = transport_->open();
  if (step.io == Io::kClosed) {
    return linger();  // it may have been told why
  }
  if (step.io != Io::kDone) {
    return wait_for(step.io);
  }
  begin_idle();
}

void Connection::become_idle() {
  idle_since_ = core_->clock.steady_now().time_since_epoch().count();
  is_idle_ = true;
  if (core_->is_stopping()) {
    abort();  // the stop may have looked before is_idle_ was set
  }
}

void Connection::begin_idle() {
  reader_.reset();
  client_ = {};
  become_idle();
  if (!in_.empty()) {
    step_ = Step::kHead;  // pipelined: the next head is here already
    set_deadline(core_->options.io_timeout);
    // Never from here: each of thousands of requests might be answered on top of the one before.
    return take_turn(&Connection::advance_head);
  }
  in_.release();
  account();
  step_ = Step::kIdle;
  set_deadline(core_->options.idle_timeout);
  wait_readable();
}

void Connection::read_more() {
  // What crowds send and never finish must not eat the memory. Who sends a body is not refused for
  // it: a worker reads the rest, when it is this client's turn.
  if (held_ >= kModest && core_->holds_too_much()) {
    return step_ == Step::kSmallBody ? hand_over() : refuse(503);
  }
  const std::span<char> room = in_.room(kReadSize);
  account();
  const IoStep got = transport_->receive(room);
  if (got.io == Io::kClosed) {
    return close();
  }
  if (got.io != Io::kDone) {
    return wait_for(got.io);
  }
  in_.commit(got.count);
  if (step_ == Step::kIdle) {
    step_ = Step::kHead;
    idle_since_ = core_->clock.steady_now().time_since_epoch().count();
    set_deadline(core_->options.io_timeout);
  }
  if (step_ == Step::kHead) {
    return advance_head();
  }
  advance_small_body();
}

void Connection::advance_head() {
  if (reader_ == nullptr) {
    reader_ = std::make_unique<RequestReader>();
  }
  const Result<std::size_t> consumed = reader_->read_head(in_.view());
  if (!consumed) {
    return refuse(status_of(consumed.error()));
  }
  in_.consume(*consumed);
  if (!reader_->is_head_done()) {
    return wait_readable();
  }
  framing_ = reader_->framing();
  body_left_ = framing_.content_length.value_or(0);
  // Owed for an empty body as well: botocore takes a final answer without it for one that it reads
  // half, and then misreads the next answer on the connection.
  owes_continue_ = framing_.expects_continue;
  step_ = Step::kSmallBody;
  advance_small_body();
}

void Connection::advance_small_body() {
  const bool is_small = framing_.content_length && body_left_ <= kSmallBody && !owes_continue_;
  if (is_small && in_.size() < body_left_) {
    return wait_readable();
  }
  hand_over();
}

void Connection::hand_over() {
  is_idle_ = false;
  if (core_->is_stopping()) {
    return close();  // unanswered, and not begun: the peer may ask again
  }
  step_ = Step::kExchange;
  pace_ = {};
  deadline_ = std::numeric_limits<std::int64_t>::max();
  Request request = reader_->take_request();
  if (peer_.empty()) {
    peer_ = text_of(origin_.peer);
  }
  request.peer = peer_;
  request.listener = *origin_.tag;
  const bool is_transfer = !framing_.content_length || in_.size() < body_left_;
  client_ = client_of(request, is_transfer);
  auto exchange = std::make_shared<std::unique_ptr<Exchange>>(
      make_exchange(shared_from_this(), std::move(request)));
  // The task is copyable and its exchange is not, hence the pointer to the owner.
  FairQueue::Task task = [core = core_, exchange] {
    run_handler(core->handler, std::move(*exchange));
  };
  // Copies: once it is answered the connection may serve the next request, or be gone.
  if (const auto core = core_; !is_transfer && core->run_here(std::string(client_), task)) {
    return;
  }
  const auto kind = is_transfer ? Core::Kind::kTransfer : Core::Kind::kQuick;
  switch (core_->dispatch(kind, client_, task)) {
    case Core::Dispatch::kTaken:
      return;
    case Core::Dispatch::kStopped:
      return abort();
    case Core::Dispatch::kNoRoom:
      if (core_->options.overloaded) {
        return core_->options.overloaded(std::move(*exchange));
      }
      (*exchange)->respond({.status = 503});
  }
}

// Transfers get workers of their own: as many slow uploads as a client likes leave its other
// requests theirs.
std::string Connection::client_of(const Request& request, bool is_transfer) const {
  std::string client = core_->options.client_of ? core_->options.client_of(request)
                                                : origin_.peer.address().to_string();
  return is_transfer ? client.append(" sends") : client;
}

void Connection::refuse(int status) {
  is_idle_ = false;
  out_ = response_head(status, {}, {.length = 0, .keeps_alive = false}, core_->clock.now());
  out_sent_ = 0;
  keeps_ = false;
  framing_ = Framing{.content_length = std::nullopt};  // unknown: what follows is not read
  flush();
}

// --- for the exchange ------------------------------------------------------------------------

bool Connection::is_body_done() const {
  return framing_.content_length ? body_left_ == 0 : reader_->is_chunked_done();
}

// Payload bytes that are at hand. kDone with no bytes is the end of the body.
Result<IoStep> Connection::try_body(std::span<std::byte> out) {
  if (framing_.content_length) {
    const std::span<char> room(
        reinterpret_cast<char*>(out.data()),
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), body_left_)));
    IoStep step{Io::kDone, std::min(room.size(), in_.size())};
    if (step.count > 0) {
      const std::string_view at_hand = in_.view().substr(0, step.count);
      std::copy(at_hand.begin(), at_hand.end(), room.begin());
      in_.consume(step.count);
    } else if (!room.empty()) {
      step = transport_->receive(room);
    }
    body_left_ -= step.count;
    return step;
  }
  while (!reader_->is_chunked_done()) {
    YARD_TRY(const RequestReader::Step step, reader_->read_chunked(in_.view(), out));
    in_.consume(step.consumed);
    if (step.produced > 0) {
      return IoStep{Io::kDone, step.produced};
    }
    if (reader_->is_chunked_done()) {
      break;
    }
    if (in_.size() >= kBodyReadSize) {
      return Error{Code::kCorrupt, "chunked body: a frame line is longer than 64 KiB"};
    }
    const IoStep got = transport_->receive(in_.room(kBodyReadSize - in_.size()));
    if (got.io != Io::kDone) {
      return got;
    }
    in_.commit(got.count);
  }
  return IoStep{};
}

bool Connection::is_ready(Io need, Duration within) const {
  const short events = need == Io::kNeedsRoom ? POLLOUT : POLLIN;
  pollfd waiting{.fd = fd_, .events = events, .revents = 0};
  return ::poll(&waiting, 1, static_cast<int>(within.count())) != 0;
}

Result<void> Connection::block_for(Io need, Duration most) {
  const SteadyTime start = core_->clock.steady_now();
  for (Duration waited{0}; waited < most;) {
    if (is_ready(need, std::min(kGlance, most - waited))) {
      return {};
    }
    waited = std::chrono::duration_cast<Duration>(core_->clock.steady_now() - start);
    if (core_->is_stopping() && waited >= kStopPatience) {
      break;
    }
  }
  abort();
  return Error{Code::kDeadline, "the peer made no progress, or too little"};
}

Result<void> Connection::block_for_body(Io need) {
  const SteadyTime start = core_->clock.steady_now();
  Result<void> ready = block_for(need, patience_with(pace_, core_->options.io_timeout, start));
  pace_.waited += core_->clock.steady_now() - start;
  return ready;
}

void Connection::limit_body_time(Duration most) {
  pace_.end = core_->clock.steady_now() + most;
}

Result<std::size_t> Connection::read_body(std::span<std::byte> out) {
  if (out.empty()) {
    return std::size_t{0};
  }
  if (std::exchange(owes_continue_, false) && in_.empty()) {
    YARD_TRY(send(kContinue, {}));
  }
  if (is_body_done()) {
    return std::size_t{0};
  }
  while (true) {
    YARD_TRY(const IoStep step, try_body(out));
    if (step.io == Io::kDone) {
      pace_.bytes += step.count;
      return step.count;
    }
    if (step.io == Io::kClosed) {
      return gone();
    }
    YARD_TRY(block_for_body(step.io));
  }
}

Result<void> Connection::send(std::string_view head, std::span<const std::byte> body) {
  std::string_view rest(reinterpret_cast<const char*>(body.data()), body.size());
  while (!head.empty() || !rest.empty()) {
    const IoStep step = transport_->transmit(head, rest);
    if (step.io == Io::kClosed) {
      return gone();
    }
    if (step.io != Io::kDone) {
      YARD_TRY(block_for(step.io, core_->options.io_timeout));
    }
    const std::size_t of_head = std::min(step.count, head.size());
    head.remove_prefix(of_head);
    rest.remove_prefix(step.count - of_head);
  }
  return {};
}

bool Connection::is_peer_gone() const {
  pollfd state{.fd = fd_, .events = POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

}  // namespace trainyard::http
