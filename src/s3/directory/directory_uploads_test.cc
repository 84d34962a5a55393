// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "base/thread.h"
#include "s3/checksum.h"
#include "s3/directory/directory_store.h"
#include "s3/directory/upload_expiry.h"
#include "sql/connection.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct DirectoryUploads : StoreFixture {
  std::string begin(const PutOptions& options = {}) {
    return store->create_upload("bucket", "k", options).value_or("?");
  }
  PartInfo part(const std::string& id, int number, const std::string& text) {
    const auto info = store->put_part("bucket", "k", {id, number}, text_source(text), {});
    EXPECT_TRUE(info) << info.error().message;
    return info.has_value() ? *info : PartInfo{};
  }
  Result<ObjectInfo> complete(const std::string& id, const std::vector<PartInfo>& parts) {
    return store->complete_upload("bucket", "k", id, parts);
  }
};

TEST_F(DirectoryUploads, JoinsPartsThatArriveInAnyOrder) {
  const std::string a = long_text(5 * kMiB, 1);
  const std::string b = long_text(5 * kMiB + 1, 2);
  const std::string id = begin({.content_type = "a/b", .compute = {HashKind::kCrc32}});
  const PartInfo third = part(id, 3, "end");
  const PartInfo first = part(id, 1, a);
  const PartInfo second = part(id, 2, b);
  const auto made = complete(id, {first, second, third});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->size, a.size() + b.size() + 3);
  EXPECT_TRUE(made->etag.ends_with("-3"));
  EXPECT_TRUE(made->checksums.at(0).composite);
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), a + b + "end");
  EXPECT_EQ(store->head("bucket", "k")->content_type, "a/b");
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryUploads, KnowsTheChecksumOfTheWholeObject) {
  const std::string a = long_text(5 * kMiB, 1);
  const std::string id = begin({.compute = {HashKind::kCrc64Nvme}, .full_object_checksum = true});
  const PartInfo first = part(id, 1, a);
  const PartInfo second = part(id, 2, "end");
  const auto made = complete(id, {first, second});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->checksums.at(0).base64, to_base64(hash_of(HashKind::kCrc64Nvme, a + "end")));
  EXPECT_FALSE(made->checksums.at(0).composite);
}

TEST_F(DirectoryUploads, AreListedWithWhoBeganThem) {
  begin({.owner = "ASIA1 of a job"});
  const auto listed = store->list_uploads("bucket", "");
  ASSERT_TRUE(listed && listed->size() == 1);
  EXPECT_EQ(listed->front().owner, "ASIA1 of a job");
  EXPECT_EQ(listed->front().key, "k");
}

TEST_F(DirectoryUploads, ExpireWhenNothingIsHeardOfThem) {
  const std::string silent = begin();
  part(silent, 1, "x");
  EXPECT_EQ(store->expire_uploads(clock.now() - std::chrono::hours(1)).value_or(9), 0u);
  EXPECT_EQ(store->expire_uploads(clock.now() + std::chrono::hours(1)).value_or(9), 1u);
  EXPECT_EQ(store->list_parts("bucket", "k", silent).error().subject, "upload");
  EXPECT_EQ(content_files(), 0u);
}

TEST_F(DirectoryUploads, AreNoOlderWhenTheWallClockIsSetForward) {
  part(begin(), 1, "x");
  ExpiryBound bound(std::chrono::hours(7 * 24));
  const WallTime now = clock.now();
  const SteadyTime steady = clock.steady_now();
  const auto expired = [&](int wall_hours, int steady_hours) {
    return store
        ->expire_uploads(bound.look(now + std::chrono::hours(wall_hours),
                                    steady + std::chrono::hours(steady_hours)))
        .value_or(9);
  };
  EXPECT_EQ(expired(0, 0), 0u);
  EXPECT_EQ(expired(8 * 24 + 1, 1), 0u);
  EXPECT_EQ(expired(15 * 24 - 1, 7 * 24 - 1), 0u);
  EXPECT_EQ(expired(15 * 24 + 2, 7 * 24 + 2), 1u);
}

