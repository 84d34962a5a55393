// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/object_cache.h"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "base/thread.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

std::shared_ptr<const OpenObject> object(const std::string& key, std::uint64_t version = 1) {
  return std::make_shared<const OpenObject>(OpenObject{
      .version = version, .row = {.info = {.key = key, .etag = "e"}, .content = "of " + key}});
}

TEST(ObjectCache, GivesAnObjectOfTheSameVersionOnly) {
  ObjectCache cache(4);
  cache.keep("bucket", object("k", 7));
  ASSERT_NE(cache.find("bucket", "k", 7), nullptr);
  EXPECT_EQ(cache.find("bucket", "k", 7)->row.content, "of k");
  EXPECT_EQ(cache.find("other", "k", 7), nullptr);
  EXPECT_EQ(cache.find("bucket", "K", 7), nullptr);
  EXPECT_EQ(cache.find("bucket", "k", 8), nullptr);
  EXPECT_EQ(cache.find("bucket", "k", 7), nullptr);  // it was of no more use
}

TEST(ObjectCache, HoldsThoseThatAreAskedForAgain) {
  ObjectCache cache(4);
  cache.keep("bucket", object("often"));
  for (int i = 0; i < 100; ++i) {
    cache.keep("bucket", object(std::to_string(i)));
    EXPECT_NE(cache.find("bucket", "often", 1), nullptr);
  }
  std::size_t held = 0;
  for (int i = 0; i < 100; ++i) {
    held += cache.find("bucket", std::to_string(i), 1) != nullptr ? 1 : 0;
  }
  EXPECT_GE(held, 3u);
  EXPECT_LE(held, 8u);
}

TEST(ObjectCache, HoldsNoMoreThanTwiceItsSizeWhateverIsAskedFor) {
  ObjectCache cache(4);
  std::vector<std::weak_ptr<const OpenObject>> given;
  const auto keep_some = [&](int count) {
    for (int i = 0; i < count; ++i) {
      auto next = object(std::to_string(given.size()));
      given.push_back(next);
      cache.keep("bucket", std::move(next));
    }
  };
  keep_some(4);
  for (int round = 0; round < 20; ++round) {
    keep_some(3);
    for (std::size_t i = 0; i < given.size(); ++i) {
      cache.find("bucket", std::to_string(i), 1);
    }
    keep_some(1);
    EXPECT_LE(std::ranges::count_if(given, [](const auto& entry) { return !entry.expired(); }), 8);
  }
  EXPECT_NE(cache.find("bucket", std::to_string(given.size() - 1), 1), nullptr);
}

struct CachedObjects : StoreFixture {
  std::string text(const std::string& key) {
    return get_text(*store, "bucket", key).value_or("none");
  }
};

TEST_F(CachedObjects, AreNeverOlderThanTheLastChange) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(put_text(*store, "bucket", "k", "text " + std::to_string(i)));
    EXPECT_EQ(text("k"), "text " + std::to_string(i));
    EXPECT_EQ(text("k"), "text " + std::to_string(i));
  }
  ASSERT_TRUE(store->set_tags("bucket", "k", {{"a", "1"}}));
  EXPECT_EQ(store->get("bucket", "k", {}).value()->info().tags.at("a"), "1");
  ASSERT_TRUE(store->remove("bucket", "k"));
  EXPECT_EQ(text("k"), "none");
  ASSERT_TRUE(store->delete_bucket("bucket"));
  EXPECT_EQ(store->get("bucket", "k", {}).error().subject, "bucket");
}

TEST_F(CachedObjects, AreNotOpenedAgain) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "text"));
  ASSERT_TRUE(store->create_bucket("another"));  // no put is unsettled any more
  const auto first = store->get("bucket", "k", {});
  const auto second = store->get("bucket", "k", ByteRange{1, 2});
  ASSERT_TRUE(first && second);
  EXPECT_EQ((*first)->local()->fd, (*second)->local()->fd);
  EXPECT_EQ((*second)->local()->offset, 1u);
}

TEST_F(CachedObjects, DoNotHaveLongDescriptions) {
  const std::string half(std::size_t{2} << 10, 'x');
  ASSERT_TRUE(put_text(*store, "bucket", "k", "text", {.headers = {{"x-amz-meta-a", half}}}));
  ASSERT_TRUE(put_text(*store, "bucket", "long", "text",
                       {.headers = {{"x-amz-meta-a", half}}, .tags = {{"t", half}}}));
  ASSERT_TRUE(store->create_bucket("another"));  // no put is unsettled any more
  const auto is_opened_again = [this](const std::string& key) {
    const auto first = store->get("bucket", key, {});
    const auto second = store->get("bucket", key, {});
    return (*first)->local()->fd != (*second)->local()->fd;
  };
  EXPECT_FALSE(is_opened_again("k"));
  EXPECT_TRUE(is_opened_again("long"));
}

// What a reader has seen, it and all others see from then on.
TEST_F(CachedObjects, OfAKeyThatIsWrittenAllTheTimeNeverGoBack) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "100"));
  std::atomic<int> seen = 100;
  std::atomic<int> went_back = 0;
  {
    std::vector<std::jthread> readers;
    for (int r = 0; r < 3; ++r) {
      readers.push_back(start_thread("read", [&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          const int before = seen;
          const int now = std::stoi(text("k"));
          went_back += now < before ? 1 : 0;
          for (int old = seen; old < now && !seen.compare_exchange_weak(old, now);) {
          }
        }
      }));
    }
    for (int i = 101; i < 300; ++i) {
      ASSERT_TRUE(put_text(*store, "bucket", "k", std::to_string(i)));
    }
  }
  EXPECT_EQ(went_back, 0);
}

}  // namespace
}  // namespace trainyard::s3
