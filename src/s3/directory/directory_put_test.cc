// SPDX-License-Identifier: Apache-2.0
// Writes under conditions, many at once, and what they leave on the disk.
#include <atomic>
#include <chrono>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"
#include "s3/directory/directory_store.h"
#include "testing/no_threads.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

using DirectoryPut = StoreFixture;

TEST_F(DirectoryPut, ManyAtOnceAreAllThereAndWhole) {
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < 8; ++w) {
      writers.push_back(start_thread("writer", [&, w](const std::stop_token&) {
        for (int i = 0; i < 20; ++i) {
          const std::string key = std::to_string(w) + "/" + std::to_string(i);
          wrong += put_text(*store, "bucket", key, "content of " + key) ? 0 : 1;
        }
      }));
    }
  }
  EXPECT_EQ(wrong, 0);
  reopen();
  EXPECT_EQ(content_files(), 160u);
  const auto page = store->list("bucket", {});
  ASSERT_TRUE(page);
  for (const auto& object : page->objects) {
    EXPECT_EQ(get_text(*store, "bucket", object.key).value_or("?"), "content of " + object.key);
  }
}

TEST_F(DirectoryPut, NamesMadeAheadGoWhenTheStoreIsClosed) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "x"));
  const Path root = folder.path() / "store";
  EXPECT_FALSE(std::filesystem::is_empty(root / "incoming"));
  store.reset();
  EXPECT_TRUE(std::filesystem::is_empty(root / "incoming"));
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryPut, IfMatchReplacesOnlyWhatWasNamed) {
  const auto first = put_text(*store, "bucket", "k", "first");
  ASSERT_TRUE(first);
  EXPECT_EQ(put_text(*store, "bucket", "k", "x", {.only_if_match = "other"}).error().subject,
            "precondition");
  EXPECT_EQ(put_text(*store, "bucket", "none", "x", {.only_if_match = first->etag}).error().code,
            Code::kNotFound);
  EXPECT_TRUE(put_text(*store, "bucket", "k", "second", {.only_if_match = first->etag}));
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "second");
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryPut, OfManyThatReplaceTheSameVersionOneSucceeds) {
  const auto first = put_text(*store, "bucket", "k", "first");
  ASSERT_TRUE(first);
  std::atomic<int> succeeded{0};
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < 6; ++w) {
      writers.push_back(start_thread("writer", [&, w](const std::stop_token&) {
        const PutOptions options{.only_if_match = first->etag};
        succeeded += put_text(*store, "bucket", "k", std::to_string(w), options) ? 1 : 0;
      }));
    }
  }
  EXPECT_EQ(succeeded, 1);
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryPut, RemovesOnlyWhatWasNamed) {
  const auto there = put_text(*store, "bucket", "k", "x");
  ASSERT_TRUE(there);
  EXPECT_EQ(store->remove_if("bucket", "k", "other").error().subject, "precondition");
  EXPECT_EQ(store->remove_if("bucket", "none", "other").error().code, Code::kNotFound);
  EXPECT_TRUE(store->remove_if("bucket", "k", there->etag));
  EXPECT_FALSE(store->head("bucket", "k"));
}

TEST_F(DirectoryPut, TagsGoWithTheObjectAndChangeWithoutIt) {
  const auto put = put_text(*store, "bucket", "k", "x", {.tags = {{"a b", "1"}, {"empty", ""}}});
  ASSERT_TRUE(put);
  EXPECT_EQ(store->head("bucket", "k")->tags.at("a b"), "1");
  EXPECT_EQ(store->copy("bucket", "k", "bucket", "copy", {})->tags.size(), 2u);
  ASSERT_TRUE(store->set_tags("bucket", "k", {{"new", "\xC3\xA9\n"}}));
  reopen();
  const auto changed = store->head("bucket", "k");
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->tags, (std::map<std::string, std::string>{{"new", "\xC3\xA9\n"}}));
  EXPECT_EQ(changed->last_modified, put->last_modified);
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "x");
  EXPECT_EQ(store->set_tags("bucket", "none", {}).error().subject, "key");
}

