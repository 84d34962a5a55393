// SPDX-License-Identifier: Apache-2.0
#include "cli/follow.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/fake_api.h"
#include "cli/job_logs.h"

namespace trainyard::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// A job whose lines and status a test writes, served as CloudWatch Logs serves them.
struct FakeJob {
  std::string status = "InProgress";
  std::string detail = "Training";
  std::map<std::string, std::vector<std::pair<std::int64_t, std::string>>> streams;
  std::size_t page = 2;  // events a page

  Result<http::Response> operator()(const std::string& operation, const Json& input) {
    if (operation == "DescribeTrainingJob") {
      return answer(
          {{"TrainingJobName", "demo"},
           {"TrainingJobStatus", status},
           {"SecondaryStatus", detail},
           {"SecondaryStatusTransitions", {{{"Status", detail}, {"StatusMessage", "m"}}}}});
    }
    if (operation == "DescribeLogStreams") {
      return describe_streams();
    }
    return events(input);
  }

  http::Response describe_streams() const {
    if (streams.empty()) {
      return refuse("ResourceNotFoundException", "The specified log group does not exist.");
    }
    Json list = Json::array();
    for (const auto& [name, lines] : streams) {
      list.push_back({{"logStreamName", name}});
    }
    return answer({{"logStreams", list}});
  }

  http::Response events(const Json& input) const {
    const auto& lines = streams.at(input["logStreamName"].get<std::string>());
    const std::string token = input.value("nextToken", "f/0");
    const auto first = static_cast<std::size_t>(std::stoul(token.substr(2)));
    const std::size_t end = std::min(lines.size(), first + page);
    Json list = Json::array();
    for (std::size_t i = first; i < end; ++i) {
      list.push_back({{"timestamp", lines[i].first}, {"message", lines[i].second}});
    }
    return answer({{"events", list}, {"nextForwardToken", "f/" + std::to_string(end)}});
  }
};

TEST(HostOf, TakesTheHostOutOfAStreamName) {
  EXPECT_EQ(host_of("demo-1/algo-1-1796069525"), "algo-1");
  EXPECT_EQ(host_of("demo/algo-12-1"), "algo-12");
}

TEST(JobLogs, MergesStreamsByTimeAcrossPages) {
  FakeJob job;
  job.streams["demo/algo-1-1"] = {{1, "a"}, {3, "c"}, {5, "e"}, {6, "f"}, {9, "i"}};
  job.streams["demo/algo-2-1"] = {{2, "b"}, {4, "d"}, {7, "g"}, {8, "h"}};
  Stage stage(job);
  ASSERT_TRUE(*print_log(stage.api, "demo", false, stage.terminal));
  EXPECT_EQ(stage.out.str(),
            "algo-1 | a\nalgo-2 | b\nalgo-1 | c\nalgo-2 | d\nalgo-1 | e\nalgo-1 | f\n"
            "algo-2 | g\nalgo-2 | h\nalgo-1 | i\n");
}

TEST(JobLogs, GivesOnlyWhatIsNew) {
  FakeJob job;
  job.streams["demo/algo-1-1"] = {{1, "a"}};
  Stage stage([&job](const auto& operation, const Json& input) { return job(operation, input); });
  JobLogs logs(stage.api, "demo");
  std::string seen;
  const auto sink = [&](const LogEvent& event) {
    seen += event.text;
    return Result<void>();
  };
  ASSERT_TRUE(logs.drain(sink).has_value());
  job.streams["demo/algo-1-1"].emplace_back(2, "b");
  job.streams["demo/algo-2-1"] = {{1, "c"}};
  ASSERT_TRUE(logs.drain(sink).has_value());
  EXPECT_EQ(seen, "acb");
}

TEST(JobLogs, PrintJsonForScripts) {
  FakeJob job;
  job.streams["demo/algo-1-1"] = {{1, "\"x\"\n"}};
  Stage stage(job);
  ASSERT_TRUE(*print_log(stage.api, "demo", true, stage.terminal));
  const Json line = Json::parse(stage.out.str());
  EXPECT_EQ(line["host"], "algo-1");
  EXPECT_EQ(line["message"], "\"x\"\n");
}

