// SPDX-License-Identifier: Apache-2.0
#include "instance/link/outbox.h"

#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

class OutboxTest : public testing::Test {
 protected:
  TempDir directory_ = *TempDir::make();
  Outbox outbox_{directory_.path() / "spool", 100};
};

TEST_F(OutboxTest, SendsAgainUntilAcknowledged) {
  EXPECT_EQ(outbox_.batch(1000), "[]");
  outbox_.push(1, "{\"seq\":1}", true);
  outbox_.push(2, "{\"seq\":2}", true);
  EXPECT_EQ(outbox_.batch(1000), "[{\"seq\":1},{\"seq\":2}]");
  EXPECT_EQ(outbox_.batch(1000), "[{\"seq\":1},{\"seq\":2}]");
  outbox_.acknowledge(1);
  EXPECT_EQ(outbox_.batch(1000), "[{\"seq\":2}]");
  outbox_.acknowledge(2);
  EXPECT_TRUE(outbox_.is_empty());
}

TEST_F(OutboxTest, GivesAtLeastOneHoweverLarge) {
  outbox_.push(1, std::string(90, '1'), true);
  outbox_.push(2, "2", true);
  EXPECT_EQ(outbox_.batch(10), "[" + std::string(90, '1') + "]");
}

TEST_F(OutboxTest, BringsWhatWentToDiskBackInOrder) {
  for (int seq = 1; seq <= 50; ++seq) {
    ASSERT_TRUE(outbox_.push(seq, std::to_string(1000 + seq).append(16, '.'), seq % 2 == 0));
  }
  EXPECT_LE(outbox_.batch(100'000).size(), 120u) << "memory holds no more than its limit";
  for (int seq = 1; seq <= 50; ++seq) {
    EXPECT_EQ(outbox_.batch(1).substr(1, 4), std::to_string(1000 + seq));
    outbox_.acknowledge(seq);
  }
  EXPECT_TRUE(outbox_.is_empty());
  EXPECT_EQ(std::filesystem::file_size(directory_.path() / "spool"), 0u);
  outbox_.push(51, "again", true);
  EXPECT_EQ(outbox_.batch(10), "[again]");
}

TEST(Outbox, KeepsFactsAndLosesLinesWhenTheDiskFails) {
  Outbox outbox("/no/such/directory/spool", 10);
  EXPECT_TRUE(outbox.push(1, "12345678", true));
  EXPECT_FALSE(outbox.push(2, "lines", false));
  EXPECT_TRUE(outbox.push(2, "fact", true));
  EXPECT_EQ(outbox.batch(100), "[12345678,fact]");
}

}  // namespace
}  // namespace trainyard::instance
