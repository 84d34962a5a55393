// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/internal/rehearsal.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "comm/schedule/internal/build.h"

namespace trainyard::comm {
namespace {

float value_of(std::int32_t rank, std::uint64_t element, bool is_rough) {
  const auto mixed = static_cast<float>((static_cast<std::uint64_t>(rank) * 31 + element * 7) % 97);
  return is_rough ? 1.0F / (mixed + 1.5F) : mixed;
}

// What rank `from` sends to rank `to` in an uneven all-to-all; nothing, here and there.
std::uint64_t exchange_count(const Case& asked, std::int32_t from, std::int32_t to) {
  const auto mixed = static_cast<std::uint64_t>(from * 5 + to * 3) % 4;
  return asked.count * mixed / 4;
}

Request request_of(const Case& asked, std::int32_t rank) {
  Request request{.kind = asked.kind, .count = asked.count, .root = asked.root};
  for (std::int32_t r = 0; asked.is_uneven && r < asked.size; ++r) {
    if (asked.kind == OpKind::kAllToAll) {
      request.counts.push_back(exchange_count(asked, rank, r));
      request.receive_counts.push_back(exchange_count(asked, r, rank));
    } else {
      request.counts.push_back(exchange_count(asked, r, 1));
    }
  }
  request.count = total_of(request);
  return request;
}

World world_of(const Case& asked, std::int32_t rank) {
  return {.rank = rank, .size = asked.size, .host = hosts_in(asked.layout, asked.size)};
}

// Lengths of a rank's buffers, and where its part lies in the whole one.
struct Shape {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::uint64_t part_at = 0;
};

Shape shape_of(const Case& asked, std::int32_t rank) {
  const Request request = request_of(asked, rank);
  const std::uint64_t whole = total_of(request);
  const bool is_root = rank == asked.root;
  if (asked.kind == OpKind::kAllToAll) {
    const std::uint64_t received = std::accumulate(request.receive_counts.begin(),
                                                   request.receive_counts.end(), std::uint64_t{0});
    return {whole, asked.is_uneven ? received : whole, 0};
  }
  const Slice part = parts_of(request, {.size = asked.size})[static_cast<std::size_t>(rank)];
  switch (asked.kind) {
    case OpKind::kAllReduce:
      return {whole, whole, 0};
    case OpKind::kReduce:
      return {whole, is_root ? whole : 0, 0};
    case OpKind::kBroadcast:
      return {is_root ? whole : 0, is_root ? 0 : whole, 0};
    case OpKind::kReduceScatter:
      return {whole, part.length, part.offset};
    case OpKind::kScatter:
      return {is_root ? whole : 0, part.length, part.offset};
    case OpKind::kAllGather:
      return {part.length, whole, part.offset};
    case OpKind::kGather:
      return {part.length, is_root ? whole : 0, part.offset};
    default:
      return {};
  }
}

// Where the buffers are: one after the other, or the shorter one inside the longer one.
SimulatedRank place(const Case& asked, const Shape& shape) {
  SimulatedRank rank;
  const bool overlaps = asked.in_place && shape.input > 0 && shape.output > 0;
  if (!overlaps) {
    rank.memory.resize(shape.input + shape.output);
    rank.output_at = shape.input;
    return rank;
  }
  rank.memory.resize(std::max(shape.input, shape.output));
  (shape.input > shape.output ? rank.output_at : rank.input_at) = shape.part_at;
  if (shape.input == shape.output) {
    rank.input_at = 0;
  }
  return rank;
}

// What everybody's inputs sum to.
std::vector<float> sums_of(const Case& asked) {
  std::vector<float> sums(total_of(request_of(asked, 0)));
  for (std::uint64_t i = 0; i < sums.size(); ++i) {
    for (std::int32_t r = 0; r < asked.size; ++r) {
      sums[i] += value_of(r, i, false);
    }
  }
  return sums;
}

// Appends `length` elements of the input of `rank`.
void append(std::vector<float>& values, std::int32_t rank, std::uint64_t begin,
            std::uint64_t length) {
  for (std::uint64_t i = begin; i < begin + length; ++i) {
    values.push_back(value_of(rank, i, false));
  }
}

std::vector<float> expected_of(const Case& asked, std::int32_t rank,
                               const std::vector<float>& sums) {
  const Shape shape = shape_of(asked, rank);
  std::vector<float> values;
  switch (asked.kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduce:
    case OpKind::kReduceScatter:
      for (std::uint64_t i = 0; i < shape.output; ++i) {
        values.push_back(sums[shape.part_at + i]);
      }
      break;
    case OpKind::kBroadcast:
    case OpKind::kScatter:
      append(values, asked.root, shape.part_at, shape.output);
      break;
    case OpKind::kAllGather:
    case OpKind::kGather:
      for (const std::vector<Slice> parts = parts_of(request_of(asked, rank), {.size = asked.size});
           const Slice& part : parts) {
        append(values, static_cast<std::int32_t>(&part - parts.data()), 0, part.length);
      }
      values.resize(shape.output);
      break;
    case OpKind::kAllToAll:
      for (std::int32_t r = 0; r < asked.size; ++r) {
        const std::vector<Slice> parts = parts_of(request_of(asked, r), {.size = asked.size});
        const Slice& part = parts[static_cast<std::size_t>(rank)];
        append(values, r, part.offset, part.length);
      }
      break;
    default:
      break;
  }
  return values;
}

bool is_sum(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
}

// All ranks must cut alike, and have told the room that they need.
std::string disagreement(const Case& asked, const std::vector<SimulatedRank>& ranks) {
  const Schedule& first = ranks[0].schedule;
  const bool is_cut_by_chunks = asked.kind == OpKind::kAllToAll && asked.is_uneven;
  for (const SimulatedRank& rank : ranks) {
    const Schedule& schedule = rank.schedule;
    if (schedule.longest != first.longest || schedule.stride != first.stride ||
        schedule.in_flight != first.in_flight || schedule.windows != first.windows) {
      return "ranks would not cut alike";
    }
    if (!is_cut_by_chunks && most_in_flight(schedule) > schedule.in_flight) {
      return fmt::format("{} messages under way, not {}", most_in_flight(schedule),
                         schedule.in_flight);
    }
    for (const Step& step : schedule.steps) {
      const bool is_message = !step.from.empty() || !step.to.empty();
      if (is_message && step.length > std::max(schedule.longest, kUncutElements)) {
        return fmt::format("a message of {} elements", step.length);
      }
    }
  }
  return "";
}

// The room that run/plan.cc cuts pieces for.
std::uint64_t room_of(const Schedule& schedule) {
  const bool is_every_time_alike = schedule.stride == 1 && schedule.longest > 0;
  const std::uint64_t messages =
      is_every_time_alike ? (schedule.in_flight + 1) / 2 : schedule.in_flight;
  return std::max<std::uint64_t>(messages, 1);
}

}  // namespace

std::vector<std::int32_t> hosts_in(Layout layout, std::int32_t size) {
  std::vector<std::int32_t> hosts;
  for (std::int32_t r = 0; r < size; ++r) {
    switch (layout) {
      case Layout::kOneHost:
        hosts.push_back(7);
        break;
      case Layout::kEven:
        hosts.push_back(r / 2);
        break;
      case Layout::kUneven:  // 1, 2, 4, 8, ... ranks
        hosts.push_back(std::ilogb(r + 1));
        break;
      case Layout::kInterleaved:
        hosts.push_back(2 - r % 3);
        break;
    }
  }
  return hosts;
}

std::string to_string(const Case& asked) {
  return fmt::format("{} {} of {} elements, {} ranks, layout {}, root {}, {} pieces{}{}",
                     name_of(asked.algorithm), name_of(asked.kind), asked.count, asked.size,
                     static_cast<int>(asked.layout), asked.root, asked.pieces,
                     asked.in_place ? ", in place" : "", asked.is_uneven ? ", uneven" : "");
}

std::vector<SimulatedRank> ranks_of(const Case& asked, bool is_rough) {
  std::vector<SimulatedRank> ranks;
  for (std::int32_t r = 0; r < asked.size; ++r) {
    const Shape shape = shape_of(asked, r);
    SimulatedRank rank = place(asked, shape);
    for (std::uint64_t i = 0; i < shape.input; ++i) {
      rank.memory[rank.input_at + i] = {.value = value_of(r, i, is_rough), .is_known = true};
    }
    rank.schedule = make_schedule(asked.algorithm, request_of(asked, r), world_of(asked, r));
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::vector<float> output_of(const Case& asked, const SimulatedRank& rank, std::int32_t number) {
  std::vector<float> values;
  for (std::uint64_t i = 0; i < shape_of(asked, number).output; ++i) {
    values.push_back(rank.memory[rank.output_at + i].value);
  }
  return values;
}

std::string problem_of(const Case& asked) {
  std::vector<SimulatedRank> ranks = ranks_of(asked);
  if (const std::string problem = disagreement(asked, ranks); !problem.empty()) {
    return to_string(asked) + ": " + problem;
  }
  if (auto done = simulate(ranks, {.pieces = asked.pieces, .room = room_of(ranks[0].schedule)});
      !done) {
    return to_string(asked) + ": " + done.error().message;
  }
  const std::vector<float> sums = sums_of(asked);
  for (std::int32_t r = 0; r < asked.size; ++r) {
    const SimulatedRank& rank = ranks[static_cast<std::size_t>(r)];
    if (output_of(asked, rank, r) != expected_of(asked, r, sums)) {
      return fmt::format("{}: the output of rank {} is wrong", to_string(asked), r);
    }
    for (std::uint64_t i = 0; is_sum(asked.kind) && i < shape_of(asked, r).output; ++i) {
      if (!rank.memory[rank.output_at + i].is_final) {
        return fmt::format("{}: rank {} did not finish element {}", to_string(asked), r, i);
      }
    }
  }
  return "";
}

}  // namespace trainyard::comm
