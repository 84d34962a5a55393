// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/sweep.h"

#include <array>

#include "comm/schedule/internal/build.h"

namespace trainyard::comm {
namespace {

constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;

constexpr std::array kKinds = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                               OpKind::kBroadcast, OpKind::kAllToAll};
constexpr std::array kAlgorithms = {
    Algorithm::kDirectSmall, Algorithm::kDirect, Algorithm::kHalvingDoubling,
    Algorithm::kDoubleTree,  Algorithm::kRing,   Algorithm::kTwoLevel,
    Algorithm::kBalanced,    Algorithm::kMesh,   Algorithm::kSingleCopy,
    Algorithm::kWindow};
constexpr std::array kPieces = {128 * kKiB, 512 * kKiB};

// Those that cannot win at this size are left out: time is short.
bool may_be_best(Algorithm algorithm, std::uint64_t bytes) {
  switch (algorithm) {
    case Algorithm::kDirectSmall:
      return bytes <= 256 * kKiB;
    case Algorithm::kRing:
    case Algorithm::kDoubleTree:
    case Algorithm::kMesh:
    case Algorithm::kBalanced:
    case Algorithm::kSingleCopy:
      return bytes >= 16 * kKiB;
    default:
      return true;
  }
}

std::vector<Choice> candidates_of(OpKind kind, std::uint64_t bytes, const World& world,
                                  bool windows, bool copies_once) {
  std::vector<Choice> candidates;
  for (const Algorithm algorithm : kAlgorithms) {
    const bool is_window = algorithm == Algorithm::kWindow;
    if (!is_available(algorithm, kind, world) || !may_be_best(algorithm, bytes) ||
        (is_window && !windows) ||
        (algorithm == Algorithm::kSingleCopy && (windows || !copies_once))) {
      continue;
    }
    for (const std::uint64_t piece : kPieces) {
      const bool is_cut = !is_window && algorithm != Algorithm::kSingleCopy &&
                          bytes / static_cast<std::uint64_t>(world.size) > kPieces[0];
      if (piece == kPieces[0] || is_cut) {
        candidates.push_back({.algorithm = algorithm, .piece_bytes = piece});
      }
    }
  }
  return candidates;
}

int repeats_of(std::uint64_t bytes) {
  if (bytes <= 4 * kKiB) {
    return 16;
  }
  return bytes <= 64 * kKiB ? 4 : 1;
}

}  // namespace

std::vector<SweepCase> sweep_cases(const World& world, bool windows, bool copies_once,
                                   std::uint64_t largest) {
  std::vector<SweepCase> cases;
  for (std::uint64_t bytes = kSmallestSweep; bytes <= largest; bytes *= 4) {
    for (const OpKind kind : kKinds) {
      for (const bool with : {false, true}) {
        SweepCase one{.kind = kind,
                      .windows = with,
                      .bytes = bytes,
                      .repeats = repeats_of(bytes),
                      .candidates = candidates_of(kind, bytes, world, with, copies_once)};
        if (one.candidates.size() > 1 && (windows || !with)) {
          cases.push_back(std::move(one));
        }
      }
    }
  }
  return cases;
}

bool has_time_for(const SweepClock& clock, const SweepCase& next, int rounds,
                  std::uint64_t before_bytes, std::chrono::nanoseconds before) {
  const auto left = clock.limit - clock.elapsed;
  if (before_bytes == 0 || left <= std::chrono::nanoseconds(0)) {
    return left > std::chrono::nanoseconds(0);
  }
  const double growth = static_cast<double>(next.bytes) / static_cast<double>(before_bytes);
  const double samples = static_cast<double>(next.candidates.size()) * rounds * next.repeats;
  return static_cast<double>(before.count()) * growth * samples <=
         static_cast<double>(left.count());
}

}  // namespace trainyard::comm
