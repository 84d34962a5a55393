// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/shm_transport.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "comm/transport/shm/cores.h"
#include "comm/transport/shm/fence.h"

namespace trainyard::comm {
namespace {

constexpr std::uint32_t kNotHere = ~0U;
// Below it a copy costs less than to keep the sender's memory until the last reader is done.
constexpr std::size_t kLeastInPlace = 4 << 10;
// Below it the two stores drew in every state that was met.
constexpr std::size_t kLeastStreamed = 512;

LatencyProbe::Role role_of(const ShmOptions& options) {
  if (options.index > 1 || options.ranks.size() < 2) {
    return LatencyProbe::Role::kNone;
  }
  return options.index == 0 ? LatencyProbe::Role::kMeasures : LatencyProbe::Role::kAnswers;
}

std::vector<std::uint32_t> invert(const std::vector<std::int32_t>& ranks) {
  const std::int32_t last = *std::max_element(ranks.begin(), ranks.end());
  std::vector<std::uint32_t> index(static_cast<std::size_t>(last) + 1, kNotHere);
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    index[static_cast<std::size_t>(ranks[i])] = i;
  }
  return index;
}

}  // namespace

Result<std::unique_ptr<ShmTransport>> ShmTransport::create(std::shared_ptr<const Segment> segment,
                                                           ShmOptions options, Fault& fault,
                                                           HeapRegistry& heaps) {
  const std::uint32_t world = segment->shape().world;
  const bool are_ranks = std::all_of(options.ranks.begin(), options.ranks.end(),
                                     [](std::int32_t rank) { return rank >= 0; });
  if (options.ranks.size() != world || options.index >= world || !are_ranks) {
    return Error{Code::kInvalidArgument,
                 fmt::format("rank {} of {} on this host, but the segment has {} ranks",
                             options.index, options.ranks.size(), world)};
  }
  if (!register_for_light_barriers()) {
    segment->demand_fences();
  }
  Board& board = segment->board(options.index);
  std::unique_ptr<ShmTransport> transport(
      new ShmTransport(std::move(segment), std::move(options), fault, heaps));
  board.set_cpus(allowed_cpus());
  board.set_memory(transport->memory_.card());
  board.raise(Board::kAttached);
  return transport;
}

ShmTransport::ShmTransport(std::shared_ptr<const Segment> segment, ShmOptions options, Fault& fault,
                           HeapRegistry& heaps)
    : segment_(std::move(segment)),
      options_(std::move(options)),
      fault_(fault),
      heaps_(heaps),
      index_of_(invert(options_.ranks)),
      pool_(segment_->pool(options_.index)),
      small_(0, segment_->shape().small_lane),
      large_(segment_->shape().small_lane, segment_->shape().large_lane),
      probe_(segment_->probe(), segment_->probe_buffer(), role_of(options_)) {
  const SegmentShape& shape = segment_->shape();
  const std::uint32_t own = options_.index;
  for (std::uint32_t peer = 0; peer < shape.world; ++peer) {
    peers_.push_back({.out = ChannelSender(segment_->entries(own, peer),
                                           &segment_->consumed(own, peer), shape.depth),
                      .in = ChannelReceiver(segment_->entries(peer, own),
                                            &segment_->consumed(peer, own), shape.depth),
                      .bell = &segment_->bell(peer),
                      .pool = segment_->pool(peer)});
  }
}

std::uint32_t ShmTransport::index_of(std::int32_t rank) const {
  const auto place = static_cast<std::size_t>(rank);
  const std::uint32_t index = place < index_of_.size() ? index_of_[place] : kNotHere;
  YARD_CHECK(index != kNotHere && index != options_.index, "not another rank of this host");
  return index;
}

std::size_t ShmTransport::room() const {
  // What does not fit before the end of the lane leaves a gap there, shorter than itself.
  return segment_->shape().large_lane - segment_->shape().max_message;
}

