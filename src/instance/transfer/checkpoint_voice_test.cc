// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_voice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class VoiceTest : public testing::Test {
 protected:
  // A lag whose oldest change is `age` old.
  void lag(seconds age, bool is_flushing = false) {
    voice_.lag({.files = 12, .bytes = 2048, .oldest = age}, is_flushing,
               SteadyTime(std::chrono::hours(1)) + age);
  }
  void nothing(bool is_flushing = false) {
    voice_.lag({}, is_flushing, SteadyTime(std::chrono::hours(2)));
  }

  std::vector<std::string> messages_;
  std::vector<std::string> notes_;
  std::vector<wire::CheckpointLag> lags_;
  CheckpointVoice voice_{
      "s3://b/ckpt/",
      "/opt/ml/checkpoints",
      {.progress = {.message = [this](std::string text) { messages_.push_back(std::move(text)); },
                    .note = [this](std::string text) { notes_.push_back(std::move(text)); }},
       .lag = [this](const wire::CheckpointLag& lag) { lags_.push_back(lag); }}};
};

TEST_F(VoiceTest, SaysNothingOfALagThatIsNone) {
  nothing();
  lag(seconds(1));
  nothing();
  EXPECT_THAT(messages_, IsEmpty());
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_THAT(lags_, IsEmpty());
}

TEST_F(VoiceTest, TellsTheServerBeforeItTellsPeople) {
  lag(seconds(2));
  EXPECT_THAT(messages_, IsEmpty());
  ASSERT_THAT(lags_, SizeIs(1));
  EXPECT_EQ(lags_[0].files, 12);
  EXPECT_EQ(lags_[0].bytes, 2048);
  EXPECT_EQ(lags_[0].oldest, seconds(2));
  nothing();
  ASSERT_THAT(lags_, SizeIs(2));
  EXPECT_EQ(lags_[1].files, 0);
  nothing();
  EXPECT_THAT(lags_, SizeIs(2)) << "once is enough";
}

TEST_F(VoiceTest, TellsPeopleHowFarItIsBehindAndWhy) {
  voice_.trouble("PUT s3://b/ckpt/a: InternalError");
  lag(seconds(10));
  EXPECT_THAT(messages_,
              ElementsAre(AllOf(HasSubstr("12 files (2 KiB)"), HasSubstr("not yet in s3://b/ckpt/"),
                                HasSubstr("10 s ago"), HasSubstr("InternalError"))));
  EXPECT_THAT(notes_, IsEmpty());
  lag(seconds(30));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("12 files")));
}

TEST_F(VoiceTest, SaysThatItIsOver) {
  lag(seconds(31));
  nothing();
  EXPECT_THAT(messages_.back(), AllOf(HasSubstr("up to date"), HasSubstr("Training in progress")));
  EXPECT_THAT(notes_.back(), HasSubstr("up to date again"));
  lag(seconds(10));
  EXPECT_THAT(messages_.back(), Not(HasSubstr("InternalError")));
}

TEST_F(VoiceTest, DoesNotFillTheLog) {
  for (int age = 30; age < 90; ++age) {
    lag(seconds(age));
  }
  EXPECT_THAT(notes_, SizeIs(1));
  EXPECT_THAT(messages_, SizeIs(6));
}

TEST_F(VoiceTest, TellsTheServerOfAFlushAtOnceAndPeopleOfALongOne) {
  lag(seconds(1), /*is_flushing=*/true);
  ASSERT_THAT(lags_, SizeIs(1));
  EXPECT_TRUE(lags_[0].is_flushing);
  EXPECT_THAT(messages_, IsEmpty());
  lag(seconds(4), /*is_flushing=*/true);
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("Uploading checkpoints: 12 files")));
  voice_.lag({}, /*is_flushing=*/true, SteadyTime(std::chrono::hours(2)));
  EXPECT_THAT(messages_.back(), HasSubstr("up to date"));
}

TEST_F(VoiceTest, NamesEachFileOnceAndNotEndlesslyMany) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1'000; ++i) {
      voice_.left_out("f" + std::to_string(i), "it is a FIFO");
    }
  }
  EXPECT_EQ(notes_.front(), "/opt/ml/checkpoints/f0 is not mirrored to S3: it is a FIFO.");
  EXPECT_THAT(notes_, SizeIs(201));
  EXPECT_THAT(notes_.back(), HasSubstr("not named any more"));
}

TEST_F(VoiceTest, NamesWhatIsMissingInTheEnd) {
  voice_.given_up({.files = 3, .bytes = 3}, {"a", "b\xff"});
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("Missing: a, b\uFFFD, ...")));
}

}  // namespace
}  // namespace trainyard::instance
