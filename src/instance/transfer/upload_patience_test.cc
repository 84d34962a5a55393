// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/upload_patience.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/random.h"
#include "http/client.h"
#include "instance/transfer/artifacts.h"
#include "s3/client/s3_client.h"
#include "testing/fake_clock.h"
#include "testing/scripted_server.h"
#include "testing/unserved_store.h"

namespace trainyard::instance {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Error kFull{Code::kExhausted, "InsufficientStorage", kMayPass};
const Error kAway{Code::kUnavailable, "connection refused", kMayPass};

struct StoreAnswer {
  Error error;
  bool may_pass;
};
class MayPass : public ::testing::TestWithParam<StoreAnswer> {};

TEST_P(MayPass, TellsWhatMendsItselfFromWhatTheUserHasToMend) {
  EXPECT_EQ(may_pass(GetParam().error), GetParam().may_pass);
}

INSTANTIATE_TEST_SUITE_P(Errors, MayPass,
                         ::testing::Values(StoreAnswer{{Code::kUnavailable, ""}, true},
                                           StoreAnswer{{Code::kDeadline, ""}, true},
                                           StoreAnswer{{Code::kExhausted, ""}, true},
                                           StoreAnswer{{Code::kNotFound, "", "upload"}, true},
                                           StoreAnswer{{Code::kNotFound, "", "bucket"}, false},
                                           StoreAnswer{{Code::kDenied, ""}, false},
                                           StoreAnswer{{Code::kInvalidArgument, ""}, false},
                                           StoreAnswer{{Code::kCancelled, ""}, false},
                                           StoreAnswer{{Code::kInternal, ""}, false}));

TEST(UploadPatience, TriesSoonThenEveryFifteenSeconds) {
  UploadPatience patience;
  std::vector<Duration::rep> pauses(9);
  for (Duration::rep& pause : pauses) {
    pause = patience.after(kFull, SteadyTime()).pause.count();
  }
  EXPECT_THAT(pauses, ElementsAre(200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000));
}

TEST(UploadPatience, SaysAtOnceThatItWaitsAndThenSeldom) {
  UploadPatience patience;
  const SteadyTime start{std::chrono::hours(5)};
  EXPECT_TRUE(patience.after(kFull, start).is_to_tell);
  EXPECT_FALSE(patience.after(kFull, start + seconds(599)).is_to_tell);
  EXPECT_TRUE(patience.after(kFull, start + seconds(600)).is_to_tell);
}

TEST(UploadPatience, SaysSoonThatTheReasonIsAnotherButNotEachTime) {
  UploadPatience patience;
  const SteadyTime start{std::chrono::hours(5)};
  EXPECT_TRUE(patience.after(kFull, start).is_to_tell);
  EXPECT_FALSE(patience.after(kAway, start + seconds(9)).is_to_tell);
  EXPECT_TRUE(patience.after(kAway, start + seconds(10)).is_to_tell);
  EXPECT_FALSE(patience.after(kFull, start + seconds(19)).is_to_tell);
}

// The loop, whose pauses take no time.
class SendUntilStored : public ::testing::Test {
 protected:
  Result<LeftOut> send(std::vector<Error> failures) {
    std::reverse(failures.begin(), failures.end());
    return send_until_stored(
        [&, failures]() mutable -> Result<LeftOut> {
          ++sent_;
          if (failures.empty()) {
            return LeftOut();
          }
          Error next = failures.back();
          failures.pop_back();
          return next;
        },
        wait(), clock_);
  }
  UploadWait wait() {
    return {.pause =
                [this](Duration time) {
                  clock_.advance(time);
                  return --pauses_left_ >= 0;
                },
            .tell = [this](const std::string& text) { told_.push_back(text); }};
  }

  testing::FakeClock clock_;
  int pauses_left_ = 1'000;
  int sent_ = 0;
  std::vector<std::string> told_;
};

TEST_F(SendUntilStored, SaysNothingWhenAllIsWell) {
  EXPECT_TRUE(send({}));
  EXPECT_EQ(sent_, 1);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(SendUntilStored, SendsAgainUntilItIsTaken) {
  EXPECT_TRUE(send({kFull, kFull, kFull}));
  EXPECT_EQ(sent_, 4);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("The store is full: the results wait"),
                                 HasSubstr("has taken the results at try 4")));
}

