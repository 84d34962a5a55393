// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/choose.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

World world_of(std::int32_t hosts, std::int32_t local) {
  World world{.size = hosts * local};
  for (std::int32_t r = 0; r < world.size; ++r) {
    world.host.push_back(r / local);
  }
  return world;
}

Algorithm chosen(OpKind kind, std::uint64_t bytes, const World& world,
                 Reach reach = Reach::kMessages) {
  return choose(default_choices(), {.kind = kind, .count = bytes}, 1, world, reach).algorithm;
}

TEST(DefaultChoices, SendSmallMessagesInOneHop) {
  EXPECT_EQ(chosen(OpKind::kAllReduce, 4 * kKiB, world_of(1, 2)), Algorithm::kDirectSmall);
  EXPECT_EQ(chosen(OpKind::kAllReduce, kMiB, world_of(1, 2)), Algorithm::kDirect);
}

TEST(DefaultChoices, UseWindowsOnlyWhereTheyAre) {
  EXPECT_EQ(chosen(OpKind::kAllReduce, kMiB, world_of(1, 4), Reach::kMapped), Algorithm::kWindow);
  EXPECT_EQ(chosen(OpKind::kAllReduce, kMiB, world_of(2, 4), Reach::kMapped), Algorithm::kTwoLevel);
}

TEST(DefaultChoices, CopyOnceWhatFitsCachesWhereTheKernelReadsTheMemoryOfOthers) {
  const World near = world_of(1, 2);
  for (const OpKind kind : {OpKind::kAllGather, OpKind::kScatter, OpKind::kAllToAll}) {
    EXPECT_EQ(chosen(kind, kMiB, near, Reach::kCopied), Algorithm::kSingleCopy);
    EXPECT_EQ(chosen(kind, kMiB, near, Reach::kMessages), Algorithm::kDirect);
    EXPECT_EQ(chosen(kind, 4 * kKiB, near, Reach::kCopied), Algorithm::kDirect);
    EXPECT_EQ(chosen(kind, 64 * kMiB, near, Reach::kCopied), Algorithm::kDirect);
    EXPECT_EQ(chosen(kind, kMiB, near, Reach::kMapped), Algorithm::kWindow);
  }
  EXPECT_EQ(chosen(OpKind::kAllReduce, kMiB, near, Reach::kCopied), Algorithm::kDirect);
}

TEST(DefaultChoices, CombineInsideHostsFirst) {
  EXPECT_EQ(chosen(OpKind::kAllReduce, kMiB, world_of(2, 4)), Algorithm::kTwoLevel);
  EXPECT_EQ(chosen(OpKind::kAllReduce, 64 * kMiB, world_of(8, 1)), Algorithm::kRing);
  EXPECT_EQ(chosen(OpKind::kBarrier, 0, world_of(8, 1)), Algorithm::kHalvingDoubling);
}

TEST(DefaultChoices, HaveAnAvailableAlgorithmForEverything) {
  for (const World& world : {world_of(1, 1), world_of(1, 2), world_of(1, 40), world_of(3, 1),
                             world_of(40, 1), world_of(3, 2), world_of(20, 20)}) {
    const Chooser chooser(default_choices(), world);
    for (int kind = 0; kind <= static_cast<int>(OpKind::kAllToAll); ++kind) {
      for (const std::uint64_t bytes : {std::uint64_t{0}, 4 * kKiB, 1024 * kMiB}) {
        for (const Reach reach : {Reach::kMessages, Reach::kCopied, Reach::kMapped}) {
          const Request request{.kind = static_cast<OpKind>(kind), .count = bytes};
          const Choice choice = chooser.choose(request, 1, reach);
          EXPECT_TRUE(is_available(choice.algorithm, request.kind, world));
        }
      }
    }
  }
}

TEST(Choose, CountsBytesOfUnevenPartsTogether) {
  const Choices choices{{{.kind = OpKind::kAllGather, .bytes = 20, .choice = {Algorithm::kRing}}}};
  Request request{.kind = OpKind::kAllGather, .counts = {1, 4}};

  EXPECT_EQ(choose(choices, request, 4, world_of(1, 2), Reach::kMessages).algorithm,
            Algorithm::kRing);
  request.counts = {2, 4};
  EXPECT_EQ(choose(choices, request, 4, world_of(1, 2), Reach::kMessages).algorithm,
            Algorithm::kDirect);
}

