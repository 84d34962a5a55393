// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/unsettled.h"

#include <optional>

#include <gtest/gtest.h>

#include "base/thread.h"

namespace trainyard::s3 {
namespace {

TEST(Unsettled, NobodyWaitsForWhatIsSettled) {
  Unsettled all;
  EXPECT_FALSE(all.wait_for("a"));
  const Unsettled::Mark mark(all, "other");
  EXPECT_FALSE(all.wait_for("a"));
}

TEST(Unsettled, WhoFindsAContentWaitsUntilItIs) {
  Unsettled all;
  std::optional<Unsettled::Mark> mark;
  mark.emplace(all, "a");
  std::atomic<bool> is_released = false;
  std::atomic<int> waited{0};
  {
    const auto reader = start_thread("reader", [&](const std::stop_token&) {
      // Either it saw the mark and waited, or it came after its end.
      const bool had_to_wait = all.wait_for("a");
      waited = had_to_wait && !is_released ? 0 : 1;
    });
    is_released = true;
    mark.reset();
  }
  EXPECT_EQ(waited, 1);
  EXPECT_FALSE(all.wait_for("a"));
}

}  // namespace
}  // namespace trainyard::s3
