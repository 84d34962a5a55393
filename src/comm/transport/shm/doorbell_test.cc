// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/doorbell.h"

#include <array>
#include <deque>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "comm/transport/shm/channel.h"

namespace trainyard::comm {
namespace {

// A model of channel.h and doorbell.h that runs all interleavings of two threads on a machine with
// store buffers (total store order): thread 0 sends through a channel, thread 1 receives, and each
// sleeps until the other one rings: for room, for a message. Time limits do not exist in it, so a
// lost wake-up is a state in which nothing can happen any more.
enum class Barriers { kAsymmetric, kFences, kOnlySleeperFences, kNone };

constexpr int kMessages = 3;
constexpr int kMaxDepth = 2;

// Shared words; those of a thread's bell are at + thread.
enum Word { kTurn, kConsumed, kData, kWaits = kData + kMaxDepth, kRings = kWaits + 2, kWords = 8 };

enum class At {
  kLook,
  kData,
  kNews,
  kLight,
  kWaits,
  kClaim,
  kRing,
  kWake,
  kArm,
  kHeavy,
  kLookAgain,
  kSleep,
  kAsleep,
  kDisarm,
  kDone
};

struct Thread {
  At at = At::kLook;
  int count = 0;                                // messages sent or received
  int before = 0;                               // rings, as read before going to sleep
  std::deque<std::pair<int, int>> stores = {};  // on their way to memory

  auto operator<=>(const Thread&) const = default;
};

struct State {
  std::array<int, kWords> memory = {};
  std::array<Thread, 2> threads = {};

  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  Model(Barriers barriers, int depth) : barriers_(barriers), depth_(depth) { explore(); }

  std::size_t states() const { return seen_.size(); }
  int stuck() const { return stuck_; }              // states in which somebody sleeps for ever
  int wrong_reads() const { return wrong_reads_; }  // of a payload

 private:
  void explore() {
    std::vector<State> open = {State{}};
    seen_.insert(open.front());
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      std::vector<State> next;
      for (int id = 0; id < 2; ++id) {
        flush_one(state, id, next);
        step(state, id, next);
      }
      const bool is_done = state.threads[0].at == At::kDone && state.threads[1].at == At::kDone;
      stuck_ += next.empty() && !is_done ? 1 : 0;
      for (State& candidate : next) {
        if (seen_.insert(candidate).second) {
          open.push_back(std::move(candidate));
        }
      }
    }
  }

  static void flush(State& state, int id) {
    auto& stores = state.threads[id].stores;
    const auto [word, value] = stores.front();
    stores.pop_front();
    state.memory[word] = value;
  }

  static void flush_one(const State& state, int id, std::vector<State>& next) {
    if (!state.threads[id].stores.empty()) {
      next.push_back(state);
      flush(next.back(), id);
    }
  }

  static int load(const State& state, int id, int word) {
    int value = state.memory[word];
    for (const auto& [stored, with] : state.threads[id].stores) {
      value = stored == word ? with : value;
    }
    return value;
  }

  static void store(State& state, int id, int word, int value) {
    state.threads[id].stores.emplace_back(word, value);
  }

  bool has_news(const State& state, int id) const {
    const int count = state.threads[id].count;
    return id == 0 ? count - load(state, id, kConsumed) < depth_ : load(state, id, kTurn) > count;
  }

  // Locked instructions and fences wait until the thread's own stores are in memory.
  bool needs_empty_buffer(At at) const {
    switch (at) {
      case At::kClaim:
      case At::kRing:
      case At::kSleep:
        return true;
      case At::kLight:
        return barriers_ == Barriers::kFences;
      case At::kHeavy:
        return barriers_ != Barriers::kNone;
      default:
        return false;
    }
  }

  void step(const State& state, int id, std::vector<State>& next) {
    const Thread& now = state.threads[id];
    if (now.at == At::kDone || now.at == At::kAsleep ||
        (needs_empty_buffer(now.at) && !now.stores.empty())) {
      return;
    }
    State after = state;
    Thread& self = after.threads[id];
    if (now.at < At::kLight) {
      transfer(after, id);
    } else if (now.at < At::kArm) {
      ring(after, id);
    } else {
      sleep(after, id);
    }
    if (self.at == At::kLook && self.count == kMessages) {
      self.at = At::kDone;
    }
    next.push_back(std::move(after));
  }

  void transfer(State& state, int id) {
    Thread& self = state.threads[id];
    const int slot = kData + self.count % depth_;
    if (self.at == At::kLook) {
      self.at = has_news(state, id) ? At::kData : At::kArm;
      self.before = load(state, id, kRings + id);  // S1
    } else if (self.at == At::kData && id == 0) {
      store(state, id, slot, self.count + 1);
      self.at = At::kNews;
    } else if (self.at == At::kData) {
      wrong_reads_ += load(state, id, slot) != self.count + 1 ? 1 : 0;
      self.at = At::kNews;
    } else {
      store(state, id, id == 0 ? kTurn : kConsumed, ++self.count);  // W1
      self.at = At::kLight;
    }
  }

