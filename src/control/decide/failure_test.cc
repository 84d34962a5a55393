// SPDX-License-Identifier: Apache-2.0
#include "control/decide/failure.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// The reason that a job gets when algo-2 of two ends like this.
std::string reason_for(const wire::Exit& exit) {
  Facts facts = facts_in(wire::Phase::kTraining);
  end(facts.instances[1], exit);
  return reason_of(facts.instances[1], facts);
}

TEST(FailureReason, NamesRankHostAndExitCode) {
  wire::Exit exit = exit_with(3);
  exit.global_rank = 1;
  EXPECT_EQ(reason_for(exit), "AlgorithmError: rank 1 on algo-2 exited with code 3, exit code: 3");
}

TEST(FailureReason, NamesTheSignal) {
  wire::Exit exit = exit_with(0);
  exit.signal = 11;
  EXPECT_EQ(reason_for(exit),
            "AlgorithmError: algo-2 was killed by signal 11 (SIGSEGV), exit code: 139");
}

TEST(FailureReason, ExplainsTheSignalInAShellsExitCode) {
  EXPECT_THAT(reason_for(exit_with(132)), HasSubstr("exited with code 132 (as after signal 4, "
                                                    "SIGILL)"));
}

TEST(FailureReason, SaysWhenMemoryRanOut) {
  wire::Exit exit = exit_with(0);
  exit.signal = 9;
  exit.out_of_memory = true;
  EXPECT_THAT(reason_for(exit), HasSubstr("algo-2 was killed because it ran out of memory"));
}

TEST(FailureReason, PrefersTheFailureFileToTheLastLines) {
  wire::Exit exit = exit_with(1);
  exit.failure_file = "ValueError: loss is nan\n";
  exit.last_lines = {"unrelated"};
  EXPECT_EQ(reason_for(exit),
            "AlgorithmError: algo-2 exited with code 1: ValueError: loss is nan, exit code: 1");
}

TEST(FailureReason, HoldsNoControlCharacters) {
  wire::Exit exit = exit_with(1);
  exit.failure_file = std::string("\x1b[31mred\x1b[0m\r\n\ttab \x7f\x08") + '\0' +
                      "\xc2\x9b"
                      "31mC1 \xc2\xa9 \xe6\x97\xa5 \x1b[";
  EXPECT_EQ(reason_for(exit),
            "AlgorithmError: algo-2 exited with code 1: red\n\ttab 31mC1 \xc2\xa9 \xe6\x97\xa5"
            ", exit code: 1");
  exit.failure_file = "\x07 \x1b[0m";
  exit.last_lines = {"\x1b]0;title\x07of lines", "last"};
  EXPECT_EQ(reason_for(exit),
            "AlgorithmError: algo-2 exited with code 1; last lines: ]0;titleof lines\nlast, exit "
            "code: 1");
  EXPECT_EQ(reason_of(Error{.code = Code::kDenied, .message = "a\x1b[1mb\rc"}), "ClientError: abc");
}

// What users write never decides whose fault it was.
TEST(FailureReason, OfAProgramIsNeverThePlatforms) {
  Facts facts = facts_in(wire::Phase::kTraining);
  wire::Exit exit = exit_with(1);
  exit.failure_file = "InternalServerError: retry me";
  end(facts.instances[1], exit);
  const Fault fault = first_fault(facts, /*asked=*/false, after({})).value_or(Fault());
  EXPECT_EQ(fault.host, "algo-2");
  EXPECT_FALSE(fault.is_platform);
  facts.instances[1].exit.reset();
  facts.instances[1].error =
      Error{.code = Code::kInvalidArgument, .message = "InternalServerError: "};
  EXPECT_FALSE(first_fault(facts, /*asked=*/false, after({})).value_or(Fault()).is_platform);
  facts.instances[1].error = Error{.code = Code::kInternal, .message = "a disk"};
  EXPECT_TRUE(first_fault(facts, /*asked=*/false, after({})).value_or(Fault()).is_platform);
}

TEST(FailureReason, CutsLinesFromTheFrontAndKeepsTheExitCode) {
  wire::Exit exit = exit_with(1);
  for (int i = 0; i < 20; ++i) {
    std::string line(200, 'x');
    line += " line " + std::to_string(i);
    exit.last_lines.push_back(line);
  }
  const std::string reason = reason_for(exit);
  EXPECT_EQ(utf8_length(reason), kMaxReason);
  EXPECT_THAT(reason, HasSubstr("; last lines: "));
  EXPECT_THAT(reason, EndsWith("line 19, exit code: 1"));
}

TEST(FailureReason, CountsCharactersNotBytes) {
  wire::Exit exit = exit_with(1);
  for (int i = 0; i < 900; ++i) {
    exit.failure_file += "\xe8\xaa\x9e";
  }
  const std::string reason = reason_for(exit);
  EXPECT_THAT(reason, EndsWith("\xe8\xaa\x9e, exit code: 1"));
  EXPECT_GT(utf8_length(reason), 900u);
}

TEST(FailureReason, MarksTheVictims) {
  Facts facts = facts_in(wire::Phase::kTraining, 6);
  for (InstanceFacts& instance : facts.instances) {
    wire::Exit exit = exit_with(0);
    exit.signal = 15;
    exit.stopped = true;
    end(instance, exit);
  }
  facts.instances[0].exit = exit_with(1);
  EXPECT_THAT(reason_of(facts.instances[0], facts),
              HasSubstr("(algo-2, algo-3, algo-4 and 2 more stopped because of it)"));
}

