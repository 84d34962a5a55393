// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/internal/response_head.h"
#include "http/internal/url.h"

namespace trainyard::http {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

TEST(Headers, AreFoundWithoutRegardToCase) {
  Headers headers;
  headers.add("Content-Type", "text/plain");
  EXPECT_EQ(headers.get("content-TYPE"), "text/plain");
  EXPECT_EQ(headers.get("missing", "otherwise"), "otherwise");
  EXPECT_EQ(headers.find("missing"), nullptr);
}

TEST(Headers, SetReplacesEveryFieldOfThatName) {
  Headers headers;
  headers.add("a", "1");
  headers.add("b", "2");
  headers.add("A", "3");
  headers.set("a", "4");
  headers.set("c", "5");
  EXPECT_THAT(headers.fields(), ElementsAre(Pair("a", "4"), Pair("b", "2"), Pair("c", "5")));
  headers.remove("A");
  EXPECT_THAT(headers.fields(), ElementsAre(Pair("b", "2"), Pair("c", "5")));
}

TEST(ParseQuery, DecodesPairsInOrder) {
  const auto pairs = parse_query("a&b=&c=1%2F2&=x&&d=e=f&+=%2B");
  ASSERT_TRUE(pairs);
  EXPECT_THAT(*pairs, ElementsAre(Pair("a", ""), Pair("b", ""), Pair("c", "1/2"), Pair("", "x"),
                                  Pair("d", "e=f"), Pair("+", "+")));
}

TEST(ParseQuery, RefusesMalformedEscapes) {
  EXPECT_EQ(parse_query("a=%zz").error().code, Code::kInvalidArgument);
  EXPECT_EQ(parse_query("%4").error().code, Code::kInvalidArgument);
}

TEST(ResponseHead, NoValueEndsItsLine) {
  Headers headers;
  headers.add("x-note", "a\r\nSet-Cookie: b");
  const std::string head = response_head(200, headers, {.length = 0}, WallTime{});
  EXPECT_THAT(head, HasSubstr("x-note: a  Set-Cookie: b\r\n"));
}

TEST(ResponseHead, WritesItsOwnFramingFields) {
  Headers headers;
  headers.add("content-length", "99");
  headers.add("Connection", "upgrade");
  const std::string head =
      response_head(404, headers, {.length = 3, .keeps_alive = false}, WallTime{});
  EXPECT_THAT(head, testing::StartsWith("HTTP/1.1 404 Not Found\r\nDate: Thu, 01 Jan 1970 "));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("99")));
  EXPECT_THAT(head, Not(HasSubstr("upgrade")));
}

TEST(ResponseHead, AnAnswerWithoutBodyHasNoLength) {
  EXPECT_THAT(response_head(204, {}, {.length = 0}, WallTime{}), Not(HasSubstr("Content-Length")));
}

class PrivateHosts : public testing::TestWithParam<std::pair<const char*, bool>> {};

TEST_P(PrivateHosts, AreToldFromPublicOnes) {
  const auto host = host_of(GetParam().first);
  ASSERT_TRUE(host);
  EXPECT_EQ(host->is_private, GetParam().second);
}

INSTANTIATE_TEST_SUITE_P(
    Urls, PrivateHosts,
    testing::Values(std::pair("http://127.0.0.1:80/a", true), std::pair("http://localhost", true),
                    std::pair("https://10.1.2.3/?q", true), std::pair("http://172.16.0.1", true),
                    std::pair("http://172.32.0.1", false), std::pair("http://192.168.1.1", true),
                    std::pair("http://169.254.170.2/creds", true),
                    std::pair("http://[::1]:8", true), std::pair("http://[fd00::1]/", true),
                    std::pair("http://11.0.0.1", false), std::pair("http://user@10.0.0.1/", true),
                    std::pair("http://10.0.0.1.example.com/", false)));

TEST(HostOf, RefusesOtherSchemes) {
  EXPECT_FALSE(host_of("file:///etc/passwd"));
  EXPECT_FALSE(host_of("no url"));
  EXPECT_FALSE(host_of("http:///path"));
}

}  // namespace
}  // namespace trainyard::http