TEST(Choose, LeavesUnevenExchangesDirect) {
  const Choices choices{{{.kind = OpKind::kAllToAll, .choice = {Algorithm::kWindow}}}};
  Request request{.kind = OpKind::kAllToAll, .count = 10};

  EXPECT_EQ(choose(choices, request, 4, world_of(1, 2), Reach::kMapped).algorithm,
            Algorithm::kWindow);
  request.counts = {5, 5};
  request.receive_counts = {5, 5};
  EXPECT_EQ(choose(choices, request, 4, world_of(1, 2), Reach::kMapped).algorithm,
            Algorithm::kDirect);
}

TEST(ChoicesText, IsReadAsItWasWritten) {
  const Choices choices = default_choices();

  const auto read = parse_choices(to_string(choices));

  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, choices);
}

TEST(ChoicesText, FindsTheTightestClassFirst) {
  const auto choices = parse_choices(
      "trainyard choices 1\n"
      "all_reduce private any any any ring 1024  # the rest\n"
      "all_reduce private 1 4 any direct 2048\n"
      "all_reduce private 1 4 64 direct_small 4096\n");

  ASSERT_TRUE(choices.has_value()) << choices.error().message;
  const Request request{.kind = OpKind::kAllReduce, .count = 64};
  EXPECT_EQ(choose(*choices, request, 1, world_of(1, 3), Reach::kMessages).piece_bytes, 4096U);
  EXPECT_EQ(choose(*choices, request, 2, world_of(1, 3), Reach::kMessages).piece_bytes, 2048U);
  EXPECT_EQ(choose(*choices, request, 1, world_of(1, 5), Reach::kMessages).piece_bytes, 1024U);
}

std::string error_of(const std::string& rules) {
  const auto choices = parse_choices("trainyard choices 1\n" + rules);
  return choices ? "" : choices.error().message;
}

TEST(ChoicesText, SaysWhatIsWrongInWhichLine) {
  EXPECT_EQ(error_of("\nring\n"),
            "line 3: 1 fields instead of 7: operation, private or windows, hosts, ranks per host, "
            "bytes, algorithm, bytes of a piece");
  EXPECT_EQ(error_of("sum private 1 1 1 ring 1024"), "line 2: \"sum\" is no operation");
  EXPECT_EQ(error_of("all_reduce shared 1 1 1 ring 1024"),
            "line 2: \"shared\" is neither private nor windows");
  EXPECT_EQ(error_of("all_reduce private -1 1 1 ring 1024"),
            "line 2: \"-1\" is no bound, nor \"any\"");
  EXPECT_EQ(error_of("all_reduce private 1 1 99999999999999999999 ring 1024"),
            "line 2: \"99999999999999999999\" is no bound, nor \"any\"");
  EXPECT_EQ(error_of("all_reduce private 1 5000000000 1 ring 1024"),
            "line 2: \"5000000000\" is no bound, nor \"any\"");
  EXPECT_EQ(error_of("all_reduce private 1 1 1 ring 12"),
            "line 2: a piece has 256 to 1073741824 bytes, not \"12\"");
  EXPECT_EQ(error_of("barrier private 1 1 1 ring 1024"), "line 2: there is no barrier by ring");
}

TEST(ChoicesText, NamesBothVersions) {
  const auto newer = parse_choices("trainyard choices 7\n");
  EXPECT_EQ(newer.error().code, Code::kUnimplemented);
  EXPECT_EQ(newer.error().message,
            "the table of choices has version 7; this program reads version 1");

  EXPECT_EQ(parse_choices("").error().code, Code::kInvalidArgument);
}

TEST(ChoicesText, KeepsTheBuffersOfTheMesh) {
  const auto choices = parse_choices("trainyard choices 1\nmesh 8192 24576\n");

  ASSERT_TRUE(choices) << choices.error().message;
  EXPECT_EQ(choices->mesh, (MeshBuffers{.scratch = 8192, .sort = 24576}));
  EXPECT_EQ(*parse_choices(to_string(*choices)), *choices);
  EXPECT_EQ(error_of("mesh 5000 8192"),
            "line 2: a buffer of the mesh (SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES) has \"5000\" bytes: "
            "it must be a multiple of 8192");
  EXPECT_EQ(error_of("mesh 8192 0"),
            "line 2: a buffer of the mesh (SMDDP_AG_SORT_BUFFER_SIZE_BYTES) has \"0\" bytes: it "
            "must be a multiple of 8192");
}

