// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/algorithms.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/internal/rehearsal.h"

namespace trainyard::comm {
namespace {

constexpr std::int32_t kLargestWorld = 17;
constexpr std::array kAlgorithms = {Algorithm::kRing,        Algorithm::kHalvingDoubling,
                                    Algorithm::kDoubleTree,  Algorithm::kDirect,
                                    Algorithm::kDirectSmall, Algorithm::kWindow,
                                    Algorithm::kSingleCopy,  Algorithm::kTwoLevel,
                                    Algorithm::kBalanced,    Algorithm::kMesh};
constexpr std::array kKinds = {OpKind::kBarrier,   OpKind::kAllReduce, OpKind::kReduceScatter,
                               OpKind::kAllGather, OpKind::kBroadcast, OpKind::kReduce,
                               OpKind::kGather,    OpKind::kScatter,   OpKind::kAllToAll};
constexpr std::array kLayouts = {Layout::kOneHost, Layout::kEven, Layout::kUneven,
                                 Layout::kInterleaved};
constexpr std::array<std::uint64_t, 4> kPieces = {1, 2, 3, 7};

bool is_available(const Case& asked) {
  return is_available(asked.algorithm, asked.kind,
                      {.size = asked.size, .host = hosts_in(asked.layout, asked.size)});
}

bool is_rooted(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReduce || kind == OpKind::kGather ||
         kind == OpKind::kScatter;
}

// What the layouts of these kinds allow: whole parts for all.
std::uint64_t allowed_count(OpKind kind, std::uint64_t count, std::int32_t size) {
  const auto ranks = static_cast<std::uint64_t>(size);
  if (kind == OpKind::kBarrier) {
    return 0;
  }
  const bool is_whole =
      kind == OpKind::kGather || kind == OpKind::kScatter || kind == OpKind::kAllToAll;
  return is_whole ? count / ranks * ranks : count;
}

// Apart and in place, where there is such a form.
std::vector<bool> places_of(OpKind kind) {
  return kind == OpKind::kAllToAll || kind == OpKind::kBarrier ? std::vector{false}
                                                               : std::vector{false, true};
}

using Subject = std::tuple<Algorithm, OpKind>;

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const Algorithm algorithm : kAlgorithms) {
    for (const OpKind kind : kKinds) {
      const World one_host{.size = 4, .host = {0, 0, 0, 0}};
      const World two_hosts{.size = 4, .host = {0, 0, 1, 1}};
      if (comm::is_available(algorithm, kind, one_host) ||
          comm::is_available(algorithm, kind, two_hosts)) {
        all.emplace_back(algorithm, kind);
      }
    }
  }
  return all;
}

bool is_between_hosts(Algorithm algorithm) {
  return algorithm == Algorithm::kTwoLevel || algorithm == Algorithm::kBalanced ||
         algorithm == Algorithm::kMesh;
}

// Two layouts are enough for those that do not look at hosts.
bool is_left_out(Algorithm algorithm, Layout layout) {
  const bool looks = algorithm == Algorithm::kRing || algorithm == Algorithm::kDoubleTree ||
                     is_between_hosts(algorithm);
  return !looks && (layout == Layout::kEven || layout == Layout::kUneven);
}

// Runs `asked` in every layout in which it is available, with other pieces and another root in
// each.
void expect_right_in_all_layouts(Case asked, std::uint64_t& turn) {
  for (const Layout layout : kLayouts) {
    asked.layout = layout;
    asked.pieces = kPieces[++turn % kPieces.size()];
    asked.root = is_rooted(asked.kind) ? static_cast<std::int32_t>(turn) % asked.size : -1;
    if (is_available(asked) && !is_left_out(asked.algorithm, layout)) {
      ASSERT_EQ(problem_of(asked), "");
    }
  }
  ++turn;  // so that the next case has other pieces in each layout
}

class AlgorithmTest : public testing::TestWithParam<Subject> {};

TEST_P(AlgorithmTest, IsRightForEveryWorldAndCount) {
  const auto [algorithm, kind] = GetParam();
  std::uint64_t turn = 0;
  for (std::int32_t size = 1; size <= kLargestWorld; ++size) {
    const auto n = static_cast<std::uint64_t>(size);
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{1}, n - 1, n, n + 1, 40 * n + 5}) {
      for (const bool in_place : places_of(kind)) {
        const Case asked{.algorithm = algorithm,
                         .kind = kind,
                         .size = size,
                         .count = allowed_count(kind, count, size),
                         .in_place = in_place};
        ASSERT_NO_FATAL_FAILURE(expect_right_in_all_layouts(asked, turn));
      }
    }
  }
}

TEST_P(AlgorithmTest, IsRightForEveryRoot) {
  const auto [algorithm, kind] = GetParam();
  for (std::int32_t size = 1; is_rooted(kind) && size <= kLargestWorld; ++size) {
    for (std::int32_t root = 0; root < size; ++root) {
      const Case asked{.algorithm = algorithm,
                       .kind = kind,
                       .size = size,
                       .count = 3 * static_cast<std::uint64_t>(size),
                       .root = root,
                       .layout = is_between_hosts(algorithm) ? Layout::kUneven : Layout::kOneHost,
                       .pieces = 2};
      if (is_available(asked)) {
        ASSERT_EQ(problem_of(asked), "");
      }
    }
  }
}

TEST_P(AlgorithmTest, IsRightWhenCutIntoPieces) {
  const auto [algorithm, kind] = GetParam();
  for (const std::int32_t size : {2, 3, 4, 6, 8, 11}) {
    for (const std::uint64_t pieces : kPieces) {
      for (const bool in_place : places_of(kind)) {
        const Case asked{
            .algorithm = algorithm,
            .kind = kind,
            .size = size,
            .count = allowed_count(kind, kUncutElements + 77, size),
            .root = is_rooted(kind) ? size / 2 : -1,
            .layout = is_between_hosts(algorithm) ? Layout::kInterleaved : Layout::kOneHost,
            .pieces = pieces,
            .in_place = in_place};
        ASSERT_EQ(is_available(asked) ? problem_of(asked) : "", "");
      }
    }
  }
}

TEST_P(AlgorithmTest, IsRightForUnevenParts) {
  const auto [algorithm, kind] = GetParam();
  const bool has_uneven =
      kind == OpKind::kAllGather || kind == OpKind::kReduceScatter || kind == OpKind::kAllToAll;
  std::uint64_t turn = 0;
  for (std::int32_t size = 1; has_uneven && size <= kLargestWorld; ++size) {
    for (const std::uint64_t count : {0, 4, 60, 201}) {
      for (const bool in_place : places_of(kind)) {
        const Case asked{.algorithm = algorithm,
                         .kind = kind,
                         .size = size,
                         .count = count,
                         .in_place = in_place,
                         .is_uneven = true};
        ASSERT_NO_FATAL_FAILURE(expect_right_in_all_layouts(asked, turn));
      }
    }
  }
}

std::string name_of_subject(const testing::TestParamInfo<Subject>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" +
         std::string(name_of(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(All, AlgorithmTest, testing::ValuesIn(subjects()), name_of_subject);

}  // namespace
}  // namespace trainyard::comm
