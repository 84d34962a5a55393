// SPDX-License-Identifier: Apache-2.0
#include "comm/run/plan.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace trainyard::comm {
namespace {

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

// How many messages a rank can have under way. Say that it waits for room in a step of level l at
// time t (a time performs levels downwards), and that no rank is further back. Then the others have
// released what it sent before time t - 1, and of time t - 1 what came from level l and above. Left
// are the messages of time t - 1 from below level l and those of time t from level l and above:
// with a stride of 1, each sending step once, which is half of two neighbouring times.
std::uint64_t messages_of(const Schedule& schedule) {
  const std::uint64_t messages =
      schedule.stride == 1 ? divide_up(schedule.in_flight, 2) : schedule.in_flight;
  return std::max<std::uint64_t>(messages, 1);
}

std::uint64_t pieces_of(const Schedule& schedule, const Shape& shape, const Limits& limits) {
  if (schedule.windows || schedule.longest == 0 || schedule.in_flight == 0) {
    return 1;
  }
  const std::size_t most = shape.most_under_way == 0 ? limits.room : shape.most_under_way;
  const std::size_t share = std::min(limits.room, most) / messages_of(schedule);
  const std::size_t room = share > limits.message_cost ? share - limits.message_cost : 0;
  const std::size_t bytes = std::min<std::size_t>({room, limits.max_message, shape.piece_bytes});
  return divide_up(schedule.longest, std::max<std::size_t>(bytes / shape.element, 1));
}

struct Range {  // of elements, input and output on one axis when they are in place
  int memory = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const Range&) const = default;
};

Range range_of(const Slice& slice, Shift shift) {
  std::int64_t begin = static_cast<std::int64_t>(slice.offset);
  int memory = static_cast<int>(slice.region);
  if (shift && slice.region == Region::kOutput) {
    memory = static_cast<int>(Region::kInput);
    begin += *shift;
  }
  return {memory, begin, begin + static_cast<std::int64_t>(slice.length)};
}

bool overlap(const Range& a, const Range& b) {
  return a.memory == b.memory && a.begin < b.end && b.begin < a.end;
}

// The receivers have a message of level l after their level l + 1. A rank that overwrites its bytes
// at that very level would wait for a receiver that may wait for the same reason; later ones wait
// only for steps before their own.
bool may_stay(const Schedule& schedule, const Step& sender, std::uint64_t pieces, Shift shift) {
  const bool is_copy = sender.from.empty() && sender.read.empty() && sender.own && !sender.store;
  const std::optional<Slice>& source = is_copy ? sender.own : sender.store;
  if (sender.to.empty() || sender.token || !source) {
    return false;
  }
  if (source->region == Region::kInput && !shift) {
    return true;  // nothing is stored there
  }
  const Range sent = range_of(*source, shift);
  return std::none_of(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) {
    if (!step.store || &step == &sender) {
      return false;
    }
    const Range stored = range_of(*step.store, shift);
    const bool is_later = step.level >= sender.level + 2 && (pieces == 1 || stored == sent);
    const bool is_before = step.level < sender.level && (pieces == 1 || stored == sent);
    return overlap(stored, sent) && !is_later && !is_before;
  });
}

// Of one or two neighbouring times of a schedule with stride 1: those of so many levels in a row.
std::uint64_t most_senders(const Schedule& schedule, const Plan& plan) {
  std::vector<std::uint64_t> before(static_cast<std::size_t>(plan.levels) + 1);
  for (const Step& step : schedule.steps) {
    if (!step.to.empty() && !step.token) {
      ++before[static_cast<std::size_t>(step.level) + 1];
    }
  }
  std::partial_sum(before.begin(), before.end(), before.begin());
  std::uint64_t most = 0;
  for (std::size_t end = 0; end < before.size(); ++end) {
    const std::size_t begin = end > plan.pieces + 1 ? end - plan.pieces - 1 : 0;
    most = std::max(most, before[end] - before[begin]);
  }
  return most;
}

// A piece is sent to each peer once in `stride` times. Two, because ranks may be a time apart.
std::uint64_t window_of(const Schedule& schedule, const Shape& shape, std::uint64_t pieces) {
  if (shape.most_under_way == 0) {
    return 0;
  }
  const std::uint64_t piece = divide_up(schedule.longest * shape.element, pieces);
  const std::uint64_t of_all_peers =
      std::max<std::uint64_t>(piece * static_cast<std::uint64_t>(schedule.stride), 1);
  return std::max<std::uint64_t>(shape.most_under_way / of_all_peers, 2);
}

}  // namespace

Plan make_plan(Schedule schedule, const Shape& shape, const Limits& limits) {
  Plan plan;
  plan.pieces = pieces_of(schedule, shape, limits);
  plan.window = window_of(schedule, shape, plan.pieces);
  for (const Step& step : schedule.steps) {
    plan.levels = std::max(plan.levels, step.level + 1);
    plan.may_stay.push_back(may_stay(schedule, step, plan.pieces, shape.shift));
  }
  plan.first.resize(static_cast<std::size_t>(plan.levels) + 1);
  for (const Step& step : schedule.steps) {
    ++plan.first[static_cast<std::size_t>(step.level) + 1];
  }
  std::partial_sum(plan.first.begin(), plan.first.end(), plan.first.begin());
  std::vector<std::uint32_t> next = plan.first;
  plan.order.resize(schedule.steps.size());
  for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
    plan.order[next[static_cast<std::size_t>(schedule.steps[i].level)]++] = i;
  }
  YARD_CHECK(schedule.stride != 1 || most_senders(schedule, plan) <= messages_of(schedule),
             "more messages under way than there is room for: " + schedule.algorithm);
  plan.schedule = std::move(schedule);
  return plan;
}

namespace {

std::size_t place_of(const PlanKey& key, std::size_t places) {
  std::uint64_t words[2];
  std::memcpy(words, &key.signature, sizeof(words));
  std::uint64_t hash = words[0] ^ (words[1] * 0x9E3779B97F4A7C15U);
  hash ^= (static_cast<std::uint64_t>(key.choice.algorithm) << 1) | (key.in_place ? 1U : 0U);
  hash *= 0xD6E8FEB86659FD93U;
  return (hash >> 32) % places;
}

}  // namespace

const Plan* PlanCache::find(const PlanKey& key) const {
  const Place& place = places_[place_of(key, kPlaces)];
  return place.plan != nullptr && place.key == key ? place.plan.get() : nullptr;
}

const Plan* PlanCache::keep(const PlanKey& key, Plan plan) {
  Place& place = places_[place_of(key, kPlaces)];
  place.key = key;
  place.plan = std::make_unique<Plan>(std::move(plan));
  return place.plan.get();
}

}  // namespace trainyard::comm