// Three instances whose programs end with these codes, one after the other.
Facts ended_with(std::initializer_list<int> codes) {
  Facts facts = facts_in(wire::Phase::kTraining, static_cast<int>(codes.size()));
  std::size_t i = 0;
  for (const int code : codes) {
    end(facts.instances[i], exit_with(code, std::chrono::seconds(i)));
    ++i;
  }
  return facts;
}

TEST(FailureReason, NamesTheFirstOfSeveralFailures) {
  const Facts facts = ended_with({1, 137, 137});
  const Fault fault =
      first_fault(facts, /*asked=*/false, after(std::chrono::seconds(3))).value_or(Fault());
  EXPECT_EQ(fault.reason,
            "AlgorithmError: algo-1 exited with code 1 (algo-2, algo-3 failed after it), exit "
            "code: 1");
  EXPECT_EQ(fault.host, "algo-1");
  EXPECT_FALSE(fault.is_platform);
}

// Under mpirun the leader, algo-1, hears how a rank on algo-2 ended, and both tell it.
TEST(FailureReason, NamesTheHostOfTheRankAndNotTheOneThatTellsOfIt) {
  Facts facts = facts_in(wire::Phase::kTraining, 3);
  for (InstanceFacts& instance : facts.instances) {
    wire::Exit exit = exit_with(3);
    exit.global_rank = 1;
    exit.host = "algo-2";
    end(instance, exit);
  }
  const Fault fault =
      first_fault(facts, /*asked=*/false, after(std::chrono::seconds(3))).value_or(Fault());
  EXPECT_EQ(fault.reason,
            "AlgorithmError: rank 1 on algo-2 exited with code 3 (algo-1, algo-3 stopped because "
            "of it), exit code: 3");
}

TEST(FailureReason, TellsStoppedFromFallenVictims) {
  Facts facts = ended_with({1, 137, 0});
  wire::Exit stopped = exit_with(0, std::chrono::seconds(2));
  stopped.stopped = true;
  end(facts.instances[2], stopped);
  EXPECT_THAT(reason_of(facts.instances[0], facts),
              HasSubstr("(algo-3 stopped because of it; algo-2 failed after it)"));
}

// --- Lost instances ---

// The reason that a job gets when algo-2 of two, which is otherwise like `instance`, is gone.
std::string reason_when_lost(const std::function<void(InstanceFacts&)>& change, const Now& now) {
  Facts facts = facts_in(wire::Phase::kTraining);
  facts.instances[0].last_report = now;
  facts.instances[1].last_report.reset();
  change(facts.instances[1]);
  const auto fault = first_fault(facts, /*asked=*/false, now);
  return fault ? fault->reason : "no fault";
}

TEST(LostInstance, SaysWhenItHadNotReportedYet) {
  const auto ended = [](InstanceFacts& instance) { instance.supervisor_ended = true; };
  EXPECT_THAT(reason_when_lost(ended, after({})),
              HasSubstr("algo-2 was lost (its supervisor ended before its first report)"));
}

TEST(LostInstance, IsKnownToHaveReportedAfterARestartOfTheServer) {
  const auto ended = [](InstanceFacts& instance) {
    instance.supervisor_ended = true;
    instance.heard = kTestTime;
  };
  EXPECT_THAT(reason_when_lost(ended, after({})),
              HasSubstr("algo-2 was lost (its supervisor ended)"));
  const auto silent = [](InstanceFacts& instance) { instance.heard = kTestTime; };
  EXPECT_THAT(reason_when_lost(silent, after(kFirstReport + Duration(1))),
              HasSubstr("algo-2 was lost (no report for more than 60 s)"));
}

TEST(LostInstance, SaysWhatKeptTheServerFromStoringItsReports) {
  const auto unstored = [](InstanceFacts& instance) {
    instance.heard = kTestTime;
    instance.unstored = "storing reports: No space left on device";
  };
  EXPECT_THAT(reason_when_lost(unstored, after(kFirstReport + Duration(1))),
              HasSubstr("algo-2 was lost (no report for more than 60 s; the server could not keep "
                        "what it had reported: storing reports: No space left on device)"));
}

TEST(LostInstance, IsTheCauseOfAFailureWhileItsLastReportTravelled) {
  Facts facts = facts_in(wire::Phase::kTraining);
  end(facts.instances[0], exit_with(1, Duration(-400)));
  facts.instances[1].supervisor_ended = true;
  Fault fault = first_fault(facts, /*asked=*/false, after({})).value_or(Fault());
  EXPECT_EQ(fault.host, "algo-2");
  EXPECT_TRUE(fault.is_platform);
  end(facts.instances[0], exit_with(1, Duration(-600)));
  fault = first_fault(facts, /*asked=*/false, after({})).value_or(Fault());
  EXPECT_EQ(fault.host, "algo-1");
}

struct Class {
  Code code;
  std::string_view prefix;
};
class ErrorClass : public testing::TestWithParam<Class> {};

TEST_P(ErrorClass, FollowsTheCode) {
  const Error error{.code = GetParam().code, .message = "x"};
  EXPECT_THAT(reason_of(error), StartsWith(GetParam().prefix));
}

INSTANTIATE_TEST_SUITE_P(Table, ErrorClass,
                         testing::Values(Class{Code::kInvalidArgument, "ClientError: "},
                                         Class{Code::kNotFound, "ClientError: "},
                                         Class{Code::kDenied, "ClientError: "},
                                         Class{Code::kExhausted, "ClientError: "},
                                         Class{Code::kUnavailable, "InternalServerError: "},
                                         Class{Code::kInternal, "InternalServerError: "}));

}  // namespace
}  // namespace trainyard::control
