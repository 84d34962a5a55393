// SPDX-License-Identifier: Apache-2.0
#include "comm/health/watchdog.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/mutex.h"
#include "base/text.h"
#include "base/thread.h"
#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLastWords{1000};  // until the others have read them

using HeapName = std::pair<std::int32_t, std::uint64_t>;  // owner, id

Fields fault_message(const Error& error) {
  return {"fault", std::to_string(static_cast<int>(error.code)), error.message};
}

Error error_of(const Fields& fields) {
  const auto code = parse_int(fields[1]);
  const bool is_known = code && *code >= 0 && *code <= static_cast<int>(Code::kInternal);
  return {is_known ? static_cast<Code>(*code) : Code::kInternal, fields[2]};
}

std::uint64_t number(const std::string& text) {
  const auto value = parse_int(text);
  return value && *value >= 0 ? static_cast<std::uint64_t>(*value) : 0;
}

}  // namespace

struct Watchdog::State {
  // What callers ask the thread to send.
  struct Share {
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
    Fd fd;
    bool is_end = false;
  };

  WatchdogParts parts;
  Fault& fault;
  Fd wake;
  bool is_leader = false;
  bool up_has_left = false;

  Mutex mutex;
  ConditionVariable changed;
  std::deque<Share> shares GUARDED_BY(mutex);
  std::set<std::uint64_t> mapped GUARDED_BY(mutex);  // own buffers that all have
  bool has_spread GUARDED_BY(mutex) = false;
  std::atomic<bool> is_running = false;
  std::atomic<std::thread::id> runner;
  std::atomic<bool> is_leaving = false;
  std::atomic<bool> must_spread = false;

  // The rest is the thread's own.
  std::map<std::int32_t, RankProgress> remote;          // of other hosts, as told (rank 0)
  std::map<std::int32_t, SilenceWatch> silence;         // of other hosts
  std::map<std::int32_t, std::string> told;             // to rank 0, of this host's ranks
  std::map<HeapName, std::set<std::int32_t>> unmapped;  // leader: who has not mapped it yet
  steady_clock::time_point next_beat = steady_clock::now();
  std::optional<steady_clock::time_point> left_at;
  std::optional<steady_clock::time_point> closing_at;
  std::jthread thread;

  State(WatchdogParts given, Fault& raised) : parts(std::move(given)), fault(raised) {}

  void run();
  void poll_once();
  void read_what_came_before();
  void check_silence();
  void read(std::int32_t peer, ControlLink& link, bool* is_over);
  std::int32_t above() const { return is_leader ? 0 : parts.hosts.leader_of(parts.rank); }
  void handle(std::int32_t peer, ControlMessage& message);
  void lost(std::int32_t peer, const Error& error);
  void beat();
  void judge();
  void send_fault();
  void send_shares();
  void take_heap(std::int32_t peer, ControlMessage& message);
  void take_mapped(std::int32_t peer, const HeapName& heap);
  void forward_unmap(std::int32_t peer, const HeapName& heap);
  void forget_mapper(std::int32_t peer);
  void say_goodbye();
  bool may_end();
  void raise(const Error& error) { fault.raise(error); }
  const Member& member(std::int32_t rank) const {
    return parts.members[static_cast<std::size_t>(rank)];
  }
  bool is_local(std::int32_t rank) const {
    return parts.hosts.of_rank[static_cast<std::size_t>(rank)] ==
           parts.hosts.of_rank[static_cast<std::size_t>(parts.rank)];
  }
  const std::vector<std::int32_t>& local_ranks() const {
    return parts.hosts
        .ranks[static_cast<std::size_t>(parts.hosts.of_rank[static_cast<std::size_t>(parts.rank)])];
  }
};

void Watchdog::State::run() {
  runner = std::this_thread::get_id();
  read_what_came_before();
  while (!may_end()) {
    poll_once();
  }
  const MutexLock lock(mutex);
  is_running = false;
  changed.notify_all();
}

void Watchdog::State::say_goodbye() {
  left_at = steady_clock::now();
  send_shares();
  beat();
  for (const auto& [peer, link] : parts.down) {
    link->send({"bye"});
  }
  if (parts.up != nullptr) {
    parts.up->send({"bye"});
  }
}

