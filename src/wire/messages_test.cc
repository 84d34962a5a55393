// SPDX-License-Identifier: Apache-2.0
#include "wire/messages.h"

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::wire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Values drawn from a seed; every optional member is sometimes there.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  bool coin() { return engine_() % 2 == 0; }
  int number() { return static_cast<int>(engine_() % 100'000); }
  std::int64_t seq() { return static_cast<std::int64_t>(engine_() >> 1); }
  WallTime time() {
    return WallTime{Duration{static_cast<std::int64_t>(engine_() % (1ULL << 42))}};
  }

  std::string text() {
    static const std::vector<std::string> kPieces = {
        "loss=3.2", "\"", "\\", "\n", "\t", std::string(1, '\0'), "日本語", "$(reboot)", "\r", ""};
    std::string out;
    for (std::uint64_t left = engine_() % 5; left > 0; --left) {
      out += kPieces[engine_() % kPieces.size()];
    }
    return out;
  }

  std::vector<std::string> texts() {
    std::vector<std::string> out(engine_() % 4);
    for (std::string& one : out) {
      one = text();
    }
    return out;
  }

  double value() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    static const std::vector<double> kValues = {
        0.1, -0.0, 1e-320, std::numeric_limits<double>::max(), std::nan(""), kInfinity, -kInfinity};
    return kValues[engine_() % kValues.size()];
  }

  Exit exit() {
    Exit out{.code = number(),
             .signal = number(),
             .stopped = coin(),
             .is_leaving = coin(),
             .is_overdue = coin(),
             .out_of_memory = coin(),
             .failure_file = text(),
             .last_lines = texts(),
             .at = time(),
             .has_model = coin(),
             .has_output = coin(),
             .model_files = texts(),
             .output_files = texts()};
    if (coin()) {
      out.global_rank = number();
      out.host = text();
    }
    return out;
  }

  Report report() {
    Report out{.seq = seq(), .message = text()};
    if (coin()) {
      out.phase = static_cast<Phase>(engine_() % 7);
    }
    if (coin()) {
      out.exit = exit();
    }
    if (coin()) {
      out.error = Error{static_cast<Code>(engine_() % 12), text(), text()};
    }
    for (std::uint64_t left = engine_() % 3; left > 0; --left) {
      out.lines.push_back({.at = time(), .text = text()});
    }
    for (std::uint64_t left = engine_() % 3; left > 0; --left) {
      out.points.push_back({.metric = text(), .at = time(), .value = value()});
    }
    if (coin()) {
      out.checkpoints = CheckpointLag{.files = number(),
                                      .bytes = seq(),
                                      .removals = number(),
                                      .oldest = Duration{number()},
                                      .is_flushing = coin()};
    }
    return out;
  }

  ArtifactUpload upload() {
    return {.s3_uri = text(), .form = coin() ? "whole" : "files", .note = coin() ? text() : ""};
  }

  Command command() {
    Command out{.seq = seq(), .kind = static_cast<Command::Kind>(engine_() % 5)};
    if (coin()) {
      out.model = upload();
    }
    if (coin()) {
      out.output = upload();
    }
    return out;
  }

  Assignment assignment() {
    Assignment out{.protocol = number(),
                   .job_name = text(),
                   .job_arn = text(),
                   .region = text(),
                   .account = text(),
                   .epoch = number(),
                   .host = text(),
                   .hosts = {{text(), text()}, {text(), text()}},
                   .network_interface = text(),
                   .request = {{"HyperParameters", {{"a", text()}}}},
                   .python_environment = text(),
                   .server = text(),
                   .num_cpus = number(),
                   .gpus = texts(),
                   .log_stream = text(),
                   .stop_grace = Duration{number()},
                   .orphan_limit = Duration{number()},
                   .gang_secret = text(),
                   .gpu_nodes = texts(),
                   .notes = texts()};
    return out;
  }

 private:
  std::mt19937_64 engine_;
};

// What a value is after a trip over the wire, as the text that a second trip sends.
template <typename T, typename Read>
void expect_round_trip(const T& value, Read read) {
  const std::string sent = to_json(value).dump();
  const Result<T> received = read(json::parse(sent));
  ASSERT_TRUE(received.has_value()) << received.error().message;
  EXPECT_EQ(to_json(*received).dump(), sent);
}