bool ShmTransport::have_room(std::span<const std::int32_t> peers) {
  const bool is_there = std::all_of(
      peers.begin(), peers.end(), [&](std::int32_t rank) { return peer_of(rank).out.has_room(); });
  wants_room_ |= !is_there;
  return is_there;
}

std::optional<ShmTransport::Reserved> ShmTransport::find_place(std::size_t bytes) {
  const auto consumed = [&](Mark mark) { return is_consumed(mark); };
  if (bytes <= segment_->shape().small_message) {
    // The channels are asked only when the lane is full: a look at what another core has just
    // written costs as much as a small message.
    std::optional<std::uint64_t> at = small_.find(bytes);
    if (!at) {
      small_.let_go(consumed);
      at = small_.find(bytes);
    }
    if (at) {
      return Reserved{.place = Place::kPool, .at = *at, .bytes = bytes, .lane = &small_};
    }
  }
  large_.let_go(consumed);
  if (const std::optional<std::uint64_t> at = large_.find(bytes)) {
    return Reserved{.place = Place::kPool, .at = *at, .bytes = bytes, .lane = &large_};
  }
  return std::nullopt;
}

std::span<std::byte> ShmTransport::try_reserve(std::span<const std::int32_t> peers,
                                               std::size_t bytes) {
  YARD_CHECK(bytes <= max_message(), "a message longer than max_message()");
  if (!have_room(peers)) {
    return {};
  }
  if (bytes <= Entry::kBodyBytes) {
    reserved_ = {.place = Place::kEntry, .bytes = bytes};
    return std::span(small_payload_).first(bytes);
  }
  const std::optional<Reserved> place = find_place(bytes);
  if (!place) {
    wants_room_ = true;
    return {};
  }
  reserved_ = *place;
  return pool_.subspan(reserved_.at, bytes);
}

void ShmTransport::post(std::span<const std::int32_t> peers, const Label& label,
                        const Reserved& what, Window window, Pending* pending) {
  for (const std::int32_t rank : peers) {
    const std::uint32_t index = index_of(rank);
    ChannelSender& out = peers_[index].out;
    Entry& entry = out.next();
    entry.place = what.place;
    entry.length = what.bytes;
    entry.label = label;
    if (what.place == Place::kEntry) {
      entry.body = small_payload_;
    } else {
      entry.where = window;
    }
    const std::uint64_t number = out.push();
    if (pending != nullptr) {
      pending->mark({.peer = index, .number = number});
    }
  }
  const bool fences = segment_->has_fences();
  for (const std::int32_t rank : peers) {
    peer_of(rank).bell->ring_sleeper(Doorbell::kMessage, fences);
  }
}

void ShmTransport::publish(std::span<const std::int32_t> peers, const Label& label) {
  Lane* const lane = reserved_.lane;
  post(peers, label, reserved_, {.heap = 0, .offset = reserved_.at},
       lane != nullptr ? &lane->pending() : nullptr);
  if (lane != nullptr) {
    lane->commit(reserved_.bytes);
  }
  reserved_ = {};
  probe_.while_busy();
}

bool ShmTransport::can_send_in_place(std::span<const std::int32_t> /*peers*/,
                                     std::span<const std::byte> bytes) const {
  return bytes.size() >= kLeastInPlace && heaps_.window_of(bytes).heap != 0;
}

bool ShmTransport::try_send_in_place(std::span<const std::int32_t> peers, const Label& label,
                                     std::span<const std::byte> bytes, Ticket* ticket) {
  const Window window = heaps_.window_of(bytes);
  const bool is_withdrawn = window.heap == 0 && fault_.is_raised();
  YARD_CHECK(window.heap != 0 || is_withdrawn, "sent in place what lies in no heap");
  if (is_withdrawn || !have_room(peers)) {
    return false;
  }
  post(peers, label, {.place = Place::kHeap, .bytes = bytes.size()}, window, &in_place_);
  in_place_.hold(++last_ticket_);
  *ticket = last_ticket_;
  return true;
}