TEST_F(DirectoryUploads, OfOnePartNeedsNoCopy) {
  const std::string id = begin();
  const PartInfo only = part(id, 7, "small");
  ASSERT_TRUE(complete(id, {only}));
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "small");
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryUploads, CompletingAgainGivesTheSameObject) {
  const std::string id = begin();
  const PartInfo only = part(id, 1, "small");
  const auto once = complete(id, {only});
  const auto again = complete(id, {only});
  ASSERT_TRUE(once && again);
  EXPECT_EQ(once->etag, again->etag);
  ASSERT_TRUE(put_text(*store, "bucket", "k", "other"));
  EXPECT_EQ(complete(id, {only}).error().subject, "upload");
}

TEST_F(DirectoryUploads, CompletingManyTimesAtOnceJoinsThePartsOnce) {
  const std::string id = begin();
  const PartInfo first = part(id, 1, long_text(5 * kMiB, 1));
  const PartInfo second = part(id, 2, "end");
  std::atomic<int> joined{0};
  std::atomic<int> succeeded{0};
  const CompleteOptions options{.before_visible = [&joined] {
    ++joined;
    return Result<void>();
  }};
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 6; ++i) {
      clients.push_back(start_thread("client", [&](const std::stop_token&) {
        succeeded += store->complete_upload_if("bucket", "k", id, {first, second}, options) ? 1 : 0;
      }));
    }
  }
  EXPECT_EQ(succeeded, 6);
  EXPECT_EQ(joined, 1);
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryUploads, ExpiryLeavesThoseThatSomebodyGoesOnWithAndStopsWhenTold) {
  const std::string silent = begin();
  const std::string busy = begin();
  const WallTime long_ago = clock.now() - std::chrono::hours(2);
  {
    auto index = *sql::Connection::open(folder.path() / "store" / "index.db", sql::Access::kWrite);
    auto age = *index.prepare("UPDATE uploads SET started=?1");
    ASSERT_TRUE(age.bind(1, long_ago.time_since_epoch().count()).run());
  }
  part(busy, 1, "x");
  const WallTime before = clock.now() - std::chrono::hours(1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(store->expire_uploads(before, stop.get_token()).value_or(9), 0u);
  EXPECT_TRUE(store->list_parts("bucket", "k", silent));
  EXPECT_EQ(store->expire_uploads(before).value_or(9), 1u);
  EXPECT_FALSE(store->list_parts("bucket", "k", silent));
  EXPECT_EQ(store->list_parts("bucket", "k", busy)->size(), 1u);
}

TEST_F(DirectoryUploads, RefusesPartListsThatDoNotFit) {
  const std::string id = begin();
  const PartInfo one = part(id, 1, "short");
  const PartInfo two = part(id, 2, "end");
  const PartInfo wrong{.number = 2, .etag = one.etag};
  const PartInfo missing{.number = 3, .etag = one.etag};
  EXPECT_EQ(complete(id, {one, two}).error().subject, "part-size");
  EXPECT_EQ(complete(id, {two, one}).error().subject, "part-order");
  EXPECT_EQ(complete(id, {two, two}).error().subject, "part-order");
  EXPECT_EQ(complete(id, {wrong}).error().subject, "part");
  EXPECT_EQ(complete(id, {missing}).error().subject, "part");
  EXPECT_EQ(complete(id, {}).error().subject, "part");
  EXPECT_TRUE(complete(id, {two}));
}

TEST_F(DirectoryUploads, PartMayBeSentAgain) {
  const std::string id = begin();
  part(id, 1, "first try");
  const PartInfo second = part(id, 1, "second try");
  EXPECT_EQ(store->list_parts("bucket", "k", id)->size(), 1u);
  ASSERT_TRUE(complete(id, {second}));
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "second try");
}

