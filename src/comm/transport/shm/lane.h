// SPDX-License-Identifier: Apache-2.0
// A part of a rank's pool, as its owner keeps account of it: memory for messages, taken in order
// and given back in order, once every addressed peer has consumed its message. It starts at its
// beginning again whenever nothing is under way, so that few messages stay in few cache lines.
// Private to the sender: what the peers have consumed is asked of the channels, lazily.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace trainyard::comm {

// Message `number` on the way to a peer.
struct Mark {
  std::uint32_t peer = 0;
  std::uint64_t number = 0;
};

// Values in the order of their messages, each held until all its marks are consumed.
class Pending {
 public:
  void mark(Mark mark) {
    marks_.push_back(mark);
    ++unclaimed_;
  }
  // The marks since the last one hold `value`.
  void hold(std::uint64_t value) {
    held_.push_back({.value = value, .marks = unclaimed_});
    unclaimed_ = 0;
  }
  bool is_empty() const { return held_.empty(); }
  std::uint64_t oldest() const { return held_.front().value; }

  // Lets go of all that is consumed, from the oldest on; the last one of them.
  template <typename IsConsumed>
  std::optional<std::uint64_t> let_go(const IsConsumed& is_consumed) {
    std::optional<std::uint64_t> last;
    while (!held_.empty()) {
      Held& held = held_.front();
      while (held.marks > 0 && is_consumed(marks_.front())) {
        marks_.pop_front();
        --held.marks;
      }
      if (held.marks > 0) {
        return last;
      }
      last = held.value;
      held_.pop_front();
    }
    return last;
  }

 private:
  struct Held {
    std::uint64_t value = 0;
    std::size_t marks = 0;  // not yet consumed
  };

  std::deque<Held> held_;
  std::deque<Mark> marks_;
  std::size_t unclaimed_ = 0;
};

class Lane {
 public:
  // `bytes` of the pool from `offset` on, both multiples of 64.
  Lane(std::uint64_t offset, std::uint64_t bytes) : offset_(offset), bytes_(bytes) {}

  // Where in the pool the next message of `bytes` goes, contiguous and aligned to a line; empty
  // when there is no room. Taken only by commit().
  std::optional<std::uint64_t> find(std::uint64_t bytes) const {
    const std::uint64_t need = whole_lines(bytes);
    const std::uint64_t start = start_of(need);
    if (start + need - begin_ > bytes_) {
      return std::nullopt;
    }
    return offset_ + start % bytes_;
  }
  // The message that find(bytes) found a place for holds it until the marks that were set in
  // pending() since the last commit are consumed.
  void commit(std::uint64_t bytes) {
    const std::uint64_t need = whole_lines(bytes);
    end_ = start_of(need) + need;
    pending_.hold(end_);
  }
  Pending& pending() { return pending_; }

  template <typename IsConsumed>
  void let_go(const IsConsumed& is_consumed) {
    if (const auto last = pending_.let_go(is_consumed)) {
      begin_ = *last;
    }
    if (pending_.is_empty()) {
      begin_ = 0;
      end_ = 0;
    }
  }

 private:
  static std::uint64_t whole_lines(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }
  // Positions grow; what would cross the end of the lane starts at its beginning.
  std::uint64_t start_of(std::uint64_t need) const {
    const std::uint64_t left = bytes_ - end_ % bytes_;
    return need <= left ? end_ : end_ + left;
  }

  std::uint64_t offset_;
  std::uint64_t bytes_;
  std::uint64_t begin_ = 0;  // of the oldest message under way
  std::uint64_t end_ = 0;    // of the youngest one
  Pending pending_;
};

}  // namespace trainyard::comm