bool ShmTransport::is_sent(Ticket ticket) {
  in_place_.let_go([&](Mark mark) { return is_consumed(mark); });
  const bool is_done = in_place_.is_empty() || in_place_.oldest() > ticket;
  wants_room_ |= !is_done;
  return is_done;
}

std::span<const std::byte> ShmTransport::payload_of(Peer& peer, std::int32_t rank,
                                                    const Entry& entry) {
  switch (entry.place) {
    case Place::kEntry:
      if (entry.length <= entry.body.size()) {
        return std::span(entry.body).first(entry.length);
      }
      break;
    case Place::kPool:
      if (entry.where.offset <= peer.pool.size() &&
          entry.length <= peer.pool.size() - entry.where.offset) {
        return peer.pool.subspan(entry.where.offset, entry.length);
      }
      break;
    case Place::kHeap:
      // Its descriptor may come later than the message: until then there is none.
      if (peer.held == nullptr) {
        peer.held = heaps_.map(rank, entry.where, entry.length);
      }
      return {peer.held.get(), entry.length};
  }
  fault_.raise({Code::kCorrupt, fmt::format("a message of rank {} points outside of its memory, "
                                            "to {} bytes at {}",
                                            rank, entry.length, entry.where.offset)});
  return {};
}

const Inbound* ShmTransport::try_receive(std::int32_t peer, std::span<std::byte> /*into*/) {
  const std::uint32_t index = index_of(peer);
  Peer& from = peers_[index];
  const Entry* const entry = from.in.front();
  if (entry == nullptr) {
    watch(index);
    return nullptr;
  }
  const std::span<const std::byte> bytes = payload_of(from, peer, *entry);
  if (bytes.data() == nullptr) {
    return nullptr;
  }
  from.inbound = {.label = entry->label, .bytes = bytes};
  return &from.inbound;
}

void ShmTransport::release(std::int32_t peer) {
  Peer& from = peer_of(peer);
  from.in.pop();
  from.held.reset();
  from.bell->ring_sleeper(Doorbell::kRoom, segment_->has_fences());
}

Window ShmTransport::window_of(std::span<const std::byte> bytes) const {
  return heaps_.window_of(bytes);
}

std::byte* ShmTransport::map(std::int32_t peer, Window window) {
  std::shared_ptr<std::byte> there = heaps_.map(peer, window, 1);
  std::byte* const address = there.get();
  if (address != nullptr) {
    lent_.push_back(std::move(there));
  }
  return address;
}

// Asked once. All ranks have attached when the first of them sends, and nobody asks before that.
bool ShmTransport::reaches_all_memory() {
  if (!reaches_all_memory_) {
    reaches_all_memory_ = true;
    for (std::uint32_t index = 0; index < segment_->shape().world; ++index) {
      if (index != options_.index && !reaches(segment_->board(index).memory())) {
        reaches_all_memory_ = false;
      }
    }
  }
  return *reaches_all_memory_;
}

Result<void> ShmTransport::fetch(std::int32_t peer, std::uint64_t address,
                                 std::span<std::byte> into) {
  const MemoryCard card = segment_->board(index_of(peer)).memory();
  return read_memory(static_cast<pid_t>(card.pid), address, into);
}

// The flag is stored before anything that the owner then writes, and loaded after all that the peer
// has read: who read something new finds the flag.
void ShmTransport::give_up() {
  segment_->board(options_.index).raise(Board::kGaveUp);
  fence(std::memory_order_release);
  if (const Result<void> withdrawn = heaps_.withdraw(); !withdrawn) {
    log_warning(withdrawn.error().in("comm: after a fault, for buffers of allocate").message);
  }
}

bool ShmTransport::has_given_up(std::int32_t peer) {
  fence(std::memory_order_acquire);
  return segment_->board(index_of(peer)).has(Board::kGaveUp);
}

bool ShmTransport::prefers_non_temporal(std::size_t bytes) const {
  return bytes >= kLeastStreamed && probe_.better_store(bytes) == Store::kNonTemporal;
}

}  // namespace trainyard::comm
