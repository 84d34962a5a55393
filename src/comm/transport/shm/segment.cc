// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/segment.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "comm/rendezvous/member.h"

namespace trainyard::comm {
namespace {

constexpr std::uint64_t kMagic = 0x31474553'44524159;  // "YARDSEG1", little-endian
constexpr std::uint32_t kVersion = 4;
constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLargestMessage = 128 << 10;
constexpr std::uint64_t kLeastMessage = 8 << 10;
constexpr std::uint64_t kProbeBytes = 64 << 10;
constexpr std::uint64_t kPoolBudget = 1 << 20;
static_assert(SegmentShape::kMaxWorld == kMaxLocalRanks);
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 36;

struct alignas(64) PerRank {
  Doorbell bell;
  Board board;
};

struct Places {
  std::uint64_t consumed = 0;
  std::uint64_t entries = 0;
  std::uint64_t pools = 0;
  std::uint64_t probe_buffer = 0;
  std::uint64_t end = 0;
};

std::uint64_t up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

bool is_valid(const SegmentShape& shape) {
  const auto fits = [](std::uint64_t bytes) { return bytes % kLine == 0 && bytes < kMaxSize; };
  return shape.world >= 1 && shape.world <= SegmentShape::kMaxWorld &&
         std::has_single_bit(shape.depth) && shape.depth <= 65536 && fits(shape.max_message) &&
         fits(shape.large_lane) && fits(shape.small_lane) && shape.max_message > 0 &&
         shape.max_message <= shape.large_lane && shape.small_message <= shape.small_lane;
}

}  // namespace

struct Segment::Header {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  SegmentShape shape;
  std::atomic<std::uint32_t> fences = 0;
  ProbeLines probe;
};

namespace {

template <typename Header>
Places places_of(const SegmentShape& shape) {
  const std::uint64_t pairs = std::uint64_t{shape.world} * shape.world;
  Places places;
  places.consumed = up(sizeof(Header), kPage) + shape.world * sizeof(PerRank);
  places.entries = up(places.consumed + pairs * sizeof(Consumed), kPage);
  places.pools = up(places.entries + pairs * shape.depth * sizeof(Entry), kPage);
  places.probe_buffer = places.pools + shape.world * up(shape.small_lane + shape.large_lane, kPage);
  places.end = places.probe_buffer + kProbeBytes;
  return places;
}

}  // namespace

SegmentShape default_shape(std::uint32_t world) {
  const std::uint64_t messages = 2 * (std::max<std::uint64_t>(world, 2) - 1);
  const std::uint64_t message =
      std::clamp(std::bit_floor(kPoolBudget / messages), kLeastMessage, kLargestMessage);
  return {.world = world,
          .depth = std::clamp<std::uint32_t>(std::bit_ceil(4 * world), 32, 1024),
          .max_message = message,
          .large_lane = messages * (message + Transport::kMessageCost) + message,
          .small_lane = 64 << 10,
          .small_message = 8 << 10};
}

Segment::Segment(SharedMemory memory, const SegmentShape& shape)
    : memory_(std::move(memory)), shape_(shape) {
  const Places places = places_of<Header>(shape);
  consumed_at_ = places.consumed;
  entries_at_ = places.entries;
  pools_at_ = places.pools;
  probe_buffer_at_ = places.probe_buffer;
}

Result<Segment> Segment::create(const SegmentShape& shape) {
  if (!is_valid(shape)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("no segment can have {} ranks, {} entries and messages of {} bytes",
                             shape.world, shape.depth, shape.max_message)};
  }
  YARD_TRY(SharedMemory memory,
           SharedMemory::create("trainyard-segment", places_of<Header>(shape).end));
  Segment segment(std::move(memory), shape);
  Header& header = *segment.at<Header>(0);
  header.version = kVersion;
  header.shape = shape;
  header.magic = kMagic;
  return segment;
}

Result<Segment> Segment::map(Fd fd) {
  YARD_TRY(SharedMemory memory, SharedMemory::map(std::move(fd)));
  if (memory.bytes().size() < sizeof(Header)) {
    return Error{Code::kCorrupt, "shared memory is too small for a segment"};
  }
  const Header& header = *reinterpret_cast<const Header*>(memory.bytes().data());
  if (header.magic != kMagic) {
    return Error{Code::kCorrupt, "shared memory is not a segment"};
  }
  if (header.version != kVersion) {
    return Error{Code::kConflict, fmt::format("the segment has version {}, this process {}",
                                              header.version, kVersion)};
  }
  const SegmentShape shape = header.shape;
  if (!is_valid(shape) || memory.bytes().size() < places_of<Header>(shape).end) {
    return Error{Code::kCorrupt, "a segment is smaller than it says"};
  }
  return Segment(std::move(memory), shape);
}

Doorbell& Segment::bell(std::uint32_t rank) const {
  return at<PerRank>(up(sizeof(Header), kPage))[rank].bell;
}

Board& Segment::board(std::uint32_t rank) const {
  return at<PerRank>(up(sizeof(Header), kPage))[rank].board;
}

Entry* Segment::entries(std::uint32_t from, std::uint32_t to) const {
  const std::uint64_t pair = std::uint64_t{from} * shape_.world + to;
  return at<Entry>(entries_at_) + pair * shape_.depth;
}

Consumed& Segment::consumed(std::uint32_t from, std::uint32_t to) const {
  return at<Consumed>(consumed_at_)[std::uint64_t{from} * shape_.world + to];
}

std::span<std::byte> Segment::pool(std::uint32_t rank) const {
  const std::uint64_t bytes = shape_.small_lane + shape_.large_lane;
  return memory_.bytes().subspan(pools_at_ + rank * up(bytes, kPage), bytes);
}

ProbeLines& Segment::probe() const {
  return at<Header>(0)->probe;
}

std::span<std::byte> Segment::probe_buffer() const {
  return memory_.bytes().subspan(probe_buffer_at_, kProbeBytes);
}

bool Segment::has_fences() const {
  return at<Header>(0)->fences.load(std::memory_order_relaxed) != 0;
}

void Segment::demand_fences() const {
  at<Header>(0)->fences.store(1, std::memory_order_seq_cst);
}

}  // namespace trainyard::comm
