// SPDX-License-Identifier: Apache-2.0
#include "control/operations/job_cache.h"

#include <gtest/gtest.h>

#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

JobRow row_of(const Job& job) {
  return {.sequence = job.sequence,
          .name = job.name,
          .arn = job.arn,
          .created = job.created,
          .modified = job.modified,
          .request = job.request.dump(),
          .state = state_to_json(job).dump()};
}

TEST(JobCache, ParsesAJobOnceAsLongAsItIsTheSame) {
  JobCache cache;
  Job job = new_job("demo");
  const auto first = *cache.parse(row_of(job));
  EXPECT_EQ(*cache.parse(row_of(job)), first);
  set_message(job, "another", kTestTime);  // which changes the state alone
  const auto second = *cache.parse(row_of(job));
  EXPECT_NE(second, first);
  EXPECT_EQ(second->transitions.back().message, "another");
  job.request["RoleArn"] = "another";
  EXPECT_EQ((*cache.parse(row_of(job)))->request["RoleArn"], "another");
  ++job.sequence;  // it was deleted, and created again
  EXPECT_EQ((*cache.parse(row_of(job)))->sequence, job.sequence);
}

TEST(JobCache, KeepsFewJobsAndNoLargeOnes) {
  JobCache cache;
  const auto first = *cache.parse(row_of(new_job("demo")));
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(cache.parse(row_of(new_job("job-" + std::to_string(i)))));
  }
  EXPECT_NE(*cache.parse(row_of(new_job("demo"))), first);
  Job large = new_job("large");
  large.request["HyperParameters"]["a"] = std::string(std::size_t{20} << 10, 'x');
  const auto once = *cache.parse(row_of(large));
  EXPECT_NE(*cache.parse(row_of(large)), once);
}

TEST(JobCache, TellsOfDamage) {
  JobCache cache;
  JobRow row = row_of(new_job("demo"));
  row.state = "{";
  EXPECT_EQ(cache.parse(row).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace trainyard::control
