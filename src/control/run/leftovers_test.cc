// SPDX-License-Identifier: Apache-2.0
#include "control/run/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/testing/harness.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Leftovers : ::testing::Test {
  void begin_upload(const std::string& key, const std::string& owner) {
    EXPECT_TRUE(harness.objects().create_upload("bucket", key, {.owner = owner}));
  }
  std::vector<std::string> unfinished() {
    std::vector<std::string> keys;
    if (const auto uploads = harness.objects().list_uploads("bucket", "")) {
      for (const s3::UploadInfo& upload : *uploads) {
        keys.push_back(upload.key);
      }
    }
    return keys;
  }
  bool are_left(const std::vector<std::string>& keys) {
    return eventually([&] { return unfinished() == keys; });
  }
  std::string key_of(const Speaker& speaker) {
    const auto keys = wire::credentials_from_json(*harness.control().credentials(speaker.caller()));
    return keys ? keys->access_key_id : "no key";
  }
  void create() {
    nlohmann::json request = job_request(1);
    request["CheckpointConfig"] = {{"S3Uri", "s3://bucket/ckpt"}};
    EXPECT_TRUE(harness.create("demo", 1, request));
  }

  Harness harness;
};

TEST_F(Leftovers, OfALostInstanceAreGoneInTheNextAttempt) {
  create();
  Speaker first(harness, "demo", "algo-1");
  const std::string lost = key_of(first);
  begin_upload("ckpt/step-1", lost);
  begin_upload("ckpt/of-a-user", "AKIAUSER");
  begin_upload("out/demo/output/model.tar.gz", lost);
  begin_upload("elsewhere", lost);
  harness.engine().kill("demo", "algo-1");
  const Speaker second(harness, "demo", "algo-1", first.token());
  EXPECT_TRUE(are_left({"ckpt/of-a-user", "elsewhere"}));
}

TEST_F(Leftovers, OfTheLastAttemptAreGoneAtTheEnd) {
  create();
  const Speaker only(harness, "demo", "algo-1");
  begin_upload("ckpt/step-1", key_of(only));
  EXPECT_TRUE(harness.call("StopTrainingJob", {{"TrainingJobName", "demo"}}));
  harness.engine().kill("demo", "algo-1");
  EXPECT_TRUE(harness.reaches("demo", "Stopped"));
  EXPECT_TRUE(are_left({}));
}

// Of a store that hangs nobody knows when it answers.
TEST_F(Leftovers, AreLookedForWhenTheMachinesAreGivenBack) {
  create();
  const Speaker only(harness, "demo", "algo-1");
  begin_upload("ckpt/step-1", key_of(only));
  std::vector<std::string> at_release;
  harness.engine().on_release([&] { at_release = unfinished(); });
  EXPECT_TRUE(harness.call("StopTrainingJob", {{"TrainingJobName", "demo"}}));
  harness.engine().kill("demo", "algo-1");
  EXPECT_TRUE(harness.reaches("demo", "Stopped"));
  EXPECT_TRUE(are_left({}));
  EXPECT_THAT(at_release, ElementsAre("ckpt/step-1"));
}

TEST(UploadPlaces, AreDirectories) {
  Job job = new_job("demo");
  job.request["CheckpointConfig"] = {{"S3Uri", "s3://other/ckpt"}};
  std::vector<std::string> places;
  for (const s3::Uri& place : upload_places(job)) {
    places.push_back(s3::to_string(place));
  }
  EXPECT_THAT(places, ElementsAre("s3://bucket/out/demo/output/", "s3://other/ckpt/"));
}

TEST(UploadPlaces, OfAJobWithoutCheckpointsAreItsResults) {
  EXPECT_EQ(upload_places(new_job("demo")).size(), 1u);
}

// A bucket that is gone by now holds nothing; the others are looked at all the same.
TEST_F(Leftovers, AreFoundAlthoughAPlaceIsGone) {
  begin_upload("ckpt/step-1", "ASIA1");
  const std::vector<s3::Uri> places{{"gone", "x/"}, {"bucket", "ckpt/"}};
  EXPECT_EQ(abort_uploads(harness.objects(), places, {"ASIA1"}), 1);
  EXPECT_THAT(unfinished(), IsEmpty());
}

}  // namespace
}  // namespace trainyard::control
