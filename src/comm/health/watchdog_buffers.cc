// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>

#include "base/text.h"
#include "comm/health/internal/watchdog_state.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;

std::uint64_t number(const std::string& text) {
  const auto value = parse_int(text);
  return value && *value >= 0 ? static_cast<std::uint64_t>(*value) : 0;
}

}  // namespace

Watchdog::State::HeapName Watchdog::State::heap_in(const Fields& fields) {
  return {static_cast<std::int32_t>(number(fields[1])), number(fields[2])};
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
  const HeapName heap = heap_in(message.fields);
  const std::int32_t owner = heap.first;
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

Result<void> Watchdog::share(std::uint64_t id, std::uint64_t bytes, int fd, milliseconds time) {
  State& state = *state_;
  State::Share share{.id = id, .bytes = bytes, .fd = Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0))};
  if (!share.fd.is_open()) {
    return errno_error("duplicate a descriptor", errno);
  }
  std::unique_lock lock(state.mutex);
  state.shares.push_back(std::move(share));
  ::eventfd_write(state.wake.get(), 1);
  state.changed.wait_for(lock, time, [&] {
    return state.fault.is_raised() || state.has_no_leader || state.mapped.contains(id);
  });
  if (state.mapped.erase(id) == 1) {
    return {};
  }
  const bool has_no_leader = state.has_no_leader;
  lock.unlock();
  if (state.fault.is_raised()) {
    return state.fault.error();
  }
  if (has_no_leader) {
    return Error{Code::kUnavailable,
                 fmt::format("{} has left the world, and hands no buffer to the others any more",
                             describe(state.member(state.above())))};
  }
  return Error{Code::kDeadline, "not every rank of this host has mapped a new buffer"};
}

void Watchdog::unshare(std::uint64_t id) {
  const MutexLock lock(state_->mutex);
  state_->shares.push_back({.id = id, .bytes = 0, .fd = Fd(), .is_end = true});
  ::eventfd_write(state_->wake.get(), 1);
}

}  // namespace trainyard::comm
