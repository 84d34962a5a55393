// SPDX-License-Identifier: Apache-2.0
// One accepted connection: a state machine with one owner at a time. Either a single pending wait
// of the I/O loop owns it (idle, reading a head, finishing an answer, draining), or one exchange
// does, whose thread then uses the socket directly and blocks in poll(2). So bytes cross no thread
// on their way, and no lock is needed. Only abort() and the deadline may be used from elsewhere:
// abort() shuts the socket down, which wakes the owner; the descriptor itself lives until the end.
//
//   (handshake ->) idle -> head -> small body -> exchange -> flush -> drain -> idle
//                        any of them -> linger -> closed
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "http/internal/byte_buffer.h"
#include "http/internal/core.h"
#include "http/internal/request_reader.h"
#include "http/internal/response_head.h"
#include "http/internal/transport.h"

namespace trainyard::http {

using TcpSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

// How a body comes that an exchange reads.
struct BodyPace {
  std::uint64_t bytes = 0;             // that have come
  SteadyTime::duration waited{0};      // for its peer
  std::optional<SteadyTime> end = {};  // all of it has to be here then
};
// How much longer the peer may be waited for: `io_timeout` for one step, and in all no more than
// that and what its bytes take at a rate which any network has. Else one byte now and then would
// keep a worker for as long as its sender likes.
Duration patience_with(const BodyPace& pace, Duration io_timeout, SteadyTime now);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Origin {
    std::shared_ptr<const std::string> tag;  // also names the listener
    boost::asio::ip::tcp::endpoint peer;
  };

  // `transport` is over the socket.
  Connection(std::shared_ptr<Core> core, TcpSocket socket, std::unique_ptr<Transport> transport,
             Origin origin);
  ~Connection();

  void start();

  // From any thread.
  void abort();
  void abort_if_idle();
  // The server stops: whoever makes no progress for a moment is given up.
  void hurry();
  // Since when it has been idle without a byte from its peer; nothing when it is not.
  std::optional<SteadyTime> idle_since() const;
  bool is_past_deadline(SteadyTime now) const;
  const void* listener() const { return origin_.tag.get(); }

  // For the exchange that owns it; these block.
  const Framing& framing() const { return framing_; }
  Result<std::size_t> read_body(std::span<std::byte> out);
  void limit_body_time(Duration most);
  Result<void> send(std::string_view head, std::span<const std::byte> body);
  // `head`, then that part of a file. kCorrupt when the file is shorter. When `is_last`, what a
  // slow peer does not take at once is left for after finish(), so that it holds no thread.
  Result<void> send_file(std::string_view head, FilePart part, bool is_last);
  bool is_peer_gone() const;
  // Whether the connection may serve another request after an answer that begins now.
  bool can_keep() const;
  // The exchange's last word: gives the connection back to the loop, which sends `answer` and goes
  // on. Never blocks.
  void finish(std::string answer, bool keep);
  // An answer that broke off: the peer must not take it for a whole one.
  void fail();

 private:
  enum class Step { kHandshake, kIdle, kHead, kSmallBody, kExchange, kFlush, kDrain, kLinger };

  void take_turn(void (Connection::*step)());
  void wait_for(Io need);
  void wait_readable();
  void wait_writable();
  void on_ready(bool failed);
  void on_more_received() { on_ready(false); }
  void advance_handshake();
  void become_idle();
  void begin_idle();
  void account();
  void read_more();
  void advance_head();
  void advance_small_body();
  void hand_over();
  std::string client_of(const Request& request, bool is_transfer) const;
  void refuse(int status);
  void flush();
  void send_rest_on_a_worker();
  void send_rest();
  void after_answer();
  void drain();
  void linger();
  void discard_input();
  void close();

  Result<IoStep> try_body(std::span<std::byte> out);
  // Also after an error, which the next step will tell.
  bool is_ready(Io need, Duration within) const;
  // Ends the connection after `most`.
  Result<void> block_for(Io need, Duration most);
  Result<void> block_for_body(Io need);
  bool is_body_done() const;
  void set_deadline(Duration from_now);

  const std::shared_ptr<Core> core_;  // destroyed after the socket
  TcpSocket socket_;
  const int fd_;  // the socket's
  const std::unique_ptr<Transport> transport_;
  const Origin origin_;
  std::string peer_;  // as text, from the first request on

  Step step_ = Step::kIdle;
  ByteBuffer in_;
  std::size_t held_ = 0;  // of `in_`, as the core knows it
  std::unique_ptr<RequestReader> reader_;
  Framing framing_;
  std::uint64_t body_left_ = 0;  // of a body with a length
  bool owes_continue_ = false;   // the client waits for "100 Continue"
  BodyPace pace_;
  std::string out_;  // an answer that the kernel has not taken yet
  std::size_t out_sent_ = 0;
  Fd rest_file_;  // ours, of an answer whose end is still to be sent from a file
  FilePart rest_;
  std::string client_;  // whom the request counts for
  bool keeps_ = false;
  std::uint64_t drained_ = 0;

  // Nothing of its peer's is being done: it waits for a request, reads one, or lingers. A stop ends
  // it at once.
  std::atomic<bool> is_idle_ = true;
  std::atomic<std::int64_t> idle_since_;  // steady ticks
  std::atomic<std::int64_t> deadline_;    // steady ticks
};

}  // namespace trainyard::http
