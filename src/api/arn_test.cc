// SPDX-License-Identifier: Apache-2.0
#include "api/arn.h"

#include <gtest/gtest.h>

namespace trainyard::api {
namespace {

TEST(Arn, ReadsWhatItWrites) {
  const std::string arn = training_job_arn("us-east-1", "123456789012", "Demo-1");
  EXPECT_EQ(arn, "arn:aws:sagemaker:us-east-1:123456789012:training-job/Demo-1");
  EXPECT_EQ(to_string(*parse_arn(arn)), arn);
  EXPECT_EQ(*job_name_of(arn), "Demo-1");
}

TEST(Arn, KeepsColonsOfTheResource) {
  EXPECT_EQ(parse_arn("arn:aws:logs:us-east-1:123456789012:log-group:x:*")->resource,
            "log-group:x:*");
}

TEST(Arn, RefusesWhatIsNone) {
  for (const char* text :
       {"", "arn", "arn:aws:sagemaker:us-east-1:123456789012",
        "arn:aws:sagemaker:us-east-1:123456789012:", "arn:aws:sagemaker:us-east-1:12345:x",
        "urn:aws:a:b:123456789012:c", "arn:::us-east-1:123456789012:x"}) {
    EXPECT_FALSE(parse_arn(text).has_value()) << text;
  }
}

TEST(Arn, TellsJobsAndRolesFromOthers) {
  EXPECT_FALSE(job_name_of("arn:aws:sagemaker:us-east-1:123456789012:cluster/abc").has_value());
  EXPECT_FALSE(job_name_of("arn:aws:sagemaker:us-east-1:123456789012:training-job/").has_value());
  EXPECT_EQ(*role_name_of("arn:aws:iam::123456789012:role/team/Demo"), "Demo");
  EXPECT_EQ(*role_name_of(role_arn("123456789012", "Demo")), "Demo");
  EXPECT_FALSE(role_name_of("arn:aws:iam::123456789012:user/Demo").has_value());
  EXPECT_FALSE(role_name_of("arn:aws:iam::123456789012:role/").has_value());
}

TEST(Arn, NamesSessionsOfRoles) {
  EXPECT_EQ(assumed_role_arn("123456789012", "Demo", "job-1"),
            "arn:aws:sts::123456789012:assumed-role/Demo/job-1");
}

}  // namespace
}  // namespace trainyard::api
