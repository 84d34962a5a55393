// SPDX-License-Identifier: Apache-2.0
#include "control/run/leftovers.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/decide/artifacts.h"
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
  // All objects below a prefix.
  std::vector<std::string> stored(const std::string& prefix) {
    std::vector<std::string> keys;
    if (const auto page = harness.objects().list("bucket", {.prefix = prefix})) {
      for (const s3::ObjectInfo& object : page->objects) {
        keys.push_back(object.key);
      }
    }
    return keys;
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

// An upload may take hours, and the key that began it has run out long before.
TEST_F(Leftovers, OfAKeyThatRanOutAreGoneAllTheSame) {
  create();
  const Speaker first(harness, "demo", "algo-1");
  begin_upload("ckpt/step-1", key_of(first));
  harness.clock().advance(std::chrono::hours(3));
  EXPECT_TRUE(harness.create("other"));
  EXPECT_NE(key_of(Speaker(harness, "other", "algo-1")), "no key");
  harness.engine().kill("demo", "algo-1");
  const Speaker second(harness, "demo", "algo-1", first.token());
  EXPECT_TRUE(are_left({}));
}

// A server may be killed when it has revoked the keys, and before it has looked for what they
// began.
TEST_F(Leftovers, OfKeysThatWereRevokedBeforeARestartAreGone) {
  create();
  const Speaker only(harness, "demo", "algo-1");
  begin_upload("ckpt/step-1", "ASIAREVOKED");
  harness.close();
  harness.edit_job("demo", [](Job& job) {
    set_status(job, Secondary::kStopping, "Stopping the training job", kTestTime);
    job.outcome = Outcome{.status = Secondary::kStopped, .at = kTestTime};
    job.stage = Stage::kReleasing;
  });
  harness.open();
  EXPECT_TRUE(harness.reaches("demo", "Stopped"));
  EXPECT_TRUE(are_left({}));
}

TEST_F(Leftovers, PartsOfALostAttemptAreGoneInTheNext) {
  create();
  const Speaker first(harness, "demo", "algo-1");
  const auto place = s3::parse_uri(parts_place(new_job("demo")));
  ASSERT_TRUE(place);
  harness.put(place->key + "algo-1/model.tar.gz", "of the first attempt");
  harness.engine().kill("demo", "algo-1");
  const Speaker second(harness, "demo", "algo-1", first.token());
  EXPECT_TRUE(eventually([&] { return stored(place->key).empty(); }));
}

TEST_F(Leftovers, PartsOfTheAttemptItselfAndOfOtherJobsStay) {
  for (const char* key : {"p/1/a", "p/2/a", "p/2/b", "p/10/a", "p/10/b", "q/1/a"}) {
    harness.put(key, "part");
  }
  remove_parts_before(harness.objects(), "s3://bucket/p/", 10);
  EXPECT_THAT(stored("p/"), ElementsAre("p/10/a", "p/10/b"));
  EXPECT_THAT(stored("q/"), ElementsAre("q/1/a"));
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
  const auto is_revoked = [](std::string_view key) { return key == "ASIA1"; };
  EXPECT_EQ(abort_uploads(harness.objects(), places, is_revoked), 1);
  EXPECT_THAT(unfinished(), IsEmpty());
}

}  // namespace
}  // namespace trainyard::control
