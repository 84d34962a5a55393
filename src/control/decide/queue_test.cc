// SPDX-License-Identifier: Apache-2.0
#include "control/decide/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

Job queued(std::int64_t sequence, int instances, Stage stage = Stage::kWaiting, int gpus = 0) {
  Job job = job_in(stage, instances);
  job.name = "job-" + std::to_string(sequence);
  job.sequence = sequence;
  job.gpus_per_instance = gpus;
  return job;
}

std::map<std::string, CapacityView> plan(const std::vector<Job>& jobs, const Machine& machine) {
  std::vector<const Job*> pointers;
  pointers.reserve(jobs.size());
  for (const Job& job : jobs) {
    pointers.push_back(&job);
  }
  return plan_queue(pointers, machine);
}

TEST(PlanQueue, GrantsAGangWholeOrNotAtAll) {
  const auto views = plan({queued(1, 2, Stage::kRunning), queued(2, 4)}, {.instances = 4});
  EXPECT_FALSE(views.at("job-2").granted);
  EXPECT_EQ(views.at("job-2").free, 2);
}

TEST(PlanQueue, GivesARoomForOneGangToTheFirstOfTwo) {
  const auto views = plan({queued(2, 4), queued(1, 4)}, {.instances = 4});
  EXPECT_TRUE(views.at("job-1").granted);
  EXPECT_FALSE(views.at("job-2").granted);
}

TEST(PlanQueue, LetsASmallerJobPassOneThatDoesNotFit) {
  const auto views =
      plan({queued(1, 2, Stage::kRunning), queued(2, 4), queued(3, 2)}, {.instances = 4});
  EXPECT_FALSE(views.at("job-2").granted);
  EXPECT_TRUE(views.at("job-3").granted);
}

TEST(PlanQueue, NamesTheFirstJobThatIsAhead) {
  const auto views =
      plan({queued(1, 4, Stage::kRunning), queued(2, 4), queued(3, 2)}, {.instances = 4});
  EXPECT_EQ(views.at("job-2").ahead, "");
  EXPECT_EQ(views.at("job-3").ahead, "job-2");
}

TEST(PlanQueue, KeepsThePlaceOfAJobInItsSourceCheck) {
  const auto views = plan({queued(1, 4, Stage::kChecking), queued(2, 4)}, {.instances = 4});
  EXPECT_FALSE(views.at("job-2").granted);
}

TEST(PlanQueue, IgnoresAWaitingJobThatIsToStop) {
  Job stopped = queued(1, 4);
  stopped.stop_requested = kTestTime;
  EXPECT_TRUE(plan({stopped, queued(2, 4)}, {.instances = 4}).at("job-2").granted);
}

TEST(PlanQueue, FreesWhatIsReleasedOnlyWhenItIsDone) {
  EXPECT_FALSE(
      plan({queued(1, 4, Stage::kReleasing), queued(2, 4)}, {.instances = 4}).at("job-2").granted);
  EXPECT_TRUE(
      plan({queued(1, 4, Stage::kDone), queued(2, 4)}, {.instances = 4}).at("job-2").granted);
}

TEST(PlanQueue, GivesGpusExclusively) {
  Job running = queued(1, 1, Stage::kRunning, 2);
  running.gpus = {{"0", "2"}};
  const Machine machine{.instances = 8, .gpus = {"0", "1", "2", "3"}};
  const auto views = plan({running, queued(2, 2, Stage::kWaiting, 1)}, machine);
  EXPECT_EQ(views.at("job-2").gpus, (std::vector<std::vector<std::string>>{{"1"}, {"3"}}));
}

TEST(PlanQueue, WaitsForGpusThatAreHeld) {
  Job running = queued(1, 1, Stage::kRunning, 2);
  running.gpus = {{"0", "1"}};
  const Job next = queued(2, 1, Stage::kWaiting, 1);
  const auto views = plan({running, next}, {.instances = 8, .gpus = {"0", "1"}});
  EXPECT_FALSE(views.at("job-2").granted);
  EXPECT_EQ(waiting_message(next, views.at("job-2")),
            "Waiting for capacity: 0 of 1 needed GPUs free");
}

struct TypeCase {
  std::string_view type;
  int gpus;
};
class GpusOfType : public testing::TestWithParam<TypeCase> {};

TEST_P(GpusOfType, KnowsTheServicesTypes) {
  EXPECT_EQ(gpus_of_type(GetParam().type), GetParam().gpus);
}

