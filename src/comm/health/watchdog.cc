// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/text.h"
#include "base/thread.h"
#include "comm/health/internal/watchdog_state.h"
#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLastWords{1000};  // until the others have read them

Fields fault_message(const Error& error) {
  return {"fault", std::to_string(static_cast<int>(error.code)), error.message};
}

Error error_of(const Fields& fields) {
  const auto code = parse_int(fields[1]);
  const bool is_known = code && *code >= 0 && *code <= static_cast<int>(Code::kInternal);
  return {is_known ? static_cast<Code>(*code) : Code::kInternal, fields[2]};
}

}  // namespace

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
  tell_who_has_left();
  for (const auto& [peer, link] : parts.down) {
    link->send({"bye"});
  }
  if (parts.up != nullptr) {
    parts.up->send({"bye"});
  }
}

// The leaders of other hosts hear it from nobody else. What the ranks had issued is all that
// counts.
void Watchdog::State::tell_who_has_left() {
  Fields fields = {"beat"};
  const auto add = [&](RankProgress progress) {
    if (progress.has_left) {
      progress.recent.clear();
      fields.push_back(encode(progress));
    }
  };
  for (const std::int32_t rank : local_ranks()) {
    add(parts.progress_of(rank));
  }
  for (const auto& [rank, progress] : remote) {
    add(progress);
  }
  for (const auto& [peer, link] : parts.down) {
    if (!is_local(peer)) {
      link->send(fields);
    }
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
  if (!closing_at && (!is_needed || now > *left_at + parts.linger)) {
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
      close_up();
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
      close_up();
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
  } else if (error.code == Code::kExhausted) {
    raise({error.code, fmt::format("{} cannot take what {} sent: {}", describe(member(parts.rank)),
                                   what, error.message)});
  } else if (is_local(peer)) {
    raise({Code::kUnavailable, what + " died: its process has ended"});
  } else {
    raise({Code::kUnavailable,
           fmt::format("{} is gone: its process died, or its host is out of reach ({})", what,
                       error.message)});
  }
}

void Watchdog::State::close_up() {
  parts.up.reset();
  const MutexLock lock(mutex);
  has_no_leader = !is_leader;
  changed.notify_all();
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
    take_mapped(peer, heap_in(fields));
  } else if (verb == "unheap" && fields.size() == 3) {
    forward_unmap(peer, heap_in(fields));
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
  if (!closing_at) {
    look_at_boards();
  }
  if (is_leader || (parts.up == nullptr && !is_leaving)) {
    judge();
  }
}

// Faults that nobody passes on: a leader that is stopped, or has left, does not.
void Watchdog::State::look_at_boards() {
  for (const std::int32_t rank : local_ranks()) {
    const auto shown = fault.is_raised() ? std::nullopt : parts.fault_of(rank);
    if (shown) {
      raise(*shown);
    }
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
  state.parts.show(state.fault.peek());
  state.must_spread = true;
  if (state.is_running && state.runner == std::this_thread::get_id()) {
    state.send_fault();
    return;
  }
  ::eventfd_write(state.wake.get(), 1);
  std::unique_lock lock(state.mutex);
  state.changed.wait_for(lock, kSpread, [&] { return state.has_spread || !state.is_running; });
}

}  // namespace trainyard::comm
