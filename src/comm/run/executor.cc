// SPDX-License-Identifier: Apache-2.0
#include "comm/run/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/run/explain.h"

namespace trainyard::comm {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);  // between two looks at the fault
constexpr std::size_t kWindowBlock = std::size_t{1} << 20;
// Results of larger operations do not stay in a cache until someone reads them.
constexpr std::size_t kStreaming = std::size_t{16} << 20;

}  // namespace

Executor::Executor(Transport& transport, Fault& fault, Setting setting)
    : transport_(transport), fault_(fault), setting_(std::move(setting)) {
  for (std::int32_t rank = 0; rank < setting_.size; ++rank) {
    if (rank != setting_.rank) {
      others_.push_back(rank);
    }
  }
  heard_.resize(static_cast<std::size_t>(setting_.size));
  mapped_.resize(static_cast<std::size_t>(setting_.size));
  inputs_.resize(static_cast<std::size_t>(setting_.size));
  operands_.reserve(static_cast<std::size_t>(setting_.size) + 1);
  outs_.reserve(static_cast<std::size_t>(setting_.size) + 2);
}

void Executor::begin(const Task& task) {
  task_ = &task;
  element_ = size_of(task.label.signature.dtype);
  is_average_ = task.label.signature.reduce == ReduceOp::kAverage;
  is_streaming_ = task.input.size() + task.output.size() > kStreaming;
  has_waited_ = false;
}

Result<void> Executor::perform(const Task& task, const Plan& plan) {
  begin(task);
  window_ = plan.window;
  reads_others_ = plan.schedule.windows;
  const std::size_t scratch = plan.schedule.scratch * element_;
  if (scratch > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(scratch);
    scratch_bytes_ = scratch;
  }
  bool is_done = walk(plan) && settle();
  if (plan.schedule.windows) {
    transport_.unmap();
    // What others wrote after a fault may have missed this rank's memory, which has given up.
    is_done = is_done && !fault_.is_raised();
  }
  return is_done ? Result<void>() : fault_.error();
}

// Piece k of a step of level l is performed at time k * stride + l: at each time, pieces upwards,
// which is levels downwards.
bool Executor::walk(const Plan& plan) {
  const auto levels = static_cast<std::uint64_t>(plan.levels);
  const auto stride = static_cast<std::uint64_t>(plan.schedule.stride);
  const std::uint64_t last = plan.pieces - 1;
  const std::vector<Step>& steps = plan.schedule.steps;
  for (std::uint64_t time = 0; time < last * stride + levels; ++time) {
    std::uint64_t k = time < levels ? 0 : (time - levels) / stride + 1;
    for (; k <= last && k * stride <= time; ++k) {
      const std::uint64_t level = time - k * stride;
      for (std::uint32_t i = plan.first[level]; i < plan.first[level + 1]; ++i) {
        const std::uint32_t at = plan.order[i];
        if (!run_step(steps[at], plan.may_stay[at], k, plan.pieces)) {
          return false;
        }
      }
    }
  }
  return true;
}

bool Executor::run_step(const Step& step, bool may_stay, std::uint64_t k, std::uint64_t pieces) {
  Piece piece;
  if (!step.token) {
    const Slice part = piece_of({.offset = 0, .length = step.length}, k, pieces);
    piece.begin = part.offset;
    piece.count = part.length;
    piece.bytes = piece.count * element_;
    if (piece.count == 0 && !step.always) {
      return true;  // sender and receiver leave it out
    }
  }
  Move move = move_of(step, may_stay, piece);
  if (move.store != nullptr && !sending_.empty() && !wait_for_sent(move.store, piece.bytes)) {
    return false;
  }
  if (!step.to.empty() && !move.stays && !reserve(step.to, piece.bytes, &move.slot)) {
    return false;
  }
  if (!step.read.empty() && reach_ == Reach::kCopied) {
    return fetch(step, piece, move);
  }
  if (reads_others_ && step.token && !step.to.empty() && !are_all_there()) {
    return false;
  }
  if (!collect(step, piece, move)) {
    return false;
  }
  if (piece.bytes != 0) {
    apply(step, piece, move);
    if (fault_.is_raised()) {
      return false;
    }
  }
  if (!step.to.empty() && !move.stays) {
    transport_.publish(step.to, task_->label);
  }
  for (const std::int32_t peer : step.from) {
    transport_.release(peer);
  }
  return !move.stays || send(step, piece, move);
}

Executor::Move Executor::move_of(const Step& step, bool may_stay, const Piece& piece) {
  Move move;
  const std::size_t operands = step.from.size() + step.read.size() + (step.own ? 1 : 0);
  move.is_copy = operands == 1 && !(step.finish && is_average_);
  if (step.store) {
    move.store = address(*step.store, piece.begin);
  }
  if (may_stay && piece.bytes != 0) {
    move.source = move.is_copy && step.own && move.store == nullptr
                      ? address(*step.own, piece.begin)
                      : move.store;
    move.stays =
        move.source != nullptr && transport_.can_send_in_place(step.to, {move.source, piece.bytes});
  }
  return move;
}

