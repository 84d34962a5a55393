// SPDX-License-Identifier: Apache-2.0
#include "comm/health/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Error kDeath{Code::kUnavailable, "rank 1 died: \"it\" has ended"};

std::string numbered(int count) {
  std::string record;
  for (int i = 1; i <= count; ++i) {
    record += "{\"sequence\":" + std::to_string(i) + "}\n";
  }
  return record;
}

TEST(FlightDump, GoesIntoAFileWhereThereIsAFolder) {
  const auto folder = TempDir::make();
  const FlightDump dump{.name = "pair/of_0", .rank = 3, .folder = folder->path()};
  ::testing::internal::CaptureStderr();
  dump.write(kDeath, numbered(2));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("died: \"it\" has ended; its flight record is " + folder->path().string()));
  EXPECT_EQ(*read_file(folder->path() / "flight-rank-3.pair_of_0.jsonl"),
            R"({"communicator":"pair/of_0","fault":"rank 1 died: \"it\" has ended","rank":3})"
            "\n{\"sequence\":1}\n{\"sequence\":2}\n");
}

TEST(FlightDump, NamesNoFaultWhereThereIsNone) {
  const auto folder = TempDir::make();
  const FlightDump dump{
      .name = "world", .rank = 3, .folder = folder->path(), .transports = "shm,tcp"};
  dump.write(std::nullopt, numbered(1));
  EXPECT_EQ(*read_file(folder->path() / "flight-rank-3.world.jsonl"),
            "{\"communicator\":\"world\",\"rank\":3,\"transports\":\"shm,tcp\"}\n"
            "{\"sequence\":1}\n");
}

TEST(FlightDump, ShowsTheLast16OperationsOtherwise) {
  ::testing::internal::CaptureStderr();
  FlightDump{.name = "world", .rank = 3, .folder = {}}.write(kDeath, numbered(20));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("'world' ends on rank 3: rank 1 died"));
  EXPECT_THAT(log, Not(HasSubstr("{\"sequence\":4}")));
  EXPECT_THAT(log, HasSubstr("{\"sequence\":5}\n"));
  EXPECT_THAT(log, HasSubstr("{\"sequence\":20}\n"));
}

TEST(FlightDump, SaysWhenItCannotBeWritten) {
  ::testing::internal::CaptureStderr();
  FlightDump{.name = "world", .rank = 3, .folder = "/nowhere/at/all"}.write(kDeath, numbered(1));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("rank 1 died: \"it\" has ended; its flight record cannot be written"));
}

}  // namespace
}  // namespace trainyard::comm