INSTANTIATE_TEST_SUITE_P(Table, GpusOfType,
                         testing::Values(TypeCase{"ml.m5.large", 0}, TypeCase{"ml.p4d.24xlarge", 8},
                                         TypeCase{"ml.g5.xlarge", 1}, TypeCase{"ml.g5.12xlarge", 4},
                                         TypeCase{"ml.p3.8xlarge", 4}, TypeCase{"ml.c5", 0},
                                         TypeCase{"p4d.24xlarge", 0}, TypeCase{"", 0}));

TEST(FitToMachine, RefusesMoreInstancesThanThereAre) {
  const auto fit = fit_to_machine(queued(1, 5), {.instances = 4}, 3);
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().code, Code::kExhausted);
  EXPECT_THAT(fit.error().message,
              testing::HasSubstr("'ml.m5.large for training job usage' is 4 Instances, with "
                                 "current utilization of 3 Instances and a request delta of 5"));
}

TEST(FitToMachine, RunsAGpuTypeOnCpuWhereThereAreNoGpus) {
  Job job = queued(1, 2);
  job.request["ResourceConfig"]["InstanceType"] = "ml.p4d.24xlarge";
  EXPECT_EQ(*fit_to_machine(job, {.instances = 4}, 0), 0);
}

// cases.md 19: half a gang never starts, and does not keep a smaller one waiting.
TEST(PlanQueue, SaysHowManyGpusAGangLacksAndLetsASmallerOnePass) {
  Job running = queued(1, 1, Stage::kRunning, 8);
  running.gpus = {{"8", "9", "10", "11", "12", "13", "14", "15"}};
  Machine machine{.instances = 8};
  for (int i = 0; i < 16; ++i) {
    machine.gpus.push_back(std::to_string(i));
  }
  const Job big = queued(2, 2, Stage::kWaiting, 8);
  const auto views = plan({running, big, queued(3, 1, Stage::kWaiting, 8)}, machine);
  EXPECT_FALSE(views.at("job-2").granted);
  EXPECT_EQ(waiting_message(big, views.at("job-2")),
            "Waiting for capacity: 8 of 16 needed GPUs free");
  EXPECT_TRUE(views.at("job-3").granted);
}

TEST(WaitingMessage, SaysThatTheMachineHasBecomeTooSmall) {
  EXPECT_EQ(waiting_message(queued(1, 8), {.total = 4, .free = 4}),
            "Waiting for capacity that there is not: 8 instances are needed, and this server has 4 "
            "in all. Stop the job, or raise `capacity` in config.yaml");
  EXPECT_EQ(waiting_message(queued(1, 2, Stage::kWaiting, 4),
                            {.total = 4, .free = 4, .total_gpus = 4, .free_gpus = 4}),
            "Waiting for capacity that there is not: 8 GPUs are needed, and this server has 4 in "
            "all. Stop the job, or raise `capacity` in config.yaml");
}

struct MappingCase {
  std::string_view type;
  int gpus;
  std::string_view sentence;
};
class MappingOf : public testing::TestWithParam<MappingCase> {};

TEST_P(MappingOf, SaysWhatTheTypeIsHere) {
  Job job = queued(1, 1, Stage::kWaiting, GetParam().gpus);
  job.request["ResourceConfig"]["InstanceType"] = GetParam().type;
  EXPECT_EQ(mapping_of(job), GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Table, MappingOf,
    testing::Values(
        MappingCase{"ml.c5.xlarge", 0, "ml.c5.xlarge is mapped to CPU cores of this machine."},
        MappingCase{"ml.new9.huge", 0, "ml.new9.huge is mapped to CPU cores of this machine."},
        MappingCase{"ml.p4d.24xlarge", 0,
                    "This machine has no GPU for ml.p4d.24xlarge: running on CPU."},
        MappingCase{"ml.p4d.24xlarge", 2,
                    "ml.p4d.24xlarge is mapped to 2 GPUs of this machine, not 8."},
        MappingCase{"ml.g5.xlarge", 1, "ml.g5.xlarge is mapped to 1 GPU of this machine."}));

TEST(GpuNode, PutsTheNumberIntoThePattern) {
  EXPECT_EQ(gpu_node({}, "3"), "/dev/nvidia3");
  EXPECT_EQ(gpu_node({.gpu_device = "/srv/gpu-*-render"}, "12"), "/srv/gpu-12-render");
}

TEST(FitToMachine, SharesFewGpusOut) {
  Job job = queued(1, 2);
  job.request["ResourceConfig"]["InstanceType"] = "ml.p4d.24xlarge";
  EXPECT_EQ(*fit_to_machine(job, {.instances = 4, .gpus = {"0", "1", "2", "3"}}, 0), 2);
  EXPECT_EQ(fit_to_machine(job, {.instances = 4, .gpus = {"0"}}, 0).error().code, Code::kExhausted);
}

}  // namespace
}  // namespace trainyard::control