TEST(Follow, PrintsEveryLineUntilTheJobHasEnded) {
  FakeJob job;
  Stage stage([&job](const auto& operation, const Json& input) { return job(operation, input); });
  int round = 0;
  const auto end = follow_job(
      stage.api, "demo", {},
      [&](std::chrono::milliseconds) {
        job.streams["demo/algo-1-1"].emplace_back(round, "line " + std::to_string(round));
        job.status = ++round == 3 ? "Completed" : "InProgress";
        return true;
      },
      stage.terminal);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(stage.out.str(), "algo-1 | line 0\nalgo-1 | line 1\nalgo-1 | line 2\n");
  EXPECT_EQ(stage.err.str(), "Training - m\n");
}

TEST(Follow, WaitsForAServerThatComesBack) {
  FakeJob job;
  int round = 0;
  Stage stage([&](const auto& operation, const Json& input) -> Result<http::Response> {
    if (round == 1) {
      return Error{Code::kUnavailable, "connection refused"};
    }
    return job(operation, input);
  });
  const auto end = follow_job(
      stage.api, "demo", {},
      [&](std::chrono::milliseconds) {
        job.status = ++round == 2 ? "Failed" : "InProgress";
        return true;
      },
      stage.terminal);
  ASSERT_TRUE(end.has_value());
  EXPECT_THAT(stage.err.str(), HasSubstr("waiting for the server: "));
}

TEST(Follow, LosesAndRepeatsNoLineOverManyReconnects) {
  FakeJob job;
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    job.streams["demo/algo-" + std::to_string(1 + i % 3) + "-1"].emplace_back(i, std::to_string(i));
    expected += "algo-" + std::to_string(1 + i % 3) + " | " + std::to_string(i) + "\n";
  }
  int call = 0;
  int round = 0;
  Stage stage([&](const auto& operation, const Json& input) -> Result<http::Response> {
    if (++call % 5 == 0 && round < 30) {
      return Error{Code::kUnavailable, "connection reset by peer"};
    }
    return job(operation, input);
  });
  const auto end = follow_job(
      stage.api, "demo", {},
      [&](std::chrono::milliseconds) {
        job.status = ++round >= 30 ? "Completed" : "InProgress";
        return round < 40;
      },
      stage.terminal);
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(stage.out.str(), expected);
}

// A stream into a full disk.
struct FullDisk : std::streambuf {
  int overflow(int) override {
    errno = ENOSPC;
    return traits_type::eof();
  }
};

TEST(Follow, EndsWhenItsOutputGoesNowhere) {
  FakeJob job;
  for (int i = 0; i < 1000; ++i) {
    job.streams["demo/algo-1-1"].emplace_back(i, "line");
  }
  Stage stage(job);
  FullDisk disk;
  std::ostream full(&disk);
  const Terminal terminal{.out = full, .err = stage.err};
  const auto followed = follow_job(
      stage.api, "demo", {}, [](std::chrono::milliseconds) { return true; }, terminal);
  ASSERT_FALSE(followed.has_value());
  EXPECT_THAT(followed.error().message, HasSubstr("cannot write the output"));
  EXPECT_LT(stage.fake.calls.size(), 10u) << "it goes on reading";
  const auto printed = print_log(stage.api, "demo", true, terminal);
  ASSERT_FALSE(printed.has_value());
  EXPECT_EQ(printed.error().subject, "output");
}

TEST(Follow, LosesPatienceInTheEnd) {
  Stage stage([](const auto&, const Json&) -> Result<http::Response> {
    return Error{Code::kUnavailable, "connection refused"};
  });
  const auto end = follow_job(
      stage.api, "demo", {}, [](std::chrono::milliseconds) { return true; }, stage.terminal);
  ASSERT_FALSE(end.has_value());
  EXPECT_THAT(end.error().message, HasSubstr("Start it with ./yard up"));
  EXPECT_EQ(stage.fake.calls.size(), 121u);
}

TEST(Follow, EndsWhenTheUserHasSeenEnough) {
  Stage stage(FakeJob{});
  const auto end = follow_job(
      stage.api, "demo", {}, [](std::chrono::milliseconds) { return false; }, stage.terminal);
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, Code::kCancelled);
}

}  // namespace
}  // namespace trainyard::cli
