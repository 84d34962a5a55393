// SPDX-License-Identifier: Apache-2.0
#include "comm/health/standing.h"

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

// As operations elsewhere do, on any thread.
TEST(Standing, KeepsTheLatestThatIsCompleteWhateverEndsAfterIt) {
  Standing standing(nullptr, {}, 3);
  standing.note_completed(6);
  standing.note_completed(5);
  EXPECT_EQ(standing.of(3).completed, 6U);
  standing.note_completed(7);
  EXPECT_EQ(standing.of(3).completed, 7U);
}

}  // namespace
}  // namespace trainyard::comm