// A rank that leaves waits, as a leader, for those below it; not for ever, and not after a fault.
// Then it waits, shortly, until the others have heard its last words.
bool Watchdog::State::may_end() {
  if (!is_leaving) {
    return false;
  }
  send_fault();
  if (!left_at) {
    say_goodbye();
  }
  const auto now = steady_clock::now();
  const bool is_needed = !parts.down.empty() && !fault.is_raised();
  if (!closing_at && (!is_needed || now > *left_at + kLinger)) {
    closing_at = now;
  }
  if (!closing_at) {
    return false;
  }
  const auto close = [](ControlLink& link) {
    if (!link.has_unsent()) {
      link.finish();
    }
  };
  for (const auto& [peer, link] : parts.down) {
    close(*link);
  }
  if (parts.up != nullptr) {
    close(*parts.up);
  }
  return (parts.down.empty() && parts.up == nullptr) || now > *closing_at + kLastWords;
}

void Watchdog::State::poll_once() {
  std::vector<pollfd> entries = {{.fd = wake.get(), .events = POLLIN, .revents = 0}};
  std::vector<std::int32_t> peers = {-1};
  const auto add = [&](std::int32_t peer, const ControlLink& link) {
    const short write = link.has_unsent() ? short{POLLOUT} : short{0};
    entries.push_back(
        {.fd = link.fd(), .events = static_cast<short>(POLLIN | write), .revents = 0});
    peers.push_back(peer);
  };
  for (const auto& [peer, link] : parts.down) {
    add(peer, *link);
  }
  if (parts.up != nullptr) {
    add(above(), *parts.up);
  }
  const auto end = closing_at ? std::min(next_beat, *closing_at + kLastWords) : next_beat;
  const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
  ::poll(entries.data(), entries.size(),
         static_cast<int>(std::clamp(left, milliseconds(0), kBeat).count()));
  eventfd_t drained = 0;
  ::eventfd_read(wake.get(), &drained);

  for (std::size_t i = 1; i < entries.size(); ++i) {
    const bool is_up = parts.up != nullptr && entries[i].fd == parts.up->fd();
    const auto below = parts.down.find(peers[i]);
    ControlLink& link = is_up ? *parts.up : *below->second;
    link.flush();
    bool is_over = false;
    if (entries[i].revents != 0) {
      read(peers[i], link, &is_over);
    }
    if (is_over && is_up) {
      parts.up.reset();
    } else if (is_over) {
      parts.down.erase(below);
      forget_mapper(peers[i]);
    }
  }
  send_fault();
  send_shares();
  if (steady_clock::now() >= next_beat) {
    next_beat = steady_clock::now() + kBeat;
    beat();
    check_silence();
  }
}

// While the ranks met, a connection may have brought more than the word that was waited for.
void Watchdog::State::read_what_came_before() {
  for (auto one = parts.down.begin(); one != parts.down.end();) {
    bool is_over = false;
    read(one->first, *one->second, &is_over);
    one = is_over ? parts.down.erase(one) : std::next(one);
  }
  if (parts.up != nullptr) {
    bool is_over = false;
    read(above(), *parts.up, &is_over);
    if (is_over) {
      parts.up.reset();
    }
  }
}

// Hosts that acknowledge nothing. Local sockets have no such thing.
void Watchdog::State::check_silence() {
  const auto now = steady_clock::now();
  const auto check = [&](std::int32_t peer, const ControlLink& link) {
    if (!is_local(peer) && silence[peer].is_silent(link.fd(), now)) {
      lost(peer, {Code::kUnavailable, "it has acknowledged nothing for more than 3 s"});
    }
  };
  for (const auto& [peer, link] : parts.down) {
    check(peer, *link);
  }
  if (parts.up != nullptr) {
    check(above(), *parts.up);
  }
}

void Watchdog::State::read(std::int32_t peer, ControlLink& link, bool* is_over) {
  std::vector<ControlMessage> messages;
  const Result<void> status = link.receive(messages);
  for (ControlMessage& message : messages) {
    handle(peer, message);
  }
  if (!status) {
    *is_over = true;
    lost(peer, status.error());
  }
}

void Watchdog::State::lost(std::int32_t peer, const Error& error) {
  const bool is_up = parts.down.find(peer) == parts.down.end();
  const bool has_left = is_up            ? up_has_left
                        : is_local(peer) ? parts.progress_of(peer).has_left
                                         : remote[peer].has_left;
  if (has_left || closing_at || fault.is_raised()) {
    return;
  }
  std::string what = describe(member(peer));
  if (error.code == Code::kConflict || error.code == Code::kCorrupt) {
    raise({error.code, fmt::format("{} sent what cannot be read: {}", what, error.message)});
  } else if (is_local(peer)) {
    raise({Code::kUnavailable, what + " died: its process has ended"});
  } else {
    raise({Code::kUnavailable,
           fmt::format("{} is gone: its process died, or its host is out of reach ({})", what,
                       error.message)});
  }
}

