// SPDX-License-Identifier: Apache-2.0
// Performs one rank's part of a schedule over a transport: walks the pieces of its steps in the
// order that all ranks share, waits for the messages that a step combines, combines them in one
// pass into everything that wants the result (the user's output, the message that goes on, other
// ranks' windows), sends. Combines straight from the messages, and sends from the user's memory
// where the transport can; never overwrites bytes that are still being sent.
//
// The first look at a message compares its label. When it is of another operation, the ranks
// disagree: kConflict, naming both sides, raised in the Fault before a byte is used. Every wait
// looks at the Fault and at the deadline of the operation. After an error the communicator is
// closed, and the executor is of no more use.
//
// Memory of other ranks, where a schedule has windows, is mapped, or read by the kernel. A rank
// that ends an operation with an error says so before its caller has the buffers again
// (Transport::give_up, by the communicator), and the others look for that before they write and
// after they have read: what it does with them is never taken for a result.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/combine/combine.h"
#include "comm/health/fault.h"
#include "comm/health/progress.h"
#include "comm/run/explain.h"
#include "comm/run/plan.h"
#include "comm/transport/transport.h"
#include "comm/types.h"

namespace trainyard::comm {

// One operation, ready to run. The pointers are borrowed until perform() returns.
struct Task {
  Label label;
  std::span<const std::byte> input;
  std::span<std::byte> output;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

class Executor {
 public:
  struct Setting {
    std::string name;  // of the communicator, for errors
    std::int32_t rank = 0;
    std::int32_t size = 1;
    const ProgressBoard* board = nullptr;  // may be null
  };
  // All must outlive it.
  Executor(Transport& transport, Fault& fault, Setting setting);

  // From any thread, for the waits that follow.
  void set_patience(Patience patience) { patience_.store(patience, std::memory_order_relaxed); }

  Result<void> perform(const Task& task, const Plan& plan);

  // All ranks tell each other where their buffers lie, and learn the same: how they get at them. It
  // is the first meeting of a schedule with windows, which perform() then leaves out. kCopied is
  // for single_copy only.
  Result<Reach> meet(const Task& task);
  // Whether, at the last meeting, the kernel read the memory of any rank for any other, be the
  // buffers of that operation what they may.
  bool reaches_all() const { return reaches_all_; }

 private:
  struct Piece {
    std::uint64_t begin = 0;  // elements into each slice of the step
    std::size_t count = 0;
    std::size_t bytes = 0;
  };
  struct Sending {
    const std::byte* begin;
    const std::byte* end;
    Ticket ticket;
    std::int32_t peer;  // the first of them
  };
  // What a step does with one piece.
  struct Move {
    bool is_copy = false;  // one operand, unchanged
    bool stays = false;    // sent from `source`, not from a reserved message
    const std::byte* source = nullptr;
    std::byte* store = nullptr;
    std::span<std::byte> slot;
  };
  struct Stores {  // of what others read and of what stays with this rank
    Store for_others;
    Store own;
  };

  void begin(const Task& task);
  bool walk(const Plan& plan);
  bool run_step(const Step& step, bool may_stay, std::uint64_t k, std::uint64_t pieces);
  Move move_of(const Step& step, bool may_stay, const Piece& piece);
  bool collect(const Step& step, const Piece& piece, const Move& move);
  void apply(const Step& step, const Piece& piece, const Move& move);
  Stores stores_for(const Step& step, const Piece& piece, const Move& move) const;
  bool send(const Step& step, const Piece& piece, const Move& move);
  bool fetch(const Step& step, const Piece& piece, const Move& move);
  bool are_all_there();
  void raise_out_of_reach(std::int32_t peer, const Error& why);
  bool wait_for_window(std::int32_t peer);
  bool wait_for_sent(const std::byte* begin, std::size_t bytes);
  bool settle();

  const Inbound* receive(std::int32_t peer, std::span<std::byte> into, std::size_t bytes);
  const Inbound* accept(std::int32_t peer, const Inbound* inbound, std::size_t bytes);
  bool reserve(std::span<const std::int32_t> peers, std::size_t bytes, std::span<std::byte>* slot);
  template <typename Ready>
  bool wait_until(const Ready& ready, std::int32_t peer) {
    while (!ready()) {
      if (!pause(peer)) {
        return false;
      }
    }
    return true;
  }
  bool pause(std::int32_t peer);
  Scene scene() const { return {setting_.name, setting_.rank, task_->label}; }
  void raise_deadline(std::int32_t peer);
  bool has_come(std::int32_t peer);

  std::byte* address(const Slice& slice, std::uint64_t begin);

  Transport& transport_;
  Fault& fault_;
  Setting setting_;
  std::vector<std::int32_t> others_;
  std::atomic<Patience> patience_ = Patience::kSpin;

  const Task* task_ = nullptr;
  std::size_t element_ = 1;
  std::uint64_t window_ = 0;  // of the plan
  bool reads_others_ = false;
  bool is_average_ = false;
  bool is_streaming_ = false;  // so large that its results leave the caches anyway
  std::chrono::steady_clock::time_point started_;  // of its first wait
  bool has_waited_ = false;
  std::vector<std::uint64_t> heard_;  // by rank: the last operation that it sent a message in
  std::vector<Sending> sending_;
  std::vector<const std::byte*> operands_;
  std::vector<std::byte*> outs_;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;

  struct Mapped {
    std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  // Of the last meeting; by rank.
  Reach reach_ = Reach::kMessages;
  bool reaches_all_ = false;
  std::vector<Mapped> mapped_;         // with kMapped
  std::vector<std::uint64_t> inputs_;  // addresses in the memory of that rank, with kCopied
};

}  // namespace trainyard::comm
