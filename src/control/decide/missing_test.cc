// SPDX-License-Identifier: Apache-2.0
// What the end of a job says of results that it lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/decide/decide.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using wire::Phase;

const Now kNow = after({});

// A gang that was told to stop.
struct Stopping {
  Job job;
  Facts facts;

  explicit Stopping(int instances = 2)
      : job(running_job(Secondary::kTraining, instances)),
        facts(facts_in(Phase::kTraining, instances)) {
    job.stop_requested = kTestTime;
    settle(job, facts, kNow);
  }
  void end_well(std::size_t index) {
    wire::Exit exit = with_artifacts(exit_with(0));
    exit.stopped = true;
    end(facts.instances[index], exit);
  }
  const std::string& last_message() {
    settle(job, facts, kNow);
    for (InstanceFacts& instance : facts.instances) {
      if (!instance.supervisor_ended) {
        instance.phase = Phase::kFinished;
      }
    }
    // Perhaps a merge, then the release.
    for (int calls = 0; calls < 2; ++calls) {
      settle(job, facts, kNow);
      facts.call = Result<void>();
    }
    settle(job, facts, kNow);
    EXPECT_EQ(job.stage, Stage::kDone);
    return job.transitions.back().message;
  }
};

TEST(DecideMissing, NamesAnInstanceThatIsLostWhileTheJobStops) {
  Stopping stopping;
  stopping.end_well(0);
  stopping.facts.instances[1].supervisor_ended = true;
  EXPECT_EQ(stopping.last_message(),
            "Training job stopped; the results of algo-2 are missing: it was lost while the job "
            "was stopping");
  EXPECT_TRUE(stopping.job.has_model);
}

TEST(DecideMissing, DoesNotCallAModelEmptyThatNobodyHasSeen) {
  Stopping stopping(1);
  stopping.facts.instances[0].supervisor_ended = true;
  EXPECT_THAT(stopping.last_message(), Not(HasSubstr("empty")));
  EXPECT_FALSE(stopping.job.has_model);
}

TEST(DecideMissing, NamesAnInstanceThatIsLostWhileItUploads) {
  Stopping stopping;
  stopping.end_well(0);
  stopping.end_well(1);
  settle(stopping.job, stopping.facts, kNow);
  stopping.facts.instances[1].supervisor_ended = true;
  EXPECT_THAT(stopping.last_message(), HasSubstr("the results of algo-2 are missing"));
}

TEST(DecideMissing, IsNotSaidOfOneThatHadNothing) {
  Stopping stopping;
  stopping.end_well(0);
  end(stopping.facts.instances[1], exit_with(0));
  settle(stopping.job, stopping.facts, kNow);
  stopping.facts.instances[1].supervisor_ended = true;
  EXPECT_EQ(stopping.last_message(), "Training job stopped");
}

// Of an installation that fails, say.
TEST(DecideMissing, IsNotSaidOfOneWhoseProgramNeverRan) {
  Job job = running_job(Secondary::kDownloading, 1);
  Facts facts = facts_in(Phase::kDownloading, 1);
  facts.instances[0].error = Error{.code = Code::kInvalidArgument,
                                   .message = "install requirements.txt: exited with code 1"};
  settle(job, facts, kNow);
  facts.call = Result<void>();
  settle(job, facts, kNow);
  ASSERT_EQ(job.stage, Stage::kDone);
  EXPECT_THAT(job.outcome.value_or(Outcome{}).reason, HasSubstr("install requirements.txt"));
  for (const Transition& step : job.transitions) {
    EXPECT_THAT(step.message, Not(HasSubstr("are missing")));
  }
}

TEST(DecideMissing, NamesAtMostThree) {
  Stopping stopping(5);
  for (InstanceFacts& instance : stopping.facts.instances) {
    instance.supervisor_ended = true;
  }
  EXPECT_THAT(stopping.last_message(),
              HasSubstr("the results of algo-1, algo-2, algo-3 and 2 more are missing: they were "
                        "lost while the job was stopping"));
}

}  // namespace
}  // namespace trainyard::control