TEST_F(SendUntilStored, FailsAtOnceForGood) {
  const Result<LeftOut> sent = send({kFull, {Code::kExhausted, "EMFILE of the disk that is read"}});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().message, "EMFILE of the disk that is read");
  EXPECT_EQ(sent_, 2);
}

TEST_F(SendUntilStored, GivesUpWhenItIsToLeaveAndBlamesNobody) {
  pauses_left_ = 1;
  const Result<LeftOut> sent = send({kFull, kFull, kFull});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kCancelled);
  EXPECT_THAT(sent.error().message, HasSubstr("InsufficientStorage"));
  EXPECT_EQ(sent_, 2);
}

TEST_F(SendUntilStored, OutlastsAServerThatIsAwayForLongerThanAllTriesOfTheClient) {
  constexpr int kAttempts = 2;
  ScriptedServer server([](http::Exchange& exchange, const auto&, int number) {
    const bool is_away = number <= 3 * kAttempts;
    exchange.respond({.status = is_away ? 503 : 200, .headers = {}, .body = {}});
  });
  const TempDir model = *TempDir::make("trainyard-patience-");
  ASSERT_TRUE(write_file(model.path() / "weights", "12345"));
  const auto http = http::Client::make();
  SystemClock clock;
  SystemRandom random;
  const auto client = *s3::S3Client::make({.endpoint = server.url(),
                                           .credentials = [](bool) -> Result<http::Credentials> {
                                             return http::Credentials{"a", "b"};
                                           },
                                           .max_attempts = kAttempts,
                                           .first_delay = Duration(1)},
                                          *http, clock, random);
  const Result<LeftOut> sent = send_until_stored(
      [&] {
        ++sent_;
        return upload_artifact(*client, {.s3_uri = "s3://bucket/model", .form = "whole"},
                               model.path(), "/opt/ml/model");
      },
      wait(), clock_);
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(sent_, 4);
  EXPECT_THAT(told_.front(), AllOf(HasSubstr("The store does not answer"),
                                   HasSubstr("/opt/ml/model to s3://bucket/model")));
}

// Reads the body, then has no room for it.
class FullStore final : public s3::UnservedStore {
 public:
  Result<s3::ObjectInfo> put(const std::string&, const std::string&, const s3::ByteSource& body,
                             const s3::PutOptions&) override {
    std::vector<std::byte> chunk(65536);
    for (;;) {
      YARD_TRY(const std::size_t got, body(chunk));
      if (got == 0) {
        return Error{Code::kExhausted, "InsufficientStorage"};
      }
    }
  }
};

TEST(UploadArtifact, SaysThatTheStoreMayTakeItLater) {
  FullStore store;
  const TempDir model = *TempDir::make("trainyard-patience-");
  ASSERT_TRUE(write_file(model.path() / "weights", "12345"));
  for (const char* form : {"whole", "files"}) {
    const auto sent =
        upload_artifact(store, {.s3_uri = "s3://bucket/model", .form = form}, model.path(), "it");
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::kExhausted);
    EXPECT_EQ(sent.error().subject, kMayPass) << form;
  }
}

// Lets no file be opened while it reads the body.
class StarvingStore final : public s3::UnservedStore {
 public:
  Result<s3::ObjectInfo> put(const std::string& bucket, const std::string& key,
                             const s3::ByteSource& body, const s3::PutOptions& options) override {
    rlimit usual = {};
    getrlimit(RLIMIT_NOFILE, &usual);
    const rlimit none{.rlim_cur = 0, .rlim_max = usual.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    auto stored = full_.put(bucket, key, body, options);
    setrlimit(RLIMIT_NOFILE, &usual);
    return stored;
  }

 private:
  FullStore full_;
};

TEST(UploadArtifact, DoesNotBlameTheStoreForWhatIsReadHere) {
  StarvingStore store;
  const TempDir model = *TempDir::make("trainyard-patience-");
  ASSERT_TRUE(write_file(model.path() / "weights", "12345"));
  const auto sent =
      upload_artifact(store, {.s3_uri = "s3://bucket/model", .form = "whole"}, model.path(), "it");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kExhausted) << sent.error().message;
  EXPECT_NE(sent.error().subject, kMayPass) << sent.error().message;
}

}  // namespace
}  // namespace trainyard::instance
