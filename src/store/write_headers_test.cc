// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "testing/s3_server.h"

namespace trainyard::store {
namespace {

struct WriteHeaders : S3ServerTest {};

TEST_F(WriteHeaders, HoldAtMostTwoKibibytesOfMetadata) {
  const std::string most(2048 - 4, 'm');  // beside the names "a" and "bcd"
  const auto put = [&](const std::string& value) {
    return outcome(
        send("PUT", "/bucket/k", "", "x",
             {{"x-amz-meta-a", value}, {"x-amz-meta-bcd", ""}, {"Cache-Control", most}}));
  };
  EXPECT_EQ(put(most), "200");
  EXPECT_EQ(put(most + "m"), "400 MetadataTooLarge");
  EXPECT_EQ(store->head("bucket", "k")->headers.at("x-amz-meta-a"), most);
}

}  // namespace
}  // namespace trainyard::store