  static void ring(State& state, int id) {
    Thread& self = state.threads[id];
    Thread& other = state.threads[1 - id];
    const int waits = kWaits + 1 - id;
    switch (self.at) {
      case At::kLight:  // W2
        self.at = At::kWaits;
        return;
      case At::kWaits:  // W3
        self.at = load(state, id, waits) != 0 ? At::kClaim : At::kLook;
        return;
      case At::kClaim:  // W4
        self.at = state.memory[waits] != 0 ? At::kRing : At::kLook;
        state.memory[waits] = 0;
        return;
      case At::kRing:  // W5
        ++state.memory[kRings + 1 - id];
        self.at = At::kWake;
        return;
      default:
        other.at = other.at == At::kAsleep ? At::kDisarm : other.at;
        self.at = At::kLook;
        return;
    }
  }

  void sleep(State& state, int id) const {
    Thread& self = state.threads[id];
    switch (self.at) {
      case At::kArm:  // S2
        store(state, id, kWaits + id, 1);
        self.at = At::kHeavy;
        return;
      case At::kHeavy:  // S3: the kernel makes the other one's stores reach memory, too
        while (barriers_ == Barriers::kAsymmetric && !state.threads[1 - id].stores.empty()) {
          flush(state, 1 - id);
        }
        self.at = At::kLookAgain;
        return;
      case At::kLookAgain:  // S4
        self.at = has_news(state, id) ? At::kDisarm : At::kSleep;
        return;
      case At::kSleep:  // S5
        self.at = state.memory[kRings + id] == self.before ? At::kAsleep : At::kDisarm;
        return;
      default:
        store(state, id, kWaits + id, 0);
        self.at = At::kLook;
        return;
    }
  }

  Barriers barriers_;
  int depth_;
  std::set<State> seen_;
  int stuck_ = 0;
  int wrong_reads_ = 0;
};

class DoorbellModel : public testing::TestWithParam<std::tuple<Barriers, int>> {};
INSTANTIATE_TEST_SUITE_P(All, DoorbellModel,
                         testing::Combine(testing::Values(Barriers::kAsymmetric, Barriers::kFences),
                                          testing::Values(1, 2)));

TEST_P(DoorbellModel, NeverLosesAWakeUpNorReadsAPayloadTooEarly) {
  const auto [barriers, depth] = GetParam();
  const Model model(barriers, depth);
  EXPECT_GT(model.states(), 1000U);
  EXPECT_EQ(model.stuck(), 0);
  EXPECT_EQ(model.wrong_reads(), 0);
}

TEST(DoorbellModel, FindsTheLostWakeUpOfWeakerBarriers) {
  EXPECT_GT(Model(Barriers::kNone, 1).stuck(), 0);
  EXPECT_GT(Model(Barriers::kOnlySleeperFences, 1).stuck(), 0);
}

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

TEST(Doorbell, SleepsUntilItsLimitWhenNobodyRings) {
  register_for_light_barriers();
  Doorbell bell;
  const Clock::time_point start = Clock::now();
  bell.sleep(Doorbell::kMessage, false, std::chrono::milliseconds(20), [] { return false; });
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(19));
  EXPECT_EQ(bell.waits.load(), 0U);
}

TEST(Doorbell, DoesNotSleepWhenThereIsNews) {
  Doorbell bell;
  bell.sleep(Doorbell::kMessage, true, seconds(100), [] { return true; });
  EXPECT_EQ(bell.waits.load(), 0U);
}

TEST(Doorbell, IsNotRungForNewsThatItsOwnerDoesNotWaitFor) {
  Doorbell bell;
  bell.waits = Doorbell::kMessage;
  bell.ring_sleeper(Doorbell::kRoom, true);
  EXPECT_EQ(bell.rings.load(), 0U);
  bell.ring_sleeper(Doorbell::kMessage, true);
  bell.ring_sleeper(Doorbell::kMessage, true);
  EXPECT_EQ(bell.rings.load(), 1U);  // the first one has taken the call on itself
}

// The real thing under load: each side sleeps at once whenever it has to wait, in a channel so
// shallow that it has to all the time. A lost wake-up would cost the limit of 100 s.
class DoorbellStress : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(All, DoorbellStress, testing::Bool());

TEST_P(DoorbellStress, LosesNoWakeUp) {
  constexpr std::uint64_t kCount = 1000;
  const bool fences = GetParam() || !register_for_light_barriers();
  std::array<Entry, 2> entries;
  Consumed consumed;
  std::array<Doorbell, 2> bells;
  std::jthread sender([&] {
    ChannelSender out(entries.data(), &consumed, entries.size());
    for (std::uint64_t n = 1; n <= kCount; ++n) {
      while (!out.has_room()) {
        bells[0].sleep(Doorbell::kRoom, fences, seconds(100), [&] { return out.has_room(); });
      }
      out.next().length = n;
      out.push();
      bells[1].ring_sleeper(Doorbell::kMessage, fences);
    }
  });
  ChannelReceiver in(entries.data(), &consumed, entries.size());
  const Clock::time_point start = Clock::now();
  for (std::uint64_t n = 1; n <= kCount; ++n) {
    while (in.front() == nullptr) {
      bells[1].sleep(Doorbell::kMessage, fences, seconds(100), [&] { return in.front(); });
    }
    ASSERT_EQ(in.front()->length, n);
    in.pop();
    bells[0].ring_sleeper(Doorbell::kRoom, fences);
  }
  EXPECT_LT(Clock::now() - start, seconds(90));
}

}  // namespace
}  // namespace trainyard::comm
