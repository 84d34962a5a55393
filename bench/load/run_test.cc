// SPDX-License-Identifier: Apache-2.0
// The load client against real servers of ours on 127.0.0.1, good ones and bad ones.
#include "bench/load/run.h"

#include <atomic>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "bench/load/content.h"
#include "http/server.h"

namespace trainyard::load {
namespace {

using http::Exchange;
using http::Response;
using testing::HasSubstr;

struct Target {
  explicit Target(http::Handler handler)
      : server(*http::Server::start({}, std::move(handler))),
        port(*server->listen("127.0.0.1", 0, "test")) {}
  std::unique_ptr<http::Server> server;
  std::uint16_t port;
};

http::Handler answers(Response response) {
  return [response = std::move(response)](std::unique_ptr<Exchange> exchange) {
    (void)exchange->read_all(std::size_t{8} << 20);
    exchange->respond(response);
  };
}

Report run_of(const Plan& plan) {
  const SystemClock clock;
  auto report = run(plan, clock);
  EXPECT_TRUE(report) << report.error().message;
  return report ? *std::move(report) : Report();
}

Plan plan_for(const Target& target, std::uint64_t requests) {
  return {.port = target.port,
          .connections = 4,
          .requests = requests,
          .answer_timeout = std::chrono::milliseconds(5'000),
          .request = {.path = "/k-{n}", .modulo = 3}};
}

TEST(Run, SendsEveryRequestOnConnectionsThatItKeeps) {
  std::atomic<int> seen = 0;
  const Target target([&](std::unique_ptr<Exchange> exchange) {
    ++seen;
    exchange->respond({.body = exchange->request().path});
  });
  Plan plan = plan_for(target, 100);
  plan.expect.contains = {"/k-00000000"};
  const Report report = run_of(plan);
  EXPECT_EQ(report.requests, 100U);
  EXPECT_EQ(report.failed, 0U);
  EXPECT_EQ(report.connects, 4U);
  EXPECT_EQ(report.latency.count(), 100U);
  EXPECT_EQ(seen, 100);
}

TEST(Run, SendsAndChecksContents) {
  const Target target([](std::unique_ptr<Exchange> exchange) {
    const auto body = exchange->read_all(std::size_t{8} << 20);
    exchange->respond({.body = exchange->request().method == "GET" ? make_content(1, 3'000'000)
                                                                   : std::to_string(body->size())});
  });
  Plan put = plan_for(target, 6);
  put.request.method = "PUT";
  put.content = ContentPlan{.bytes = 3'000'000, .distinct = 3, .is_sent = true};
  put.expect.contains = {"3000000"};
  const Report sent = run_of(put);
  EXPECT_EQ(sent.requests, 6U);
  EXPECT_EQ(sent.bytes_sent, 18'000'000U);

  Plan get = plan_for(target, 6);
  get.content = ContentPlan{.bytes = 3'000'000, .distinct = 3};
  const Report got = run_of(get);
  EXPECT_EQ(got.requests, 2U) << "the server gives content 1 for all three";
  EXPECT_EQ(got.failed, 4U);
  EXPECT_THAT(got.failures.front(), HasSubstr("with checksum"));
}

TEST(Run, CountsWhatIsWrongAndEndsWhenNothingIsRight) {
  const Target target(answers({.status = 503, .body = "busy"}));
  const Report report = run_of(plan_for(target, 1'000'000));
  EXPECT_EQ(report.requests, 0U);
  EXPECT_GE(report.failed, 20U);
  EXPECT_LE(report.failed, 24U);
  EXPECT_EQ(report.failures.size(), 5U);
  EXPECT_THAT(report.failures.front(), HasSubstr("status 503 busy"));
}

TEST(Run, GivesUpOnAnAnswerThatDoesNotCome) {
  std::vector<std::unique_ptr<Exchange>> held;
  std::mutex mutex;
  const Target target([&](std::unique_ptr<Exchange> exchange) {
    const std::scoped_lock lock(mutex);
    held.push_back(std::move(exchange));
  });
  Plan plan = plan_for(target, 1);
  plan.answer_timeout = std::chrono::milliseconds(200);
  const Report report = run_of(plan);
  EXPECT_EQ(report.failed, 1U);
  EXPECT_THAT(report.failures.front(), HasSubstr("within the time-out"));
  held.clear();
}

TEST(Run, ReconnectsWhereTheServerCloses) {
  const Target target(answers({.body = "x"}));
  Plan plan = plan_for(target, 20);
  plan.request.headers = {{"Connection", "close"}};  // the server does as it is asked
  const Report report = run_of(plan);
  EXPECT_EQ(report.requests, 20U);
  EXPECT_EQ(report.failed, 0U);
  EXPECT_GE(report.connects, 20U);
}

TEST(Run, ToldOfAServerThatDiesListsWhatWasAcknowledged) {
  std::atomic<int> seen = 0;
  auto server = *http::Server::start({}, [&](std::unique_ptr<Exchange> exchange) {
    if (++seen <= 10) {
      exchange->respond({});
    }  // else it is dropped: answered with 500
  });
  Plan plan{.port = *server->listen("127.0.0.1", 0, "test"),
            .connections = 1,
            .requests = 100,
            .request = {.path = "/{n}", .first = 7},
            .lists_acknowledged = true};
  const Report report = run_of(plan);
  EXPECT_EQ(report.acknowledged, (std::vector<std::uint64_t>{7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
  server.reset();
  const SystemClock clock;
  const auto refused = run(plan, clock);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot connect to 127.0.0.1"));
}

TEST(Run, EndsQuietlyWithTheServerWhereThatIsAllowed) {
  std::atomic<int> seen = 0;
  auto server = *http::Server::start({}, [&](std::unique_ptr<Exchange> exchange) {
    exchange->respond({});
    ++seen;
    seen.notify_all();
  });
  Plan plan{.port = *server->listen("127.0.0.1", 0, "test"),
            .connections = 3,
            .time = std::chrono::milliseconds(10'000),
            .may_break = true};
  const std::jthread killer([&] {
    for (int count = seen; count < 20; count = seen) {
      seen.wait(count);
    }
    server->stop(std::chrono::milliseconds(0));
  });
  const Report report = run_of(plan);
  EXPECT_EQ(report.broken, 3U);
  EXPECT_EQ(report.failed, 0U);
  EXPECT_GT(report.requests, 0U);
}

TEST(Run, KeepsAPace) {
  const Target target(answers({}));
  Plan plan = plan_for(target, 8);
  plan.connections = 2;
  plan.every = std::chrono::milliseconds(20);
  const Report report = run_of(plan);
  EXPECT_EQ(report.requests, 8U);
  EXPECT_GE(report.elapsed, std::chrono::milliseconds(60)) << "the fourth turn begins then";
}

TEST(Run, HoldsIdleConnectionsBesideTheOthers) {
  const Target target(answers({.body = "x"}));
  Plan plan = plan_for(target, 10);
  plan.idle = 50;
  EXPECT_EQ(run_of(plan).idle_held, 50U);
}

TEST(Run, SyncsWhatAServerHasWritten) {
  const auto root = TempDir::make();
  ASSERT_TRUE(make_directories(root->path() / "b"));
  std::atomic<bool> writes = true;
  const Target target([&](std::unique_ptr<Exchange> exchange) {
    if (writes) {
      (void)write_file(Path(root->path().string() + exchange->request().path), "content");
    }
    exchange->respond({});
  });
  Plan plan = plan_for(target, 9);
  plan.request = {.method = "PUT", .path = "/b/k-{n}"};
  plan.sync_root = root->path().string();
  EXPECT_EQ(run_of(plan).requests, 9U);
  writes = false;
  plan.request.first = 100;
  plan.requests = 1;
  const Report report = run_of(plan);
  EXPECT_EQ(report.failed, 1U) << "a file that is not where it is said to be";
}

TEST(Report, IsOneJsonObject) {
  Report report{.requests = 2, .elapsed = std::chrono::milliseconds(500)};
  report.latency.add(std::chrono::milliseconds(3));
  const auto json = nlohmann::json::parse(to_json_text(report));
  EXPECT_EQ(json.at("requests_per_second"), 4.0);
  EXPECT_EQ(json.at("latency_ms").at("max"), 3.0);
}

}  // namespace
}  // namespace trainyard::load
