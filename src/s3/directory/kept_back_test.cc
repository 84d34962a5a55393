// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/kept_back.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

struct WhileCopied : StoreFixture {
  Fd pin() const {
    Fd pins = *open_file(folder.path() / "store" / kPinsFile, O_RDONLY);
    EXPECT_TRUE(pin_contents(pins));
    return pins;
  }
  void replace(const std::string& key, int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(put_text(*store, "bucket", key, std::to_string(i)));
    }
  }
};

TEST_F(WhileCopied, WhatIsReplacedOrDeletedStaysOnTheDisk) {
  replace("k", 1);
  replace("gone", 1);
  const Fd copying = pin();
  replace("k", 2);
  ASSERT_TRUE(store->remove("bucket", "gone"));
  EXPECT_EQ(content_files(), 4u);
  EXPECT_EQ(store->collect_kept(), 0u);
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "1");
  EXPECT_FALSE(get_text(*store, "bucket", "gone"));
}

TEST_F(WhileCopied, EveryOneOfSeveralCopiesCounts) {
  replace("k", 1);
  Fd first = pin();
  Fd second = pin();
  first.reset();
  replace("k", 1);
  EXPECT_EQ(content_files(), 2u);
  second.reset();
  EXPECT_EQ(store->collect_kept(), 1u);
  EXPECT_EQ(content_files(), 1u);
}

// More with each than one lets go.
TEST_F(WhileCopied, ItGoesWithTheNextChangesOnceTheCopyIsDone) {
  Fd copying = pin();
  replace("k", 21);
  copying.reset();
  EXPECT_EQ(content_files(), 21u);
  replace("other", 3);
  EXPECT_EQ(content_files(), 2u);
}

TEST_F(WhileCopied, AStartOfTheStoreKeepsItToo) {
  replace("k", 1);
  Fd copying = pin();
  replace("k", 1);
  reopen();
  EXPECT_EQ(content_files(), 2u);
  copying.reset();
  reopen();
  EXPECT_EQ(content_files(), 1u);
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "0");
}

}  // namespace
}  // namespace trainyard::s3
