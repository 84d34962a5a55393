// SPDX-License-Identifier: Apache-2.0
// What all connections of one server share: the I/O loop, the workers, the register of open
// connections, and the sweep that ends those past their deadline. The register owns connections;
// pending waits hold them weakly; a running exchange holds its own and, through it, this.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "http/internal/workers.h"
#include "http/server.h"

namespace trainyard::http {

class Connection;

// How many connections may be open when nobody says: five eighths of the files that the process may
// open, and no more than fit into a quarter of the machine's memory, in bytes, at 64 KiB each,
// which the handshake of a TLS session or a record that has half arrived may take.
std::size_t connection_limit(std::uint64_t files, std::uint64_t memory);

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(const ServerOptions& server_options, Handler request_handler);
  ~Core();

  void start();
  // Ends everything: see Server::stop. Acceptors are closed before.
  void stop(Duration grace);

  // Whether one more connection may be accepted. kSoon: the one that has been idle longest is ended
  // for it. kNone: none is idle.
  enum class Room { kYes, kSoon, kNone };
  Room make_room();
  // False once the server stops: the connection is not taken.
  bool add(std::shared_ptr<Connection> connection);
  void remove(const Connection* connection);
  // Ends the connections that came in by that listener.
  void abort_listener(const void* listener);
  enum class Dispatch { kTaken, kNoRoom, kStopped };
  // Bodies that are still to come are transfers, and so are the rests of files that wait to be sent
  // on; those are always taken, because their answers have begun.
  enum class Kind { kQuick, kTransfer, kRest };
  // Runs `task` on a worker when it is that client's turn. Unless kTaken, `task` is untouched.
  // kNoRoom also when no thread can be started.
  Dispatch dispatch(Kind kind, const std::string& client, FairQueue::Task& task);
  // Runs a quick task of that client on the calling I/O thread, which saves two changes of threads:
  // when nobody waits for a worker, the client's share is not used up, and no other I/O thread
  // does: the rest of them are left to wait for sockets. False when it may not.
  bool run_here(const std::string& client, const std::function<void()>& task);
  // Counts what connections hold of input that no handler has taken.
  void hold(std::int64_t more) { held_ += more; }
  // Whether all of them together do.
  bool holds_too_much() const { return held_ >= kMaxHeld; }
  // Whether a task waits for a worker.
  bool is_anyone_waiting();
  bool is_stopping() const { return stopping_; }

  static constexpr std::int64_t kMaxHeld = std::int64_t{64} << 20;

  const ServerOptions options;
  const std::size_t max_connections;
  const Handler handler;
  const SystemClock clock;
  boost::asio::io_context io;

 private:
  std::vector<std::shared_ptr<Connection>> connections();
  void sweep();

  boost::asio::steady_timer sweeper_{io};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_running_;
  std::vector<std::jthread> io_threads_;
  std::atomic<bool> is_one_lent_ = false;  // runs a task
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> held_ = 0;

  Mutex mutex_;
  ConditionVariable emptied_;
  std::unordered_map<const Connection*, std::shared_ptr<Connection>> open_ GUARDED_BY(mutex_);

  // Transfers hash and copy for as long as they last. Their threads stand back behind those that
  // others wait for: else four uploads make each small request wait for its turn on the processor.
  Workers workers_;
  Workers transfers_;
};

}  // namespace trainyard::http
