// SPDX-License-Identifier: Apache-2.0
// Index files of other programs, and damaged ones.
#include <gtest/gtest.h>

#include "s3/directory/index.h"

namespace trainyard::s3 {
namespace {

struct IndexOpen : testing::Test {
  void SetUp() override { ASSERT_TRUE((*Index::open(file))->add_bucket({.name = "bucket"})); }
  void run(const std::string& script) {
    auto connection = *Connection::open(file, sql::Access::kWrite);
    ASSERT_TRUE(connection.execute(script));
  }

  TempDir folder = *TempDir::make();
  Path file = folder.path() / "index.db";
};

TEST_F(IndexOpen, OneOfBeforeIndicesHadVersionsIsKept) {
  run("PRAGMA user_version = 0");
  const auto index = Index::open(file);
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_TRUE((*index)->require_bucket("bucket"));
  EXPECT_TRUE((*index)->add_bucket({.name = "another"}));
}

TEST_F(IndexOpen, OneOfANewerProgramIsRefused) {
  run("PRAGMA user_version = 99");
  const auto index = Index::open(file);
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code, Code::kUnimplemented);
}

TEST_F(IndexOpen, ADamagedOneIsRefused) {
  run("PRAGMA journal_mode = DELETE");
  std::string bytes = *read_file(file);
  ASSERT_GT(bytes.size(), std::size_t{3 * 4096});
  std::fill_n(bytes.begin() + 2 * 4096, 64, '\xff');
  ASSERT_TRUE(write_file(file, bytes, 0600));
  const auto index = Index::open(file);
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace trainyard::s3