TEST_F(DirectoryUploads, AbortRemovesPartsAndUpload) {
  const std::string id = begin();
  part(id, 1, "x");
  ASSERT_EQ(store->list_uploads("bucket", "k")->size(), 1u);
  ASSERT_TRUE(store->abort_upload("bucket", "k", id));
  EXPECT_EQ(store->abort_upload("bucket", "k", id).error().subject, "upload");
  EXPECT_EQ(store->put_part("bucket", "k", {id, 1}, text_source("x"), {}).error().subject,
            "upload");
  EXPECT_TRUE(store->list_uploads("bucket", "")->empty());
  EXPECT_EQ(content_files(), 0u);
}

TEST_F(DirectoryUploads, AreListedFromAPlaceOn) {
  const auto begin_of = [&](const std::string& key) {
    return store->create_upload("bucket", key, {}).value_or("?");
  };
  std::vector<std::string> of_b{begin_of("b"), begin_of("b")};
  std::ranges::sort(of_b);
  const std::string of_a = begin_of("a");
  const std::string of_c = begin_of("c/1");
  const auto ids = [&](const UploadsAfter& after) {
    std::vector<std::string> found;
    const auto listed = store->list_uploads_after("bucket", after);
    for (const UploadInfo& upload : *listed) {
      found.push_back(upload.upload_id);
    }
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(ids({}), ElementsAre(of_a, of_b[0], of_b[1], of_c));
  EXPECT_THAT(ids({.key = "a", .limit = 2}), ElementsAre(of_b[0], of_b[1]));
  EXPECT_THAT(ids({.key = "b", .id = of_b[0]}), ElementsAre(of_b[1], of_c));
  EXPECT_THAT(ids({.key = "b"}), ElementsAre(of_c));
  EXPECT_THAT(ids({.prefix = "b", .key = "a", .id = of_a}), ElementsAre(of_b[0], of_b[1]));
  EXPECT_THAT(ids({.prefix = "c/", .key = "c/1"}), ElementsAre());
  EXPECT_THAT(ids({.prefix = "d"}), ElementsAre());
  // What a store does that cannot begin in the middle says the same.
  EXPECT_EQ(store->ObjectStore::list_uploads_after("bucket", {.key = "b", .id = of_b[0]})->size(),
            2u);
  EXPECT_EQ(store->ObjectStore::list_uploads_after("bucket", {.key = "a", .limit = 1})->size(), 1u);
}

TEST_F(DirectoryUploads, TellTheirPartsOnlyWhenAsked) {
  const std::string id = begin();
  const PartInfo first = part(id, 1, long_text(5 * kMiB));
  const PartInfo second = part(id, 2, "end");
  ASSERT_TRUE(complete(id, {first, second}));
  EXPECT_TRUE(store->head("bucket", "k")->parts.empty());
  EXPECT_TRUE((*store->get("bucket", "k", {}))->info().parts.empty());
  EXPECT_EQ(store->head_with_parts("bucket", "k")->parts.size(), 2u);
  ASSERT_TRUE(store->set_tags("bucket", "k", {{"a", "1"}}));
  ASSERT_TRUE(store->copy("bucket", "k", "bucket", "copy", {}));
  EXPECT_EQ(store->head_with_parts("bucket", "copy")->parts.at(1).size, 3u);
}

TEST_F(DirectoryUploads, BelongToTheirKey) {
  const std::string id = begin();
  EXPECT_EQ(store->put_part("bucket", "other", {id, 1}, text_source("x"), {}).error().subject,
            "upload");
  EXPECT_EQ(store->put_part("bucket", "k", {id, 10'001}, text_source("x"), {}).error().subject,
            "part-number");
}

TEST_F(DirectoryUploads, GoWithTheirBucket) {
  part(begin(), 1, "x");
  ASSERT_TRUE(store->delete_bucket("bucket"));
  EXPECT_EQ(content_files(), 0u);
}

}  // namespace
}  // namespace trainyard::s3
