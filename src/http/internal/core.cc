// SPDX-License-Identifier: Apache-2.0
#include "http/internal/core.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "http/internal/connection.h"

namespace trainyard::http {
namespace {

// A third of the weight of the others, where they want the processor as well.
constexpr int kNiceOfTransfers = 5;

// Deadlines are met within a quarter of the shortest time-out, and never later than a second.
Duration sweep_period(const ServerOptions& options) {
  const Duration shortest = std::min(options.idle_timeout, options.io_timeout);
  return std::clamp(shortest / 4, Duration(5), Duration(1'000));
}

// Who has just connected is about to ask.
constexpr Duration kLeastIdle{200};

std::size_t limit_of(const ServerOptions& options) {
  if (options.max_connections > 0) {
    return options.max_connections;
  }
  constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
  rlimit files{};
  const bool has_files = ::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  struct sysinfo machine = {};
  const bool has_memory = ::sysinfo(&machine) == 0;
  return connection_limit(
      has_files ? files.rlim_cur : kUnknown,
      has_memory ? std::uint64_t{machine.totalram} * machine.mem_unit : kUnknown);
}

}  // namespace

std::size_t connection_limit(std::uint64_t files, std::uint64_t memory) {
  constexpr std::uint64_t kLeast = 16;
  constexpr std::uint64_t kEach = std::uint64_t{64} << 10;
  return std::max(kLeast, std::min(files / 8 * 5, memory / 4 / kEach));
}

Core::Core(const ServerOptions& server_options, Handler request_handler)
    : options(server_options),
      max_connections(limit_of(server_options)),
      handler(std::move(request_handler)),
      io(static_cast<int>(server_options.io_threads)),
      keep_running_(io.get_executor()),
      workers_(server_options.max_workers, server_options.max_queued),
      transfers_(server_options.max_workers, server_options.max_queued, kNiceOfTransfers) {}

Core::~Core() = default;

void Core::start() {
  sweep();
  for (std::size_t i = 0; i < std::max<std::size_t>(options.io_threads, 1); ++i) {
    io_threads_.push_back(start_thread("http-io", [this](const std::stop_token&) { io.run(); }));
  }
}

void Core::sweep() {
  const SteadyTime now = clock.steady_now();
  for (const std::shared_ptr<Connection>& connection : connections()) {
    if (connection->is_past_deadline(now)) {
      connection->abort();
    }
  }
  sweeper_.expires_after(sweep_period(options));
  sweeper_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec) {
      sweep();
    }
  });
}

Core::Room Core::make_room() {
  {
    const MutexLock lock(mutex_);
    if (open_.size() < max_connections) {
      return Room::kYes;
    }
  }
  std::shared_ptr<Connection> oldest;
  SteadyTime since = clock.steady_now() - kLeastIdle;
  for (std::shared_ptr<Connection>& connection : connections()) {
    if (const auto idle = connection->idle_since(); idle && *idle < since) {
      since = *idle;
      oldest = std::move(connection);
    }
  }
  if (oldest == nullptr) {
    return Room::kNone;
  }
  oldest->abort_if_idle();
  return Room::kSoon;
}

bool Core::add(std::shared_ptr<Connection> connection) {
  const MutexLock lock(mutex_);
  if (stopping_) {
    return false;
  }
  const Connection* key = connection.get();
  open_.emplace(key, std::move(connection));
  return true;
}

void Core::remove(const Connection* connection) {
  std::shared_ptr<Connection> last;  // destroyed after the lock is gone
  const MutexLock lock(mutex_);
  if (auto node = open_.extract(connection)) {
    last = std::move(node.mapped());
  }
  if (open_.empty()) {
    emptied_.notify_all();
  }
}

std::vector<std::shared_ptr<Connection>> Core::connections() {
  std::vector<std::shared_ptr<Connection>> all;
  const MutexLock lock(mutex_);
  all.reserve(open_.size());
  for (const auto& [key, connection] : open_) {
    all.push_back(connection);
  }
  return all;
}

void Core::abort_listener(const void* listener) {
  for (const std::shared_ptr<Connection>& connection : connections()) {
    if (connection->listener() == listener) {
      connection->abort();
    }
  }
}

Core::Dispatch Core::dispatch(Kind kind, const std::string& client, FairQueue::Task& task) {
  Workers& workers = kind == Kind::kQuick ? workers_ : transfers_;
  const auto room = kind == Kind::kRest ? FairQueue::Room::kNotNeeded : FairQueue::Room::kShare;
  if (workers.post(client, task, room)) {
    return Dispatch::kTaken;
  }
  return workers.has_ended() ? Dispatch::kStopped : Dispatch::kNoRoom;
}

bool Core::run_here(const std::string& client, const std::function<void()>& task) {
  if (options.io_threads < 2 || is_one_lent_.exchange(true)) {
    return false;
  }
  const bool may = workers_.begin(client);
  if (may) {
    task();
    workers_.finish(client);
  }
  is_one_lent_ = false;
  return may;
}

bool Core::is_anyone_waiting() {
  return workers_.waiting() > 0 || transfers_.waiting() > 0;
}

void Core::stop(Duration grace) {
  stopping_ = true;
  for (const std::shared_ptr<Connection>& connection : connections()) {
    connection->abort_if_idle();
    connection->hurry();
  }
  {
    std::unique_lock lock(mutex_);
    emptied_.wait_for(lock, grace, [this] { return open_.empty(); });
  }
  for (const std::shared_ptr<Connection>& connection : connections()) {
    connection->abort();
  }
  transfers_.end();
  workers_.end();  // handlers that were waiting for the network have got their error
  keep_running_.reset();
  io.stop();
  io_threads_.clear();
  std::unordered_map<const Connection*, std::shared_ptr<Connection>> rest;
  const MutexLock lock(mutex_);
  rest.swap(open_);
}

}  // namespace trainyard::http
