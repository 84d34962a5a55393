// SPDX-License-Identifier: Apache-2.0
#include "comm/run/sweep.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "comm/schedule/internal/build.h"

namespace trainyard::comm {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int kFirstRounds = 3;  // of which one warms up
constexpr int kMorePasses = 4;   // over everything, one round each, while there is time
// A group that was measured so far says enough about larger sizes.
constexpr std::uint64_t kEnough = std::uint64_t{4} << 20;
// What is left for the ranks to put their times together.
constexpr double kShareOfLimit = 0.9;

// A whole buffer and a part of one, each as large as the largest case.
struct Buffers {
  std::shared_ptr<std::byte[]> whole;
  std::shared_ptr<std::byte[]> other;
};

class Sweep {
 public:
  Sweep(Communicator& communicator, const Choices& before, const SweepLimits& limits)
      : communicator_(communicator),
        before_(before),
        largest_(limits.largest),
        clock_{.limit = std::chrono::duration_cast<nanoseconds>(limits.time * kShareOfLimit)},
        started_(steady_clock::now()) {}

  Result<Choices> run();

 private:
  using Group = std::pair<OpKind, bool>;  // and windows
  struct Last {
    std::uint64_t bytes = 0;  // 0: none yet
    nanoseconds time = {};    // of one operation by the slowest candidate
    bool is_over = false;
  };

  Result<bool> make_buffers();
  Result<bool> try_single_copy();
  Result<void> first_pass(const std::vector<SweepCase>& cases);
  Result<void> more_passes();
  Result<bool> all_are(bool own);
  Result<bool> agree(bool rank_0_wants_to);
  Result<bool> may_begin(const SweepCase& next, int rounds, const Last& last);
  const SweepClock& now();
  Result<nanoseconds> round(const SweepCase& one, bool counts);
  Result<nanoseconds> sample(const SweepCase& one, const Choice& choice);
  Operation operation_of(const SweepCase& one, const Choice& choice) const;
  Result<void> agree_on_times();
  Result<std::string> text_of_root(std::string text);
  template <typename T>
  Result<void> broadcast(std::span<T> values);

