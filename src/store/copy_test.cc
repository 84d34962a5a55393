// SPDX-License-Identifier: Apache-2.0
// Copies whose source is replaced between the look at it and the copy.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/s3_server.h"
#include "testing/unserved_store.h"

namespace trainyard::store {
namespace {

// Another store, between whose head() and what follows somebody else comes in.
class RacedStore final : public s3::UnservedStore {
 public:
  explicit RacedStore(s3::ObjectStore& real) : real_(real) {}

  std::function<void()> after_head = {};

  Result<s3::ObjectInfo> head(const std::string& bucket, const std::string& key) override {
    auto info = real_.head(bucket, key);
    if (const auto now = after_head) {  // a copy: it may replace itself
      now();
    }
    return info;
  }
  Result<s3::ObjectInfo> put(const std::string& bucket, const std::string& key,
                             const s3::ByteSource& body, const s3::PutOptions& options) override {
    return real_.put(bucket, key, body, options);
  }
  Result<std::unique_ptr<s3::ObjectReader>> get(const std::string& bucket, const std::string& key,
                                                std::optional<s3::ByteRange> range) override {
    return real_.get(bucket, key, range);
  }
  Result<s3::ObjectInfo> copy(const std::string& from_bucket, const std::string& from_key,
                              const std::string& bucket, const std::string& key,
                              const std::optional<s3::PutOptions>& replace) override {
    return real_.copy(from_bucket, from_key, bucket, key, replace);
  }
  Result<std::string> bucket_setting(const std::string& bucket, const std::string& name) override {
    return real_.bucket_setting(bucket, name);
  }

 private:
  s3::ObjectStore& real_;
};

// The source is "old", of type a/old, until the first look at it; then "new", of type a/new.
class RacedCopy : public S3ServerTest {
 protected:
  void SetUp() override {
    S3ServerTest::SetUp();
    raced = std::make_unique<RacedStore>(*store);
    service = std::make_unique<S3Service>(*raced, Options{}, clock);
    old_etag = put("old");
    raced->after_head = [this] {
      raced->after_head = {};
      put("new");
    };
  }

  std::string put(const std::string& text) {
    return s3::put_text(*store, "bucket", "k", text, {.content_type = "a/" + text})->etag;
  }
  std::string outcome_of_copy(const Fields& more = {}) {
    Fields fields{{"x-amz-copy-source", "bucket/k"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return outcome(send("PUT", "/bucket/copy", "", "", fields));
  }
  std::string copied() {
    return s3::get_text(*store, "bucket", "copy").value_or("(none)") + " of type " +
           store->head("bucket", "copy").value_or(s3::ObjectInfo{}).content_type;
  }

  std::unique_ptr<RacedStore> raced;
  std::string old_etag;
};

TEST_F(RacedCopy, HasBytesAndHeadersOfOneVersion) {
  EXPECT_EQ(outcome_of_copy(), "200");
  EXPECT_EQ(copied(), "new of type a/new");
}

TEST_F(RacedCopy, HasThemAlsoWhereAChecksumIsComputed) {
  EXPECT_EQ(outcome_of_copy({{"x-amz-checksum-algorithm", "CRC32"}}), "200");
  EXPECT_EQ(copied(), "new of type a/new");
}

TEST_F(RacedCopy, IsOfTheVersionThatTheConditionNames) {
  EXPECT_EQ(outcome_of_copy({{"x-amz-copy-source-if-match", old_etag}}), "412 PreconditionFailed");
  EXPECT_EQ(copied(), "(none) of type ");
}

TEST_F(RacedCopy, GivesUpWhenTheSourceIsReplacedAllTheTime) {
  int count = 0;
  raced->after_head = [&] { put(std::to_string(++count)); };
  EXPECT_EQ(outcome_of_copy(), "409 OperationAborted");
  EXPECT_EQ(copied(), "(none) of type ");
}

}  // namespace
}  // namespace trainyard::store