TEST(Choose, LeavesTheMeshWhenItsSortBufferIsTooSmall) {
  const Choices choices{.rules = {{.kind = OpKind::kAllGather, .choice = {Algorithm::kMesh}},
                                  {.kind = OpKind::kAllGather, .choice = {Algorithm::kRing}}},
                        .mesh = {.sort = 8192}};
  const auto at = [&](std::uint64_t bytes) {
    return choose(choices, {.kind = OpKind::kAllGather, .count = bytes}, 1, world_of(2, 2),
                  Reach::kMessages)
        .algorithm;
  };
  EXPECT_EQ(at(8 * 8192), Algorithm::kMesh);
  EXPECT_EQ(at(8 * 8192 + 1), Algorithm::kRing);
}

Measurement run(std::uint64_t bytes, Algorithm algorithm, double seconds) {
  return {.hosts = 1, .local = 2, .bytes = bytes, .choice = {algorithm, 1024}, .seconds = seconds};
}

TEST(Measured, ChangesBetweenSizesWhereAnotherIsBest) {
  const std::vector<Measurement> runs = {
      run(1024, Algorithm::kDirectSmall, 1), run(1024, Algorithm::kDirect, 2),
      run(4096, Algorithm::kDirectSmall, 5), run(4096, Algorithm::kDirect, 3)};

  const Choices choices = measured(runs, {});

  EXPECT_EQ(to_string(choices),
            "trainyard choices 1\n"
            "# operation, private or windows, hosts, ranks per host, bytes, algorithm, bytes of a "
            "piece\n"
            "all_reduce private 1 2 2048 direct_small 1024\n"
            "all_reduce private 1 2 any direct 1024\n");
}

TEST(Measured, KeepsAChoiceThatIsAsGoodButForNoise) {
  const std::vector<Measurement> runs = {
      run(1024, Algorithm::kRing, 1.00), run(1024, Algorithm::kDirect, 1.20),
      run(4096, Algorithm::kRing, 1.04), run(4096, Algorithm::kDirect, 1.00),
      run(8192, Algorithm::kRing, 1.00), run(8192, Algorithm::kDirect, 1.10)};

  const Choices choices = measured(runs, {});

  ASSERT_EQ(choices.rules.size(), 1U);
  EXPECT_EQ(choices.rules[0].choice.algorithm, Algorithm::kRing);
}

TEST(Measured, SaysNothingOfMuchLargerSizes) {
  const Choices choices = measured(std::vector{run(1024, Algorithm::kDirect, 1)}, {}, 4096);

  ASSERT_EQ(choices.rules.size(), 1U);
  EXPECT_EQ(choices.rules[0].bytes, 2048U);
}

TEST(Measured, TakesMediansOfRepeatedRuns) {
  const std::vector<Measurement> runs = {
      run(64, Algorithm::kRing, 9),   run(64, Algorithm::kRing, 1),
      run(64, Algorithm::kRing, 1),   run(64, Algorithm::kDirect, 1),
      run(64, Algorithm::kDirect, 2), run(64, Algorithm::kDirect, 2)};

  EXPECT_EQ(measured(runs, {}).rules[0].choice.algorithm, Algorithm::kRing);
}

TEST(Measured, ReplacesOnlyWhatWasMeasured) {
  const Choices before = default_choices();

  const Choices after = measured(std::vector{run(64, Algorithm::kRing, 1)}, before);

  const Request request{.kind = OpKind::kAllReduce, .count = 64};
  EXPECT_EQ(choose(after, request, 1, world_of(1, 2), Reach::kMessages).algorithm,
            Algorithm::kRing);
  EXPECT_EQ(choose(after, request, 1, world_of(1, 4), Reach::kMessages),
            choose(before, request, 1, world_of(1, 4), Reach::kMessages));
  EXPECT_EQ(after.rules.size(), before.rules.size());
}

}  // namespace
}  // namespace trainyard::comm