Report sample_report() {
  return {.seq = 7,
          .phase = Phase::kEnded,
          .exit = Exit{.code = 3, .global_rank = 1, .last_lines = {"boom"}},
          .lines = {{.at = WallTime{Duration{5}}, .text = "hello"}},
          .points = {{.metric = "loss", .at = WallTime{Duration{5}}, .value = 1}}};
}

TEST(Messages, AreTheSameAfterATripOverTheWire) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    expect_round_trip(draw.report(), report_from_json);
    expect_round_trip(draw.command(), command_from_json);
    expect_round_trip(draw.assignment(), assignment_from_json);
  }
}

TEST(Report, KeepsEveryMember) {
  const Result<Report> got = report_from_json(to_json(sample_report()));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->seq, 7);
  EXPECT_EQ(got->phase, Phase::kEnded);
  const Exit exit = got->exit.value_or(Exit{});
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.global_rank, 1);
  EXPECT_EQ(exit.last_lines, std::vector<std::string>{"boom"});
  EXPECT_EQ(got->lines.at(0).text, "hello");
  EXPECT_FALSE(got->error.has_value());
}

TEST(Report, KeepsPointsThatJsonHasNoNumberFor) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Report sent{.seq = 1};
  for (const double value : {0.1, std::nan(""), kInfinity, -kInfinity}) {
    sent.points.push_back({.metric = "loss", .at = WallTime{Duration{5}}, .value = value});
  }
  const Result<Report> got = report_from_json(json::parse(to_json(sent).dump()));
  ASSERT_TRUE(got.has_value());
  ASSERT_EQ(got->points.size(), 4U);
  EXPECT_EQ(got->points[0].metric, "loss");
  EXPECT_EQ(got->points[0].at, WallTime{Duration{5}});
  EXPECT_EQ(got->points[0].value, 0.1);
  EXPECT_TRUE(std::isnan(got->points[1].value));
  EXPECT_EQ(got->points[2].value, kInfinity);
  EXPECT_EQ(got->points[3].value, -kInfinity);
}

TEST(Credentials, KeepEveryMember) {
  const Credentials sent{.role_arn = "arn:aws:iam::123456789012:role/R",
                         .access_key_id = "ASIA1",
                         .secret_access_key = "s",
                         .session_token = "t",
                         .expires = WallTime{Duration{1'795'983'734'123}}};
  const Result<Credentials> got = credentials_from_json(to_json(sent));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->session_token, "t");
  EXPECT_EQ(got->expires, sent.expires);
}

TEST(Command, BringsASignalAsAGoThatSaysMore) {
  const json sent =
      to_json(Command{.seq = 2, .kind = Command::Kind::kSignal, .signal = UserSignal::kUsr2});
  EXPECT_EQ(sent, (json{{"seq", 2}, {"kind", "go"}, {"signal", "USR2"}}));
  const Result<Command> got = command_from_json(sent);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->kind, Command::Kind::kSignal);
  EXPECT_EQ(got->signal, UserSignal::kUsr2);
  EXPECT_THAT(command_from_json({{"seq", 2}, {"kind", "go"}, {"signal", "KILL"}}).error().message,
              HasSubstr("command.signal must be one of the known names"));
}

TEST(Messages, IgnoreMembersThatTheyDoNotKnow) {
  json sent = to_json(sample_report());
  sent["mood"] = "good";
  sent["exit"]["weather"] = json::array({1, 2});
  EXPECT_TRUE(report_from_json(sent).has_value());
}

struct BadMember {
  const char* pointer;
  json value;
  const char* complaint;
};

class ReportRefuses : public testing::TestWithParam<BadMember> {};

