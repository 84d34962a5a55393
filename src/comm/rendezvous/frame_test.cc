// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Frame, ComesBackWhateverThePiecesItArrivesIn) {
  const std::string bytes =
      encode_frame({"set", std::string("a\0b", 3), ""}) + encode_frame({}) + encode_frame({"x"});
  FrameReader reader;
  std::vector<Fields> seen;
  for (const char byte : bytes) {
    reader.feed(std::string_view(&byte, 1));
    auto next = reader.next();
    ASSERT_TRUE(next);
    if (std::optional<Fields> fields = *std::move(next)) {
      seen.push_back(*std::move(fields));
    }
  }
  EXPECT_THAT(seen, ElementsAre(Fields{"set", std::string("a\0b", 3), ""}, Fields{}, Fields{"x"}));
}

TEST(Frame, RefusesGarbageAtItsFirstByte) {
  FrameReader reader;
  reader.feed("GET / HTTP/1.1\r\n");
  EXPECT_EQ(reader.next().error().code, Code::kCorrupt);
}

TEST(Frame, NamesBothVersions) {
  FrameReader reader;
  reader.feed(encode_frame({"hello"}, 7));
  const auto next = reader.next();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Code::kConflict);
  EXPECT_THAT(next.error().message, HasSubstr("version 7"));
  EXPECT_THAT(next.error().message, HasSubstr("version 2"));
}

TEST(Frame, RefusesALengthThatNobodySends) {
  FrameReader reader;
  reader.feed(std::string("TYC\x02\xff\xff\xff\xff", 8));
  EXPECT_EQ(reader.next().error().code, Code::kCorrupt);
}

TEST(Frame, IsNoLongerThanTheReaderAllows) {
  const std::string frame = encode_frame({std::string(100, 'x')});
  FrameReader reader(50);
  reader.feed(frame.substr(0, 8));
  EXPECT_EQ(reader.next().error().code, Code::kCorrupt);
  reader.allow(200);
  reader.feed(frame.substr(8));
  EXPECT_THAT(reader.next()->value_or(Fields{}), ElementsAre(testing::SizeIs(100)));
}

TEST(Frame, RefusesAFieldBeyondItsMessage) {
  FrameReader reader;
  reader.feed(std::string("TYC\x02\x05\0\0\0\x09\0\0\0x", 13));
  EXPECT_EQ(reader.next().error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace trainyard::comm