// Gathers the operands in ascending order of their ranks.
bool Executor::collect(const Step& step, const Piece& piece, const Move& move) {
  operands_.clear();
  const bool is_placed =
      move.is_copy && !step.from.empty() && move.store != nullptr && move.slot.data() == nullptr;
  const std::span<std::byte> into =
      is_placed ? std::span(move.store, piece.bytes) : std::span<std::byte>();
  bool has_own = step.own.has_value();
  std::size_t next_read = 0;
  const auto take_local_before = [&](std::int32_t rank) {
    while (has_own || next_read < step.read.size()) {
      const bool own_is_next =
          has_own && (next_read == step.read.size() || setting_.rank < step.read[next_read]);
      const std::int32_t next = own_is_next ? setting_.rank : step.read[next_read];
      if (next > rank) {
        return;
      }
      if (own_is_next) {
        operands_.push_back(address(*step.own, piece.begin));
        has_own = false;
      } else {
        operands_.push_back(mapped_[static_cast<std::size_t>(next)].input +
                            (step.remote->offset + piece.begin) * element_);
        ++next_read;
      }
    }
  };
  for (const std::int32_t peer : step.from) {
    take_local_before(peer);
    const Inbound* inbound = receive(peer, into, piece.bytes);
    if (inbound == nullptr) {
      return false;
    }
    operands_.push_back(inbound->bytes.data());
  }
  take_local_before(setting_.size);
  return true;
}

void Executor::apply(const Step& step, const Piece& piece, const Move& move) {
  outs_.clear();
  if (move.slot.data() != nullptr) {
    outs_.push_back(move.slot.data());
  }
  const std::uint64_t there = (step.remote ? step.remote->offset : 0) + piece.begin;
  for (const std::int32_t peer : step.write) {
    outs_.push_back(mapped_[static_cast<std::size_t>(peer)].output + there * element_);
  }
  const std::size_t for_others = outs_.size();
  const bool is_in_place = move.is_copy && operands_[0] == move.store;
  if (move.store != nullptr && !is_in_place) {
    outs_.push_back(move.store);
  }
  if (outs_.empty() || operands_.empty()) {
    return;
  }
  const Stores stores = stores_for(step, piece, move);
  Combine how{.op = task_->label.signature.reduce, .dtype = task_->label.signature.dtype};
  how.store = for_others > 0 ? stores.for_others : stores.own;
  if (step.finish && is_average_) {
    how.divisor = setting_.size;
    how.scale = 1.0 / setting_.size;
  }
  // In blocks, because a schedule with windows has one piece, and an abort must not wait for it. A
  // rank that was stopped may come here when others have given up.
  const std::size_t block = std::max<std::size_t>(kWindowBlock / element_, 1);
  for (std::size_t at = 0; at < piece.count; at += block) {
    if (fault_.is_raised() || (!step.write.empty() && !are_all_there())) {
      return;
    }
    const std::size_t count = std::min(block, piece.count - at);
    if (move.is_copy) {
      for (std::size_t k = 0; k < outs_.size(); ++k) {
        copy(outs_[k], operands_[0], count * element_,
             k < for_others ? stores.for_others : stores.own);
      }
    } else {
      combine(how, outs_, operands_, count);
    }
    for (std::byte*& out : outs_) {
      out += count * element_;
    }
    for (const std::byte*& operand : operands_) {
      operand += count * element_;
    }
  }
}

// What goes into a message is read by another core next, and the transport knows how far that is.
// Results that only memory gets leave the caches alone when the operation is larger than they are;
// what is sent from where it lies is read again at once.
Executor::Stores Executor::stores_for(const Step& step, const Piece& piece,
                                      const Move& move) const {
  const bool is_message = move.slot.data() != nullptr;
  const bool is_for_others = is_message || !step.write.empty();
  const bool is_far = is_for_others && transport_.prefers_non_temporal(piece.bytes);
  const auto store = [](bool leaves_caches) {
    return leaves_caches ? Store::kNonTemporal : Store::kCached;
  };
  return {.for_others = store(is_far || (is_streaming_ && !is_message)),
          .own = store(is_streaming_ && !move.stays)};
}

bool Executor::send(const Step& step, const Piece& piece, const Move& move) {
  if (window_ != 0 && !wait_for_window(step.to.front())) {
    return false;
  }
  Ticket ticket = 0;
  const std::span<const std::byte> bytes(move.source, piece.bytes);
  if (!wait_until(
          [&] { return transport_.try_send_in_place(step.to, task_->label, bytes, &ticket); },
          step.to.front())) {
    return false;
  }
  sending_.push_back({bytes.data(), bytes.data() + bytes.size(), ticket, step.to.front()});
  return true;
}

