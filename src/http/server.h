// SPDX-License-Identifier: Apache-2.0
// The HTTP/1.1 server: one small I/O pool that parses heads and moves bytes, and a pool of workers
// that runs handlers. A handler owns its Exchange: it may read the body as it comes, answer at once
// or in pieces, or keep the exchange and answer later from any thread (long polls). It knows
// nothing of AWS. Beast stays inside server.cc.
//
// Limits: heads of 64 KiB; an idle connection is closed after Options::idle_timeout, a body or an
// answer that makes no progress after Options::io_timeout, and a body also when all waits for it
// make more than that and what its bytes would take at 256 a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "http/message.h"

namespace trainyard::http {

class TlsIdentity;

// One request and its answer. Every call may be made from any thread, one at a time. All calls
// block until done; an error means that the connection is gone. An exchange that is destroyed
// without an answer, as by a handler that throws, answers 500.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  // From Content-Length; nullopt when the body is chunked. 0 when there is none.
  virtual std::optional<std::uint64_t> body_length() const = 0;
  // The next bytes of the body, 0 at its end. Sends "100 Continue" first when the client waits for
  // it.
  virtual Result<std::size_t> read_body(std::span<std::byte> out) = 0;
  // From now on the body is waited for no longer than `most`, however its bytes trickle in: then
  // reading gives kDeadline. For bodies that are read before anybody knows who sends them. An
  // exchange that has no peer to wait for has no use for it.
  virtual void limit_body_time(std::chrono::milliseconds /*most*/) {}

  // A whole answer. HEAD answers keep their Content-Length header and send no body.
  virtual void respond(Response response) = 0;
  // An answer in pieces: head, then write() until `length` bytes (or, without a length, chunked),
  // then finish(). With a length the head travels with the first bytes that follow it.
  virtual Result<void> start(Response head, std::optional<std::uint64_t> length) = 0;
  virtual Result<void> write(std::span<const std::byte> bytes) = 0;
  // The bytes [offset, offset + length) of an open file as the next part of the answer, like
  // write(); over a plain socket they do not pass through the process. `fd` is borrowed for the
  // call, and its own position neither used nor moved. kCorrupt when the file is shorter than that:
  // then, as after any other error, the connection is broken off, so that nobody takes the answer
  // for whole. (More than was announced is refused as by write().) Keep the file from being changed
  // until the exchange ends, or both old and new bytes may be sent. The last part of an announced
  // length may leave after finish(), while a slow peer takes it, and then holds no thread.
  virtual Result<void> send_file(int fd, std::uint64_t offset, std::uint64_t length);
  virtual Result<void> finish() = 0;

  // True when the peer has closed: lets a long poll end early.
  virtual bool is_closed() const = 0;

  // The whole body as text; kExhausted when it is longer than `limit`. It takes twice the memory of
  // what has come at most, and a little, however much was announced.
  Result<std::string> read_all(std::size_t limit);
};

using Handler = std::function<void(std::unique_ptr<Exchange>)>;

struct ServerOptions {
  // When there are several, one of them may run a quick request itself.
  std::size_t io_threads = 3;
  std::size_t max_workers = 128;
  // Open at once; further clients wait until one ends, and idle connections end for them. 0: as
  // many as files and memory allow, so that the rest of the process can go on.
  std::size_t max_connections = 0;
  // Requests that wait for a worker, of all clients. One client may have as many waiting as there
  // is room left beside them, and as many running as workers are free beside them; requests whose
  // body is still to come count as another client's. So nobody can take all of either.
  std::size_t max_queued = 2'048;
  // Whom a request counts for, from its head alone; its peer's address when unset. I/O threads.
  std::function<std::string(const Request&)> client_of = {};
  // Answers, by respond() at once and without the body, requests for which there is no room: 503
  // when unset. I/O threads.
  Handler overloaded = {};
  std::chrono::milliseconds idle_timeout{120'000};
  std::chrono::milliseconds io_timeout{60'000};
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Handler handler);
  virtual ~Server() = default;  // stop()

  // Port 0 picks a free one. Gives the port. Requests carry `tag` as their listener. May be called
  // while the server runs; kConflict when the address is in use, naming it. With an identity it
  // speaks TLS only.
  virtual Result<std::uint16_t> listen(const std::string& address, std::uint16_t port,
                                       const std::string& tag,
                                       std::shared_ptr<TlsIdentity> identity = nullptr) = 0;
  // Stops accepting on that address and closes its connections. Unknown addresses are ignored.
  virtual void unlisten(const std::string& address, std::uint16_t port) = 0;
  // Stops accepting, lets running exchanges end for up to `grace`, closes the rest, joins.
  virtual void stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace trainyard::http