void Watchdog::State::handle(std::int32_t peer, ControlMessage& message) {
  const Fields& fields = message.fields;
  const std::string verb = fields.empty() ? "" : fields[0];
  if (verb == "fault" && fields.size() == 3) {
    raise(error_of(fields));
  } else if (verb == "beat") {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      const auto progress = decode_progress(fields[i]);
      if (progress && progress->rank >= 0 &&
          static_cast<std::size_t>(progress->rank) < parts.members.size()) {
        remote[progress->rank] = *progress;
      }
    }
    if (parts.rank == 0 && fields.size() > 1) {
      judge();
    }
  } else if (verb == "bye") {
    up_has_left = up_has_left || parts.down.find(peer) == parts.down.end();
  } else if (verb == "heap+fd" && fields.size() == 4) {
    take_heap(peer, message);
  } else if (verb == "mapped" && fields.size() == 3) {
    take_mapped(peer, {static_cast<std::int32_t>(number(fields[1])), number(fields[2])});
  } else if (verb == "unheap" && fields.size() == 3) {
    forward_unmap(peer, {static_cast<std::int32_t>(number(fields[1])), number(fields[2])});
  } else {
    raise({Code::kCorrupt,
           fmt::format("{} sent an unknown message \"{}\"", describe(member(peer)), verb)});
  }
}

void Watchdog::State::beat() {
  if (is_leader && parts.up != nullptr) {
    Fields fields = {"beat"};
    for (const std::int32_t rank : local_ranks()) {
      std::string progress = encode(parts.progress_of(rank));
      if (told[rank] != progress) {  // so that a stopped rank 0 is not filled up
        fields.push_back(progress);
        told[rank] = std::move(progress);
      }
    }
    parts.up->send(fields);
  }
  for (const auto& [peer, link] : parts.down) {
    if (!is_local(peer)) {
      link->send({"beat"});  // so that both sides notice a cut
    }
  }
  if (is_leader) {
    judge();
  }
}

void Watchdog::State::judge() {
  if (fault.is_raised()) {
    return;
  }
  std::vector<RankProgress> all;
  for (const std::int32_t rank : local_ranks()) {
    all.push_back(parts.progress_of(rank));
  }
  for (const auto& [rank, progress] : remote) {
    all.push_back(progress);
  }
  auto error = find_disagreement(all, parts.members);
  if (!error) {
    error = find_left_behind(all, parts.members);
  }
  if (error) {
    raise(*error);
  }
}

void Watchdog::State::send_fault() {
  if (!must_spread.exchange(false)) {
    return;
  }
  const Fields message = fault_message(fault.peek());
  for (const auto& [peer, link] : parts.down) {
    link->send(message);
  }
  if (parts.up != nullptr) {
    parts.up->send(message);
  }
  const MutexLock lock(mutex);
  has_spread = true;
  changed.notify_all();
}

void Watchdog::State::send_shares() {
  std::deque<Share> taken;
  {
    const MutexLock lock(mutex);
    taken.swap(shares);
  }
  for (Share& share : taken) {
    const HeapName heap = {parts.rank, share.id};
    const std::string owner = std::to_string(parts.rank);
    const std::string id = std::to_string(share.id);
    if (share.is_end) {
      forward_unmap(parts.rank, heap);
    } else if (is_leader) {
      ControlMessage message{{"heap+fd", owner, id, std::to_string(share.bytes)},
                             std::move(share.fd)};
      take_heap(parts.rank, message);
    } else if (parts.up != nullptr) {
      parts.up->send({"heap+fd", owner, id, std::to_string(share.bytes)}, share.fd.get());
    }
  }
}

