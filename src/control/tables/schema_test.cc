// SPDX-License-Identifier: Apache-2.0
#include "control/tables/schema.h"

#include <gtest/gtest.h>

#include "control/tables/database.h"

namespace trainyard::control {
namespace {

TEST(Schema, MakesADatabaseThatHasNothingToCopy) {
  const TempDir folder = *TempDir::make();
  const auto database = Database::open(folder.path() / "test.db", schema_migrations());
  ASSERT_TRUE(database) << database.error().message;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().string().find("version"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace trainyard::control
