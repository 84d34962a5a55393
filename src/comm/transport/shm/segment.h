// SPDX-License-Identifier: Apache-2.0
// The memory that the ranks of one host share: who has which part of it. Made by one of them (the
// leader of the host), passed to the others as a descriptor (rendezvous/control_link.h), mapped
// once by each. Everything in it starts as zero, so that no rank has to prepare anything for
// another one.
//
//   +--------+-------------+---------------+---------------+-------------------+--------------+
//   | header | bell, board | consumed      | entries       | pool: small lane, | probe buffer |
//   | probe  | of a rank   | of an ordered | of an ordered | large lane of a   |              |
//   |        |             | pair          | pair          | rank              |              |
//   +--------+-------------+---------------+---------------+-------------------+--------------+
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "comm/transport/shm/board.h"
#include "comm/transport/shm/channel.h"
#include "comm/transport/shm/doorbell.h"
#include "comm/transport/shm/shared_memory.h"

namespace trainyard::comm {

// How much of everything. Sizes in bytes.
struct SegmentShape {
  std::uint32_t world = 0;        // ranks on this host, at most kMaxWorld
  std::uint32_t depth = 0;        // entries of each channel, a power of two
  std::uint64_t max_message = 0;  // a multiple of 64
  std::uint64_t large_lane = 0;   // per rank; multiples of 64
  std::uint64_t small_lane = 0;   // per rank, for messages of at most small_message
  std::uint64_t small_message = 0;

  static constexpr std::uint32_t kMaxWorld = 256;
  bool operator==(const SegmentShape&) const = default;
};

// For `world` ranks: 2 * (world - 1) messages of max_message have room in a large lane before any
// is released, which is what a ring and an all-to-all have under way; and one more, because a
// message does not wrap around the end of a lane. Up to 64 ranks about 1 MiB a rank, at most 5 MiB.
// Each pair has a channel, so that the whole grows with the square of the ranks: 18 MiB for 16 of
// them, 133 MiB for 64, 5.1 GiB for kMaxWorld, and a communicator has two segments. That is address
// space: a page comes when it is touched, a channel's 64 KiB when its pair exchanges messages.
SegmentShape default_shape(std::uint32_t world);

// One-line mailboxes for measuring how far local ranks 0 and 1 are from each other: latency.h.
struct ProbeLines {
  struct alignas(64) Line {
    std::atomic<std::uint64_t> value = 0;
  };
  Line invited;   // written by rank 0
  Line ping;      // written by rank 0
  Line accepted;  // written by rank 1
  Line pong;      // written by rank 1
  // Results, written by rank 0; zero: none yet.
  Line one_way_ns;
  Line is_streaming_better;
};

class Segment {
 public:
  // kInvalidArgument for a shape that is none.
  static Result<Segment> create(const SegmentShape& shape);
  // kCorrupt when it is not a segment or too small for its shape, kConflict when it is of another
  // version of this library (both named).
  static Result<Segment> map(Fd fd);

  int fd() const { return memory_.fd(); }
  const SegmentShape& shape() const { return shape_; }

  Doorbell& bell(std::uint32_t rank) const;
  Board& board(std::uint32_t rank) const;
  Entry* entries(std::uint32_t from, std::uint32_t to) const;
  Consumed& consumed(std::uint32_t from, std::uint32_t to) const;
  // The small lane, then the large one.
  std::span<std::byte> pool(std::uint32_t rank) const;
  ProbeLines& probe() const;
  std::span<std::byte> probe_buffer() const;  // 64 KiB for the same

  // Whether all ranks fence (doorbell.h). Set by a rank that must, before the first message.
  bool has_fences() const;
  void demand_fences() const;

 private:
  struct Header;
  Segment(SharedMemory memory, const SegmentShape& shape);
  template <typename T>
  T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(memory_.bytes().data() + offset);
  }

  SharedMemory memory_;
  SegmentShape shape_;
  std::uint64_t consumed_at_ = 0;
  std::uint64_t entries_at_ = 0;
  std::uint64_t pools_at_ = 0;
  std::uint64_t probe_buffer_at_ = 0;
};

}  // namespace trainyard::comm