  Communicator& communicator_;
  const Choices& before_;
  std::size_t largest_;
  SweepClock clock_;
  steady_clock::time_point started_;
  Buffers own_;
  Buffers mapped_;  // null where ranks have no memory in common
  std::map<Group, Last> last_;
  std::vector<SweepCase> done_;
  bool is_over_ = false;
  std::vector<double> seconds_;
  std::vector<Measurement> measurements_;  // one for each of `seconds_`
};

Operation blank(OpKind kind) {
  Operation operation;
  operation.kind = kind;
  return operation;
}

template <typename T>
Result<void> Sweep::broadcast(std::span<T> values) {
  Operation operation = blank(OpKind::kBroadcast);
  operation.dtype = DType::kU8;
  operation.output = std::as_writable_bytes(values);
  operation.root = 0;
  return communicator_.run(std::move(operation));
}

// Whether it is so on all ranks; all have come when anyone knows.
Result<bool> Sweep::all_are(bool own) {
  std::uint8_t word = own ? 1 : 0;
  Operation operation = blank(OpKind::kAllReduce);
  operation.dtype = DType::kU8;
  operation.reduce = ReduceOp::kMin;
  operation.output = std::as_writable_bytes(std::span(&word, 1));
  YARD_TRY(communicator_.run(std::move(operation)));
  return word != 0;
}

// Memory is touched before it is timed. True when the ranks have some in common.
Result<bool> Sweep::make_buffers() {
  own_ = {std::make_shared<std::byte[]>(largest_), std::make_shared<std::byte[]>(largest_)};
  auto whole = communicator_.allocate(largest_);
  auto other = communicator_.allocate(largest_);
  const bool is_mapped = whole && other;
  if (is_mapped) {
    mapped_ = {std::move(*whole), std::move(*other)};
    std::memset(mapped_.whole.get(), 0, largest_);
    std::memset(mapped_.other.get(), 0, largest_);
  }
  return all_are(is_mapped);
}

Result<bool> Sweep::try_single_copy() {
  if (!is_available(Algorithm::kSingleCopy, OpKind::kAllGather, communicator_.world())) {
    return false;
  }
  const SweepCase one{.kind = OpKind::kAllGather, .bytes = kSmallestSweep};
  YARD_TRY(communicator_.run(operation_of(one, {.algorithm = Algorithm::kSingleCopy})));
  return communicator_.copies_once();
}

Operation Sweep::operation_of(const SweepCase& one, const Choice& choice) const {
  const auto size = static_cast<std::uint64_t>(communicator_.size());
  const Buffers& buffers = one.windows ? mapped_ : own_;
  const std::size_t part = std::max<std::size_t>(one.bytes / 4 / size, 1) * 4;
  const std::size_t whole = part * size;
  Operation operation = blank(one.kind);
  operation.algorithm = choice.algorithm;
  operation.piece_bytes = choice.piece_bytes;
  const std::span<std::byte> in(buffers.whole.get(), whole);
  const std::span<std::byte> out(buffers.other.get(), whole);
  switch (one.kind) {
    case OpKind::kAllGather:
      operation.input = in.first(part);
      operation.output = out;
      break;
    case OpKind::kReduceScatter:
      operation.input = in;
      operation.output = out.first(part);
      break;
    case OpKind::kAllToAll:
      operation.input = in;
      operation.output = out;
      break;
    default:  // all-reduce and broadcast, in place
      operation.output = in;
      break;
  }
  if (one.kind == OpKind::kAllReduce || one.kind == OpKind::kReduceScatter) {
    operation.reduce = ReduceOp::kSum;
  }
  operation.root = one.kind == OpKind::kBroadcast ? 0 : -1;
  return operation;
}

Result<nanoseconds> Sweep::sample(const SweepCase& one, const Choice& choice) {
  const auto start = steady_clock::now();
  for (int i = 0; i < one.repeats; ++i) {
    YARD_TRY(communicator_.run(operation_of(one, choice)));
  }
  return (steady_clock::now() - start) / one.repeats;
}

const SweepClock& Sweep::now() {
  clock_.elapsed = steady_clock::now() - started_;
  return clock_;
}

// Rank 0's word.
Result<bool> Sweep::agree(bool rank_0_wants_to) {
  return all_are(communicator_.rank() != 0 || rank_0_wants_to);
}

// Every candidate once. Gives the time of the slowest. A round that there is no time for counts not
// at all: what is best must have been compared with all.
Result<nanoseconds> Sweep::round(const SweepCase& one, bool counts) {
  const World& world = communicator_.world();
  const std::vector<std::vector<std::int32_t>> hosts = hosts_of(world);
  std::size_t local = 0;
  for (const std::vector<std::int32_t>& host : hosts) {
    local = std::max(local, host.size());
  }
  nanoseconds slowest = {};
  const std::size_t before = seconds_.size();
  for (const Choice& choice : one.candidates) {
    YARD_TRY(const bool has_time, agree(now().elapsed < clock_.limit));
    if (!has_time) {
      is_over_ = true;
      seconds_.resize(before);
      measurements_.resize(before);
      return slowest;
    }
    YARD_TRY(const nanoseconds time, sample(one, choice));
    slowest = std::max(slowest, time);
    if (counts) {
      seconds_.push_back(std::chrono::duration<double>(time).count());
      measurements_.push_back({.kind = one.kind,
                               .windows = one.windows,
                               .hosts = static_cast<std::int32_t>(hosts.size()),
                               .local = static_cast<std::int32_t>(local),
                               .bytes = one.bytes,
                               .choice = choice});
    }
  }
  return slowest;
}

Result<bool> Sweep::may_begin(const SweepCase& next, int rounds, const Last& last) {
  return agree(has_time_for(now(), next, rounds, last.bytes, last.time));
}

Result<void> Sweep::first_pass(const std::vector<SweepCase>& cases) {
  for (const SweepCase& one : cases) {
    Last& last = last_[{one.kind, one.windows}];
    if (last.is_over) {
      continue;
    }
    YARD_TRY(const bool may, may_begin(one, kFirstRounds, last));
    if (!may) {
      last.is_over = true;
      continue;
    }
    for (int i = 0; i < kFirstRounds && !is_over_; ++i) {
      YARD_TRY(last.time, round(one, i > 0));
    }
    if (is_over_) {
      return {};
    }
    last.bytes = one.bytes;
    done_.push_back(one);
  }
  return {};
}

Result<void> Sweep::more_passes() {
  for (int pass = 0; pass < kMorePasses; ++pass) {
    for (const SweepCase& one : done_) {
      const Last& largest = last_[{one.kind, one.windows}];
      YARD_TRY(const bool may, may_begin(one, 1, largest));
      if (!may || is_over_) {
        return {};
      }
      YARD_TRY(round(one, true));
    }
  }
  return {};
}

// An operation took as long as it did on the rank where it took longest.
Result<void> Sweep::agree_on_times() {
  if (seconds_.empty()) {
    return {};
  }
  Operation operation = blank(OpKind::kAllReduce);
  operation.dtype = DType::kF64;
  operation.reduce = ReduceOp::kMax;
  operation.output = std::as_writable_bytes(std::span(seconds_));
  YARD_TRY(communicator_.run(std::move(operation)));
  for (std::size_t i = 0; i < seconds_.size(); ++i) {
    measurements_[i].seconds = seconds_[i];
  }
  return {};
}

Result<std::string> Sweep::text_of_root(std::string text) {
  std::uint64_t length = text.size();
  YARD_TRY(broadcast(std::span(&length, 1)));
  text.resize(length);
  YARD_TRY(broadcast(std::span(text)));
  return text;
}

Result<Choices> Sweep::run() {
  if (communicator_.size() == 1) {
    return before_;
  }
  YARD_TRY(const bool is_mapped, make_buffers());
  YARD_TRY(const bool copies_once, try_single_copy());
  YARD_TRY(first_pass(sweep_cases(communicator_.world(), is_mapped, copies_once, largest_)));
  YARD_TRY(more_passes());
  YARD_TRY(agree_on_times());
  YARD_TRY(const std::string text,
           text_of_root(to_string(measured(measurements_, before_, kEnough))));
  return parse_choices(text);
}

}  // namespace

Result<Choices> run_sweep(Communicator& communicator, const Choices& before,
                          const SweepLimits& limits) {
  return Sweep(communicator, before, limits).run();
}

}  // namespace trainyard::comm