TEST_F(DirectoryPut, BucketsKeepSettingsUntilTheyGo) {
  EXPECT_EQ(store->bucket_setting("bucket", "cors").value_or("?"), "");
  ASSERT_TRUE(store->set_bucket_setting("bucket", "cors", "<C/>"));
  reopen();
  EXPECT_EQ(store->bucket_setting("bucket", "cors").value_or("?"), "<C/>");
  ASSERT_TRUE(store->set_bucket_setting("bucket", "cors", ""));
  EXPECT_EQ(store->bucket_setting("bucket", "cors").value_or("?"), "");
  ASSERT_TRUE(store->set_bucket_setting("bucket", "cors", "<D/>"));
  ASSERT_TRUE(store->delete_bucket("bucket"));
  EXPECT_EQ(store->bucket_setting("bucket", "cors").error().subject, "bucket");
  ASSERT_TRUE(store->create_bucket("bucket"));
  EXPECT_EQ(store->bucket_setting("bucket", "cors").value_or("?"), "");
}

// The soft limit lets this process open no more than so many.
struct NoMoreDescriptors {
  explicit NoMoreDescriptors(rlim_t left = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit none = before;
    const Fd lowest(::dup(0));
    none.rlim_cur = static_cast<rlim_t>(lowest.get()) + left;
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before{};
};

TEST_F(DirectoryPut, WithoutFileDescriptorsTheStoreIsUnavailableForAWhile) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "x"));
  {
    const NoMoreDescriptors none;
    EXPECT_EQ(store->get("bucket", "k", {}).error().code, Code::kUnavailable);
    Result<ObjectInfo> put = put_text(*store, "bucket", "0", "x");
    for (int i = 0; i < 200 && put; ++i) {  // those with a name made ahead succeed
      put = put_text(*store, "bucket", std::to_string(i), "x");
    }
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, Code::kUnavailable) << put.error().message;
  }
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "x");
  EXPECT_TRUE(put_text(*store, "bucket", "k", "y"));
}

TEST_F(DirectoryPut, FewFileDescriptorsAreEnough) {
  for (int i = 0; i < 6; ++i) {  // from then on eight names are made at once
    ASSERT_TRUE(put_text(*store, "bucket", std::to_string(i), "x"));
  }
  const NoMoreDescriptors few(3);
  for (int i = 6; i < 20; ++i) {
    const auto put = put_text(*store, "bucket", std::to_string(i), "x");
    EXPECT_TRUE(put) << put.error().message;
  }
}

bool has_thread(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (read_file(task.path() / "comm").value_or("") == name + "\n") {
      return true;
    }
  }
  return false;
}

// A busy store starts one that makes names ahead.
TEST_F(DirectoryPut, GoesOnWithoutAThreadThatTheMachineHasNotToGive) {
  constexpr int kBusy = 200;
  {
    const NoThreads exhausted;
    for (int i = 0; i < kBusy; ++i) {
      const auto put = put_text(*store, "bucket", "k", "x");
      ASSERT_TRUE(put) << put.error().message;
    }
    EXPECT_FALSE(has_thread("blanks"));
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!has_thread("blanks") && std::chrono::steady_clock::now() < until) {
    ASSERT_TRUE(put_text(*store, "bucket", "k", "x"));
  }
  EXPECT_TRUE(has_thread("blanks"));
}

TEST_F(DirectoryPut, TellsWhereTheBytesLie) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "0123456789"));
  const auto reader = store->get("bucket", "k", ByteRange{2, 4});
  ASSERT_TRUE(reader);
  const auto local = (*reader)->local();
  ASSERT_TRUE(local);
  EXPECT_EQ(local->offset, 2u);
  EXPECT_EQ(local->length, 3u);
  std::vector<std::byte> bytes(3);
  EXPECT_EQ(read_at(local->fd, bytes, local->offset).value_or(0), 3u);
  EXPECT_EQ(static_cast<char>(bytes[0]), '2');
}

}  // namespace
}  // namespace trainyard::s3
