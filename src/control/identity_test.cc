// SPDX-License-Identifier: Apache-2.0
#include "control/identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "control/tables/schema.h"
#include "testing/fake_clock.h"

namespace trainyard::control {
namespace {

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() { reopen(); }

  void reopen() {
    identity_.reset();
    database_.reset();
    database_ = std::move(*Database::open(home_.path() / "trainyard.db", schema_migrations()));
    identity_ =
        std::move(*Identity::open(*database_, clock_, random_, "123456789012", credentials()));
  }
  Path credentials() const { return home_.path() / "credentials"; }

  const JobRole role_{.job = "demo", .role_arn = "arn:aws:iam::123456789012:role/team/Demo"};
  TempDir home_ = *TempDir::make();
  testing::FakeClock clock_;
  SeededRandom random_{7};
  std::unique_ptr<Database> database_;
  std::unique_ptr<Identity> identity_;
};

TEST_F(IdentityTest, MakesOneKeyAndKeepsIt) {
  const AccessKey key = identity_->root();
  EXPECT_EQ(key.access_key_id.size(), 20u);
  EXPECT_EQ(key.access_key_id.substr(0, 4), "AKIA");
  EXPECT_EQ(key.secret_access_key.size(), 40u);
  reopen();
  EXPECT_EQ(identity_->root().access_key_id, key.access_key_id);
  EXPECT_EQ(identity_->find(key.access_key_id).value_or(AccessKey()).secret_access_key,
            key.secret_access_key);
}

TEST_F(IdentityTest, WritesTheKeyForItsOwnerOnly) {
  const std::string text = *read_file(credentials());
  EXPECT_EQ(text, "[default]\naws_access_key_id = " + identity_->root().access_key_id +
                      "\naws_secret_access_key = " + identity_->root().secret_access_key + "\n");
  struct stat status {};
  ASSERT_EQ(stat(credentials().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(IdentityTest, KnowsNoOtherKey) {
  EXPECT_FALSE(identity_->find("AKIAAAAAAAAAAAAAAAAA"));
}

TEST_F(IdentityTest, GivesAJobTemporaryKeysOfItsRole) {
  const AccessKey key = *identity_->key_for_job(role_);
  EXPECT_EQ(key.access_key_id.substr(0, 4), "ASIA");
  EXPECT_FALSE(key.session_token.empty());
  EXPECT_EQ(key.arn, "arn:aws:sts::123456789012:assumed-role/Demo/SageMaker");
  EXPECT_EQ(key.expires.value_or(WallTime()), clock_.now() + std::chrono::hours(1));
}

TEST_F(IdentityTest, RenewsAKeyBeforeItEndsAndKeepsTheOldOneValid) {
  const AccessKey first = *identity_->key_for_job(role_);
  EXPECT_EQ(identity_->key_for_job(role_)->access_key_id, first.access_key_id);
  clock_.advance(std::chrono::minutes(31));
  EXPECT_NE(identity_->key_for_job(role_)->access_key_id, first.access_key_id);
  EXPECT_TRUE(identity_->find(first.access_key_id));
}

TEST_F(IdentityTest, KnowsKeysThatRanOutUntilTheirAttemptEnds) {
  const AccessKey first = *identity_->key_for_job(role_);
  clock_.advance(std::chrono::hours(3));
  ASSERT_TRUE(identity_->key_for_job({.job = "other", .role_arn = role_.role_arn}));
  EXPECT_FALSE(identity_->is_revoked(first.access_key_id));
  reopen();
  EXPECT_TRUE(identity_->find(first.access_key_id));
  ASSERT_TRUE(identity_->revoke("demo", 1));
  EXPECT_FALSE(identity_->find(first.access_key_id));
}

TEST_F(IdentityTest, TellsARevokedKeyOfAJobFromAllOthers) {
  const AccessKey key = *identity_->key_for_job(role_);
  EXPECT_FALSE(identity_->is_revoked(key.access_key_id));
  ASSERT_TRUE(identity_->revoke("demo", 1));
  EXPECT_TRUE(identity_->is_revoked(key.access_key_id));
  EXPECT_FALSE(identity_->is_revoked(identity_->root().access_key_id));
  EXPECT_FALSE(identity_->is_revoked("AKIAAAAAAAAAAAAAAAAA"));
  EXPECT_FALSE(identity_->is_revoked(""));
}

TEST_F(IdentityTest, RevokesAJobsKeysForGood) {
  const AccessKey key = *identity_->key_for_job(role_);
  ASSERT_TRUE(identity_->revoke("demo", 1));
  EXPECT_FALSE(identity_->find(key.access_key_id));
  reopen();
  EXPECT_FALSE(identity_->find(key.access_key_id));
  EXPECT_TRUE(identity_->find(identity_->root().access_key_id));
}

TEST_F(IdentityTest, GivesEachAttemptKeysOfItsOwn) {
  JobRole next = role_;
  next.epoch = 2;
  const AccessKey old = *identity_->key_for_job(role_);
  const AccessKey key = *identity_->key_for_job(next);
  EXPECT_NE(key.access_key_id, old.access_key_id);
  ASSERT_TRUE(identity_->revoke("demo", 1));
  reopen();
  EXPECT_FALSE(identity_->find(old.access_key_id));
  EXPECT_TRUE(identity_->find(key.access_key_id));
  EXPECT_EQ(identity_->key_for_job(next)->access_key_id, key.access_key_id);
}

TEST_F(IdentityTest, RevokesTheKeysOfAttemptsThatNoLongerRun) {
  const AccessKey demo = *identity_->key_for_job(role_);
  const AccessKey other = *identity_->key_for_job({.job = "other", .role_arn = role_.role_arn});
  ASSERT_TRUE(
      identity_->revoke_all_but([](const std::string& job, int) { return job == "other"; }));
  EXPECT_FALSE(identity_->find(demo.access_key_id));
  EXPECT_TRUE(identity_->find(other.access_key_id));
  ASSERT_TRUE(identity_->revoke_all_but([](const std::string&, int epoch) { return epoch == 2; }));
  EXPECT_FALSE(identity_->find(other.access_key_id));
}

}  // namespace
}  // namespace trainyard::control
