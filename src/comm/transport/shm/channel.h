// SPDX-License-Identifier: Apache-2.0
// The queue of messages from one rank to another: a ring of one-line entries in the segment, one
// writer, one reader. An entry says where the payload lies, or holds it when it is small. It is the
// only place where the data path synchronises; neither side uses a locked instruction.
//
// | who      | access                    | order   | why                                         |
// |----------|---------------------------|---------|---------------------------------------------|
// | sender   | entry and payload written | plain   | nobody looks before `turn`                  |
// | sender   | turn = number             | release | publishes both                              |
// | receiver | turn == number?           | acquire | if so, entry and payload may be read        |
// | receiver | entry and payload read    | plain   |                                             |
// | receiver | consumed = number         | release | all reads are before it                     |
// | sender   | consumed >= number?       | acquire | if so, entry and payload may be overwritten |
//
// Numbers count from 1; `turn` holds the low 32 bits, and an entry's next number differs from its
// last by the depth, so that an old turn is never taken for a new one. Payload written by
// non-temporal stores must be fenced by its writer before push(); combine/combine.h does. Whether
// the other side sleeps is not asked here: doorbell.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "comm/transport/transport.h"

namespace trainyard::comm {

enum class Place : std::uint32_t {
  kEntry,  // in `body`
  kPool,   // in the sender's pool, at `where.offset`
  kHeap,   // in the sender's heap `where.heap`, at `where.offset`
};

struct alignas(64) Entry {
  static constexpr std::size_t kBodyBytes = 24;

  std::atomic<std::uint32_t> turn = 0;
  Place place = Place::kEntry;
  std::uint64_t length = 0;
  Label label;
  union {
    std::array<std::byte, kBodyBytes> body;
    Window where = {};
  };
};
static_assert(sizeof(Entry) == 64);

struct alignas(64) Consumed {
  std::atomic<std::uint64_t> number = 0;
};

class ChannelSender {
 public:
  // `depth` is a power of two.
  ChannelSender(Entry* entries, const Consumed* consumed, std::size_t depth)
      : entries_(entries), consumed_(consumed), depth_(depth) {}

  bool has_room() { return sent_ - seen_ < depth_ || (look(), sent_ - seen_ < depth_); }
  // Only after has_room(): fill in all but `turn`, then push().
  Entry& next() { return entries_[(sent_ + 1) & (depth_ - 1)]; }
  // The number of the message.
  std::uint64_t push() {
    Entry& entry = next();
    ++sent_;
    entry.turn.store(static_cast<std::uint32_t>(sent_), std::memory_order_release);
    return sent_;
  }
  bool is_consumed(std::uint64_t number) { return seen_ >= number || (look(), seen_ >= number); }
  // Whether more is consumed than when this was asked last.
  bool has_news() {
    const std::uint64_t number = consumed_->number.load(std::memory_order_relaxed);
    return number != std::exchange(noticed_, number);
  }

 private:
  void look() { seen_ = consumed_->number.load(std::memory_order_acquire); }

  Entry* entries_;
  const Consumed* consumed_;
  std::uint64_t depth_;
  std::uint64_t sent_ = 0;
  std::uint64_t seen_ = 0;     // consumed, when last looked
  std::uint64_t noticed_ = 0;  // the same, by has_news()
};

class ChannelReceiver {
 public:
  ChannelReceiver(const Entry* entries, Consumed* consumed, std::size_t depth)
      : entries_(entries), consumed_(consumed), depth_(depth) {}

  // The oldest message that was not popped, or null.
  const Entry* front() const {
    const Entry& entry = entries_[(popped_ + 1) & (depth_ - 1)];
    const auto turn = static_cast<std::uint32_t>(popped_ + 1);
    return entry.turn.load(std::memory_order_acquire) == turn ? &entry : nullptr;
  }
  // Only when front() is there: gives it and its payload back to the sender.
  void pop() {
    ++popped_;
    consumed_->number.store(popped_, std::memory_order_release);
  }

 private:
  const Entry* entries_;
  Consumed* consumed_;
  std::uint64_t depth_;
  std::uint64_t popped_ = 0;
};

}  // namespace trainyard::comm
