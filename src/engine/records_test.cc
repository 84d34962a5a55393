// SPDX-License-Identifier: Apache-2.0
#include "engine/records.h"

#include <gmock/gmock.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const control::GangId kId{.job = "job-1", .epoch = 2};

GangRecord gang_record() {
  return {.id = kId,
          .network = {.tag = "1a2b3c",
                      .subnet = {.address = 0x0a4d0300, .length = 24},
                      .instances = 2,
                      .isolated = true},
          .boot = "some-boot",
          .server_url = "http://10.77.3.254:4321"};
}

class RecordsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(directory_); }

  Result<TempDir> directory_ = TempDir::make();
  Records records_{directory_->path()};
};

TEST_F(RecordsTest, GiveBackWhatWasWritten) {
  const InstanceRecord instance{
      .host = "algo-1", .process = {.pid = 12, .start_time = 1U << 31}, .epoch = 4};
  ASSERT_TRUE(records_.write(gang_record()));
  ASSERT_TRUE(records_.write(kId, instance));
  EXPECT_THAT(records_.gangs(), ElementsAre(gang_record()));
  EXPECT_THAT(records_.instances(kId), ElementsAre(instance));
}

TEST_F(RecordsTest, OfTheVersionBeforeBelongToTheAttemptOfTheirGang) {
  ASSERT_TRUE(records_.write(gang_record()));
  ASSERT_TRUE(write_file(records_.gang_directory(kId) / "algo-1.json",
                         R"({"host": "algo-1", "pid": 12, "start_time": 34})"));
  EXPECT_THAT(records_.instances(kId),
              ElementsAre(InstanceRecord{
                  .host = "algo-1", .process = {.pid = 12, .start_time = 34}, .epoch = kId.epoch}));
}

TEST_F(RecordsTest, PassOverWhatIsDamaged) {
  GangRecord other = gang_record();
  other.id = {.job = "job-2", .epoch = 1};
  ASSERT_TRUE(records_.write(gang_record()));
  ASSERT_TRUE(records_.write(other));
  ASSERT_TRUE(write_file(records_.gang_directory(other.id) / "gang.json", "{\"job\": 1"));
  EXPECT_THAT(records_.gangs(), ElementsAre(gang_record()));
}

TEST_F(RecordsTest, OfWhichACrashLeftTheBeginningOrTheEndAreRemoved) {
  const Path run = directory_->path();
  ASSERT_TRUE(make_directories(run / "begun/1"));
  ASSERT_TRUE(write_file(run / "begun/1/.trainyard-abc123", "{"));
  ASSERT_TRUE(make_directories(run / "ended/2"));
  ASSERT_TRUE(make_directories(run / "empty"));
  ASSERT_TRUE(make_directories(run / "strange/1/.trainyard-abc123"));
  EXPECT_THAT(records_.gangs(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(run / "begun"));
  EXPECT_FALSE(std::filesystem::exists(run / "ended"));
  EXPECT_FALSE(std::filesystem::exists(run / "empty"));
  EXPECT_TRUE(std::filesystem::exists(run / "strange/1/.trainyard-abc123"));
}

TEST_F(RecordsTest, PassOverWhatLiesInAnotherGangsPlace) {
  ASSERT_TRUE(records_.write(gang_record()));
  const Path moved = directory_->path() / "job-1" / "3";
  std::filesystem::rename(records_.gang_directory(kId), moved);
  EXPECT_THAT(records_.gangs(), IsEmpty());
}

TEST_F(RecordsTest, AreGoneWithTheirGang) {
  ASSERT_TRUE(records_.write(gang_record()));
  ASSERT_TRUE(records_.write(kId, InstanceRecord{.host = "algo-1", .process = {}}));
  ASSERT_TRUE(make_directories(records_.scratch(kId, "algo-1") / "opt" / "ml"));
  ASSERT_TRUE(records_.remove_gang(kId));
  EXPECT_TRUE(std::filesystem::is_empty(directory_->path()));
  EXPECT_TRUE(records_.remove_gang(kId)) << "again";
}

TEST_F(RecordsTest, OfOneGangStayWhenAnotherOfItsJobGoes) {
  GangRecord next = gang_record();
  next.id.epoch = 3;
  ASSERT_TRUE(records_.write(gang_record()));
  ASSERT_TRUE(records_.write(next));
  ASSERT_TRUE(records_.remove_gang(kId));
  EXPECT_THAT(records_.gangs(), ElementsAre(next));
}

TEST(CheckName, TakesOnlyNamesThatAreSafeAsDirectories) {
  EXPECT_TRUE(check_name("Job-1"));
  EXPECT_TRUE(check_name(std::string(63, 'a')));
  for (const std::string& name : {std::string(), std::string("."), std::string("a/b"),
                                  std::string("a b"), std::string("ä"), std::string(64, 'a')}) {
    EXPECT_FALSE(check_name(name)) << name;
  }
}

}  // namespace
}  // namespace trainyard::engine