TEST_P(ReportRefuses, AWrongMemberByItsPath) {
  json sent = to_json(sample_report());
  sent[json::json_pointer(GetParam().pointer)] = GetParam().value;
  const Result<Report> got = report_from_json(sent);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, Code::kInvalidArgument);
  EXPECT_THAT(got.error().message, HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    Members, ReportRefuses,
    testing::Values(
        BadMember{"/seq", "7", "report.seq must be a 64-bit integer"},
        BadMember{"/seq", 7.5, "report.seq must be a 64-bit integer"},
        BadMember{"/seq", 18446744073709551615ULL, "report.seq must be a 64-bit integer"},
        BadMember{"/phase", "dreaming", "report.phase must be one of the known names"},
        BadMember{"/exit", 3, "report.exit must be an object"},
        BadMember{"/exit/code", 1LL << 40, "report.exit.code must be a 32-bit integer"},
        BadMember{"/exit/stopped", 1, "report.exit.stopped must be true or false"},
        BadMember{"/exit/last_lines", "x", "report.exit.last_lines must be an array"},
        BadMember{"/exit/last_lines/0", json(), "report.exit.last_lines[0] must be a string"},
        BadMember{"/lines/0/at", "now", "report.lines[0].at must be a 64-bit integer"},
        BadMember{"/points/0/value", "1.5", "report.points[0].value must be a number, \"nan\""}));

TEST(Messages, NameTheMemberThatIsMissing) {
  json sent = to_json(sample_report());
  sent["lines"][0].erase("text");
  EXPECT_EQ(report_from_json(sent).error().message, "report.lines[0].text must be present");
  EXPECT_EQ(command_from_json(json::object()).error().message, "command.seq must be present");
  EXPECT_EQ(report_from_json(json::array()).error().message, "report must be an object");
}

TEST(Messages, GiveAnUnknownErrorCodeOfANewerPeerAsInternal) {
  json sent = {{"seq", 1}, {"error", {{"code", "Melted"}, {"message", "hot"}}}};
  const Result<Report> got = report_from_json(sent);
  ASSERT_TRUE(got.has_value());
  const Error error = got->error.value_or(Error{});
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_EQ(error.message, "hot");
}

TEST(Messages, CanBeWrittenWhateverBytesAJobPrinted) {
  const Report report{.seq = 1, .lines = {{.at = {}, .text = "a\xff\xfe z"}}};
  const Result<Report> got = report_from_json(json::parse(to_json(report).dump()));
  ASSERT_TRUE(got.has_value());
  EXPECT_THAT(got->lines.at(0).text, testing::StartsWith("a"));
}

TEST(CheckProtocol, ServesTheSameVersionAndTheTwoBefore) {
  EXPECT_TRUE(check_protocol("4", Peer::kInstance, 4).has_value());
  EXPECT_TRUE(check_protocol("3", Peer::kInstance, 4).has_value());
  EXPECT_TRUE(check_protocol("2", Peer::kInstance, 4).has_value());
  EXPECT_FALSE(check_protocol("1", Peer::kInstance, 4).has_value());
  EXPECT_FALSE(check_protocol("5", Peer::kInstance, 4).has_value());
}

TEST(CheckProtocol, SettlesOnTheVersionOfTheInstance) {
  EXPECT_EQ(*check_protocol("2", Peer::kInstance, 3), 2);
  EXPECT_EQ(*check_protocol("1", Peer::kInstance, 3), 1);
  EXPECT_EQ(*check_protocol("4", Peer::kServer, 3), 3);
}

TEST(CheckProtocol, AcceptsAServerThatIsTwoAhead) {
  EXPECT_TRUE(check_protocol("4", Peer::kServer, 4).has_value());
  EXPECT_TRUE(check_protocol("6", Peer::kServer, 4).has_value());
  EXPECT_FALSE(check_protocol("7", Peer::kServer, 4).has_value());
  EXPECT_FALSE(check_protocol("3", Peer::kServer, 4).has_value());
}

TEST(CheckProtocol, NamesBothVersions) {
  const Result<int> refused = check_protocol("9", Peer::kInstance, 4);
  EXPECT_EQ(refused.error().subject, "protocol");
  EXPECT_THAT(refused.error().message, HasSubstr("\"9\""));
  EXPECT_THAT(refused.error().message, HasSubstr("version 4"));
  EXPECT_FALSE(check_protocol("", Peer::kInstance).has_value());
  EXPECT_FALSE(check_protocol("one", Peer::kServer).has_value());
  EXPECT_FALSE(check_protocol("0", Peer::kInstance).has_value());
}

}  // namespace
}  // namespace trainyard::wire
