// SPDX-License-Identifier: Apache-2.0
// The pure parts of the load client. A client that overlooks a wrong answer makes every figure of a
// bench worthless, so most of these tests hand it one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/hash.h"
#include "bench/load/answer.h"
#include "bench/load/content.h"
#include "bench/load/histogram.h"
#include "bench/load/plan.h"
#include "bench/load/work.h"
#include "http/sigv4.h"

namespace trainyard::load {
namespace {

using std::chrono::nanoseconds;
using testing::HasSubstr;

TEST(Histogram, GivesPercentilesThatAreAtMostOneBucketTooHigh) {
  Histogram histogram;
  for (int i = 1; i <= 100'000; ++i) {
    histogram.add(nanoseconds(i * 1'000));
  }
  EXPECT_EQ(histogram.count(), 100'000U);
  EXPECT_EQ(histogram.largest(), nanoseconds(100'000'000));
  EXPECT_EQ(histogram.mean(), nanoseconds(50'000'500));
  for (const double share : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = share * 1e8;
    const auto found = static_cast<double>(histogram.percentile(share).count());
    EXPECT_GE(found, exact);
    EXPECT_LE(found, exact * 1.016);
  }
}

TEST(Histogram, IsExactForSmallValuesAndTheLargest) {
  Histogram histogram;
  EXPECT_EQ(histogram.percentile(0.5), nanoseconds(0));
  histogram.add(nanoseconds(-5));
  histogram.add(nanoseconds(127));
  histogram.add(nanoseconds::max());
  EXPECT_EQ(histogram.percentile(0.3), nanoseconds(0));
  EXPECT_EQ(histogram.percentile(0.6), nanoseconds(127));
  EXPECT_EQ(histogram.percentile(1), nanoseconds::max());
}

TEST(Content, FollowsFromItsNumber) {
  EXPECT_EQ(make_content(3, 1'001), make_content(3, 1'001));
  EXPECT_EQ(make_content(3, 1'001), make_content(3, 2'000).substr(0, 1'001));
  EXPECT_NE(make_content(3, 1'001), make_content(4, 1'001));
  const auto contents = make_contents(2, 100, true);
  EXPECT_EQ(contents[1].bytes, make_content(1, 100));
  EXPECT_EQ(contents[1].sha256, sha256_hex(make_content(1, 100)));
}

TEST(Fill, PutsNumbersWordsAndTokensIn) {
  EXPECT_EQ(fill("/b/{n}?{s}{token}&{x}{", {.number = 7, .word = "w", .token = "&t=1"}),
            "/b/000000007?w&t=1&{x}{");
}

TEST(Plan, SaysWhatIsWrongWithIt) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"({)", ""},
      {R"({"port": 1, "requests": 1, "conns": 3})", "plan.conns is unknown"},
      {R"({"port": 1, "requests": -1})", "plan.requests: must be a number from 0"},
      {R"({"port": 1, "requests": 1, "sign": {"access_key_id": 3}})", "sign.access_key_id"},
      {R"({"port": 1})", "must bound the run"},
      {R"({"requests": 1})", "plan.port is missing"},
      {R"({"port": 1, "requests": 1, "connections": 30000})", "plan.connections must be 1 to"},
      {R"({"port": 1, "requests": 1, "connections": 2, "words": ["a"]})", "one for each"},
      {R"({"port": 1, "pages": {"item_begin": "<"}})", "plan.pages needs"},
      {R"({"port": 1, "requests": 1, "content": {"bytes": 1, "distinct": 0}})", "distinct"}};
  for (const auto& [text, message] : wrong) {
    const auto plan = parse_plan(text);
    ASSERT_FALSE(plan) << text;
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument) << text;
    EXPECT_THAT(plan.error().message, HasSubstr(message));
  }
}

TEST(AnswerReader, TakesAnAnswerInPiecesOfAnySize) {
  const std::string bytes =
      "HTTP/1.1 200 OK\r\ncontent-length:  5\r\nConnection: close\r\n\r\nhello";
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    AnswerReader reader(true);
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      EXPECT_FALSE(reader.is_done());
      ASSERT_TRUE(reader.feed(std::string_view(bytes).substr(at, size)));
    }
    ASSERT_TRUE(reader.is_done());
    EXPECT_EQ(reader.answer().status, 200);
    EXPECT_EQ(reader.answer().text, "hello");
    EXPECT_TRUE(reader.answer().closes);
    EXPECT_EQ(reader.answer().checksum, crc32c(std::as_bytes(std::span("hello", 5))));
  }
}

TEST(AnswerReader, RefusesWhatItCannotFrame) {
  for (const std::string bytes :
       {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nwhat\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n22"}) {
    AnswerReader reader;
    const auto fed = reader.feed(bytes);
    ASSERT_FALSE(fed) << bytes;
    EXPECT_EQ(fed.error().code, Code::kCorrupt);
  }
  AnswerReader endless;
  EXPECT_FALSE(endless.feed(std::string(std::size_t{1} << 20, 'a')));
}

// A plan that would go to nobody.
Plan plan_of(RequestPlan request) {
  return {.port = 1, .requests = 1, .request = std::move(request)};
}

TEST(Work, SignsAsTheServerVerifies) {
  Plan plan = plan_of({.method = "PUT", .path = "/b/k-{n}", .query = "x=1"});
  plan.credentials = http::Credentials{.access_key_id = "K", .secret_access_key = "S"};
  const WallTime now = SystemClock().now();
  const std::string head = make_head(plan, {.number = 5}, {3, sha256_hex("abc")}, now);
  EXPECT_THAT(head, testing::StartsWith("PUT /b/k-000000005?x=1 HTTP/1.1\r\n"));
  EXPECT_THAT(head, testing::EndsWith("Content-Length: 3\r\n\r\n"));
  http::Request request{.method = "PUT", .path = "/b/k-000000005", .query = "x=1"};
  std::istringstream lines(head);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.size() > 1) {
    const std::size_t colon = line.find(':');
    request.headers.add(line.substr(0, colon), line.substr(colon + 2, line.size() - colon - 3));
  }
  const auto known = [](std::string_view) { return http::KnownKey{.secret_access_key = "S"}; };
  EXPECT_TRUE(std::holds_alternative<http::Verified>(http::verify(request, "", known, now)));
}

TEST(Work, PreparesARequestOnceWhileItComesAgain) {
  const SystemClock clock;
  const auto same = make_work(plan_of({.path = "/{n}", .modulo = 2}), clock);
  const auto first = same->next(0);
  const auto second = same->next(0);
  const auto third = same->next(0);
  EXPECT_EQ((*first)->request, (*third)->request);
  EXPECT_NE((*first)->request, (*second)->request);
  const auto other = make_work(plan_of({.path = "/{n}", .first = 40}), clock);
  EXPECT_EQ((*other->next(0))->path, "/000000040");
  EXPECT_EQ((*other->next(0))->path, "/000000041");
}

TEST(Work, SeesWrongAnswers) {
  const SystemClock clock;
  Plan plan = plan_of({.path = "/{n}", .modulo = 2});
  plan.content = ContentPlan{.bytes = 10, .distinct = 2};
  const auto work = make_work(plan, clock);
  const Next asked = **work->next(0);
  const auto contents = make_contents(2, 10, false);
  const Answer right{.status = 200, .length = 10, .checksum = contents[0].checksum};
  EXPECT_TRUE(work->check(0, asked, right));
  EXPECT_FALSE(work->check(0, asked, {.status = 206, .length = 10, .checksum = right.checksum}));
  EXPECT_FALSE(work->check(0, asked, {.status = 200, .length = 9, .checksum = right.checksum}));
  EXPECT_FALSE(
      work->check(0, asked, {.status = 200, .length = 10, .checksum = contents[1].checksum}));
}

TEST(Work, ComparesAnswersWithWordsAndWithTheFirst) {
  const SystemClock clock;
  Plan plan = plan_of({.modulo = 1});
  plan.expect = {.contains = {"\"a\""}, .same = true};
  const auto work = make_work(plan, clock);
  const Next asked = **work->next(0);
  EXPECT_FALSE(work->check(0, asked, {.status = 200, .length = 1, .checksum = 1, .text = "a"}));
  EXPECT_TRUE(work->check(0, asked, {.status = 200, .length = 3, .checksum = 2, .text = "\"a\""}));
  EXPECT_TRUE(work->check(0, asked, {.status = 200, .length = 3, .checksum = 2, .text = "\"a\""}));
  EXPECT_FALSE(work->check(0, asked, {.status = 200, .length = 3, .checksum = 9, .text = "\"a\""}));
}

Plan listing(std::uint64_t items) {
  Plan plan = plan_of({.path = "/b", .query = "list-type=2{token}"});
  plan.pages = PagesPlan{.item_begin = "<Key>",
                         .item_end = "</Key>",
                         .item = "k-{n}",
                         .token_begin = "<Token>",
                         .token_end = "</Token>",
                         .token_prefix = "&token=",
                         .items = items};
  return plan;
}

Answer page(std::string text) {
  return {.status = 200, .text = std::move(text)};
}

TEST(Pages, FollowsTokensToTheEnd) {
  const SystemClock clock;
  const auto work = make_work(listing(3), clock);
  Next asked = **work->next(0);
  EXPECT_THAT(asked.request->head, HasSubstr("GET /b?list-type=2 "));
  ASSERT_TRUE(work->check(0, asked,
                          page("<Key>k-000000000</Key><Key>k-000000001</Key><Token>a/b+</Token>")));
  asked = **work->next(0);
  EXPECT_THAT(asked.request->head, HasSubstr("GET /b?list-type=2&token=a%2Fb%2B "));
  ASSERT_TRUE(work->check(0, asked, page("<Key>k-000000002</Key>")));
  EXPECT_FALSE(*work->next(0));
  EXPECT_EQ(work->items(), 3U);
}

TEST(Pages, SeesWhatIsLostDoubledOrMixedUp) {
  const SystemClock clock;
  for (const std::string text :
       {"<Key>k-000000001</Key>", "<Key>k-000000000</Key><Key>k-000000000</Key><Token>t</Token>",
        "<Key>k-0000000000</Key>", "<Key>k-000000000</Key>", "<Token>t</Token>",
        "<Key>k-000000000</Key><Key>k-000000001</Key><Key>k-000000002</Key>"}) {
    const auto work = make_work(listing(2), clock);
    const Next asked = **work->next(0);
    EXPECT_FALSE(work->check(0, asked, page(text))) << text;
    EXPECT_FALSE(*work->next(0)) << "it goes on after " << text;
  }
}

TEST(Pages, MeasuresHowLateALineIsSeen) {
  const SystemClock clock;
  Plan plan = listing(2);
  plan.request.body = R"({"a":1{token}})";
  plan.pages->token_prefix = R"(,"next":")";
  plan.pages->token_suffix = R"(")";
  plan.pages->item = "line {n} at ";
  plan.pages->is_timed = true;
  plan.pages->pause = Duration(50);
  const auto work = make_work(plan, clock);
  Next asked = **work->next(0);
  ASSERT_TRUE(work->check(0, asked, page("<Token>t</Token>"))) << "nothing is there yet";
  asked = **work->next(0);
  EXPECT_EQ(asked.after, Duration(50));
  EXPECT_EQ(asked.request->body(), R"({"a":1,"next":"t"})");
  const double then = to_epoch_seconds(clock.now()) - 2;
  const std::string at = std::to_string(then);
  EXPECT_TRUE(
      work->check(0, asked,
                  page("<Key>line 000000000 at " + at + " more</Key><Key>line 000000001 at " + at +
                       "</Key><Token>t</Token>")));
  EXPECT_FALSE(*work->next(0)) << "all lines have been seen";
  EXPECT_EQ(work->lags()->count(), 2U);
  EXPECT_NEAR(static_cast<double>(work->lags()->largest().count()) / 1e9, 2, 0.5);
}

}  // namespace
}  // namespace trainyard::load