// A leader hands it to everyone of the host but the owner; everyone but the owner maps it.
void Watchdog::State::take_heap(std::int32_t peer, ControlMessage& message) {
  const auto owner = static_cast<std::int32_t>(number(message.fields[1]));
  const HeapName heap = {owner, number(message.fields[2])};
  if (is_leader) {
    std::set<std::int32_t>& missing = unmapped[heap];
    for (const auto& [below, link] : parts.down) {
      if (is_local(below) && below != owner) {
        missing.insert(below);
        link->send(message.fields, message.fd.get());
      }
    }
  }
  if (owner != parts.rank) {
    const Result<void> status =
        parts.map(owner, heap.second, number(message.fields[3]), std::move(message.fd));
    if (!status) {
      raise(status.error().in(fmt::format("mapping a buffer of rank {}", owner)));
      return;
    }
  }
  if (is_leader) {
    take_mapped(parts.rank, heap);
  } else if (peer != parts.rank && parts.up != nullptr) {
    parts.up->send({"mapped", message.fields[1], message.fields[2]});
  }
}

void Watchdog::State::take_mapped(std::int32_t peer, const HeapName& heap) {
  if (is_leader) {
    const auto found = unmapped.find(heap);
    if (found == unmapped.end()) {
      return;
    }
    found->second.erase(peer);
    if (!found->second.empty()) {
      return;
    }
    unmapped.erase(found);
    const auto owner = parts.down.find(heap.first);
    if (owner != parts.down.end()) {
      owner->second->send({"mapped", std::to_string(heap.first), std::to_string(heap.second)});
    }
  }
  if (heap.first == parts.rank) {
    const MutexLock lock(mutex);
    mapped.insert(heap.second);
    changed.notify_all();
  }
}

// Nobody waits for a rank that has left to map a buffer.
void Watchdog::State::forget_mapper(std::int32_t peer) {
  std::vector<HeapName> heaps;
  for (const auto& [heap, missing] : unmapped) {
    if (missing.contains(peer)) {
      heaps.push_back(heap);
    }
  }
  for (const HeapName& heap : heaps) {
    take_mapped(peer, heap);
  }
}

void Watchdog::State::forward_unmap(std::int32_t peer, const HeapName& heap) {
  const Fields message = {"unheap", std::to_string(heap.first), std::to_string(heap.second)};
  for (const auto& [below, link] : parts.down) {
    if (is_leader && is_local(below) && below != heap.first) {
      link->send(message);
    }
  }
  if (heap.first != parts.rank) {
    parts.unmap(heap.first, heap.second);
  } else if (!is_leader && peer == parts.rank && parts.up != nullptr) {
    parts.up->send(message);
  }
}

Watchdog::Watchdog(WatchdogParts parts, Fault& fault)
    : state_(std::make_unique<State>(std::move(parts), fault)) {
  State* state = state_.get();
  state->wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  state->is_leader = state->parts.hosts.leader_of(state->parts.rank) == state->parts.rank;
}

void Watchdog::start() {
  State* state = state_.get();
  state->is_running = true;
  state->thread = start_thread(fmt::format("comm-watch-{}", state->parts.rank),
                               [state](const std::stop_token&) { state->run(); });
}

Watchdog::~Watchdog() {
  leave();
}

void Watchdog::leave() {
  state_->is_leaving = true;
  ::eventfd_write(state_->wake.get(), 1);
  if (state_->thread.joinable()) {
    state_->thread.join();
  }
}

void Watchdog::spread() {
  State& state = *state_;
  state.must_spread = true;
  if (state.is_running && state.runner == std::this_thread::get_id()) {
    state.send_fault();
    return;
  }
  ::eventfd_write(state.wake.get(), 1);
  std::unique_lock lock(state.mutex);
  state.changed.wait_for(lock, kSpread, [&] { return state.has_spread || !state.is_running; });
}

Result<void> Watchdog::share(std::uint64_t id, std::uint64_t bytes, int fd, milliseconds time) {
  State& state = *state_;
  State::Share share{.id = id, .bytes = bytes, .fd = Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0))};
  if (!share.fd.is_open()) {
    return errno_error("duplicate a descriptor", errno);
  }
  std::unique_lock lock(state.mutex);
  state.shares.push_back(std::move(share));
  ::eventfd_write(state.wake.get(), 1);
  const bool is_over = state.changed.wait_for(
      lock, time, [&] { return state.fault.is_raised() || state.mapped.contains(id); });
  if (state.mapped.erase(id) == 1) {
    return {};
  }
  lock.unlock();
  return is_over ? state.fault.error()
                 : Error{Code::kDeadline, "not every rank of this host has mapped a new buffer"};
}

void Watchdog::unshare(std::uint64_t id) {
  const MutexLock lock(state_->mutex);
  state_->shares.push_back({.id = id, .bytes = 0, .fd = Fd(), .is_end = true});
  ::eventfd_write(state_->wake.get(), 1);
}

}  // namespace trainyard::comm