// The oldest of a full window first. Its receiver takes it a time after it was sent, and the window
// is longer than that: of ranks that wait here, one can always go on.
bool Executor::wait_for_window(std::int32_t peer) {
  std::uint64_t left =
      static_cast<std::uint64_t>(std::ranges::count(sending_, peer, &Sending::peer));
  for (auto sending = sending_.begin(); left >= window_ && sending != sending_.end(); ++sending) {
    if (sending->peer == peer) {
      if (!wait_until([&] { return transport_.is_sent(sending->ticket); }, peer)) {
        return false;
      }
      sending->peer = -1;
      --left;
    }
  }
  std::erase_if(sending_, [](const Sending& one) { return one.peer < 0; });
  return true;
}

bool Executor::wait_for_sent(const std::byte* begin, std::size_t bytes) {
  const std::byte* end = begin + bytes;
  std::size_t kept = 0;
  for (const Sending& sending : sending_) {
    if (begin < sending.end && sending.begin < end) {
      if (!wait_until([&] { return transport_.is_sent(sending.ticket); }, -1)) {
        return false;
      }
    } else if (!transport_.is_sent(sending.ticket)) {
      sending_[kept++] = sending;
    }
  }
  sending_.resize(kept);
  return true;
}

// The buffers are the caller's again, and the messages have left this process.
bool Executor::settle() {
  for (const Sending& sending : sending_) {
    if (!wait_until([&] { return transport_.is_sent(sending.ticket); }, -1)) {
      return false;
    }
  }
  sending_.clear();
  return wait_until([&] { return transport_.flush(); }, -1);
}

bool Executor::reserve(std::span<const std::int32_t> peers, std::size_t bytes,
                       std::span<std::byte>* slot) {
  return wait_until(
      [&] {
        *slot = transport_.try_reserve(peers, bytes);
        return slot->data() != nullptr;
      },
      peers.front());
}

const Inbound* Executor::receive(std::int32_t peer, std::span<std::byte> into, std::size_t bytes) {
  const Inbound* inbound = nullptr;
  if (!wait_until(
          [&] {
            inbound = transport_.try_receive(peer, into);
            return inbound != nullptr;
          },
          peer)) {
    return nullptr;
  }
  return accept(peer, inbound, bytes);
}

const Inbound* Executor::accept(std::int32_t peer, const Inbound* inbound, std::size_t bytes) {
  if (inbound->label == task_->label && inbound->bytes.size() == bytes) [[likely]] {
    heard_[static_cast<std::size_t>(peer)] = task_->label.sequence;
    return inbound;
  }
  fault_.raise(disagreement(scene(), peer, inbound->label, inbound->bytes.size(), bytes));
  return nullptr;
}

// False when there is nothing to wait for any more.
bool Executor::pause(std::int32_t peer) {
  if (fault_.is_raised()) {
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!has_waited_) {
    has_waited_ = true;
    started_ = now;
  }
  const auto left = started_ + task_->timeout - now;
  if (left <= std::chrono::nanoseconds(0)) {
    raise_deadline(peer);
    return false;
  }
  const auto limit = std::min<std::chrono::nanoseconds>(left, kLook);
  transport_.wait(patience_.load(std::memory_order_relaxed),
                  std::chrono::ceil<std::chrono::microseconds>(limit));
  return true;
}

bool Executor::has_come(std::int32_t peer) {
  const std::uint64_t sequence = task_->label.sequence;
  if (heard_[static_cast<std::size_t>(peer)] >= sequence) {
    return true;
  }
  if (const Inbound* inbound = transport_.try_receive(peer, {}); inbound != nullptr) {
    return inbound->label.sequence >= sequence;
  }
  // It may have nothing to send to this rank, or wait itself.
  return setting_.board != nullptr && setting_.board->last_issued(peer).value_or(0) >= sequence;
}

void Executor::raise_deadline(std::int32_t peer) {
  Overdue what{.timeout = task_->timeout,
               .bytes = std::max(task_->input.size(), task_->output.size()),
               .peer = peer};
  for (const std::int32_t other : others_) {
    if (has_come(other)) {
      what.heard.push_back(other);
    } else {
      what.silent.push_back(
          {other, setting_.board != nullptr ? setting_.board->last_issued(other) : std::nullopt});
    }
  }
  fault_.raise(overdue(scene(), what));
}

std::byte* Executor::address(const Slice& slice, std::uint64_t begin) {
  const std::size_t offset = (slice.offset + begin) * element_;
  switch (slice.region) {
    case Region::kInput:
      // Steps only read it; the type is that of all operands.
      return const_cast<std::byte*>(task_->input.data()) + offset;
    case Region::kOutput:
      return task_->output.data() + offset;
    case Region::kScratch:
      return scratch_.get() + offset;
  }
  return nullptr;
}

}  // namespace trainyard::comm
