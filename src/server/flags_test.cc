// SPDX-License-Identifier: Apache-2.0
#include "server/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace trainyard::server {
namespace {

using testing::HasSubstr;

ServerConfig config(const std::vector<std::string>& args) {
  auto parsed = parse_flags(args);
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  return parsed ? std::get<ServerConfig>(*parsed) : ServerConfig{};
}

// What is wrong by itself, or with the others.
Error refusal(const std::vector<std::string>& args) {
  auto parsed = parse_flags(args);
  const auto* usage = parsed ? std::get_if<Usage>(&*parsed) : nullptr;
  EXPECT_TRUE(!parsed || (usage != nullptr && usage->is_wrong));
  return usage != nullptr ? Error{Code::kInvalidArgument, usage->what}
                          : (parsed ? Error{} : parsed.error());
}

TEST(ParseFlags, ListensOnThisMachineOnlyByDefault) {
  const ServerConfig out = config({"--home", "/srv/yard"});
  EXPECT_EQ(out.home, "/srv/yard");
  EXPECT_EQ(out.address, "127.0.0.1");
  EXPECT_EQ(out.port, 8321);
  EXPECT_EQ(out.region, "us-east-1");
}

TEST(ParseFlags, TakesEveryFlag) {
  const ServerConfig out = config({"--home=/srv/yard/", "--listen", "127.0.0.2:0", "--region",
                                   "eu-west-1", "--log-level", "debug"});
  EXPECT_EQ(out.address, "127.0.0.2");
  EXPECT_EQ(out.port, 0);
  EXPECT_EQ(out.region, "eu-west-1");
  EXPECT_EQ(out.log_level, LogLevel::kDebug);
}

TEST(ParseFlags, TakesDomainsBesideLocalhost) {
  EXPECT_EQ(config({}).domains, std::vector<std::string>{"localhost"});
  EXPECT_EQ(config({"--domain", "S3.Example.com", "--domain", "x.org"}).domains,
            (std::vector<std::string>{"localhost", "s3.example.com", "x.org"}));
}

TEST(ParseFlags, RefusesAnAddressThatOthersReachUnlessToldTwice) {
  const Error error = refusal({"--listen", "0.0.0.0:8321"});
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("--insecure-http"));
  EXPECT_EQ(config({"--listen", "0.0.0.0:8321", "--insecure-http"}).address, "0.0.0.0");
}

TEST(ParseFlags, AllowsAnyAddressWithTls) {
  const ServerConfig out =
      config({"--listen", "0.0.0.0:8443", "--tls-cert", "/c", "--tls-key", "/k"});
  ASSERT_TRUE(out.tls.has_value());
  EXPECT_EQ(out.tls->certificate, "/c");
  EXPECT_EQ(out.tls->key, "/k");
  EXPECT_FALSE(config({}).tls.has_value());
}

TEST(ParseFlags, RefusesHalfOfTls) {
  EXPECT_THAT(refusal({"--tls-cert", "/c"}).message, HasSubstr("need each other"));
  EXPECT_THAT(refusal({"--tls-key", "/k"}).message, HasSubstr("need each other"));
  EXPECT_THAT(refusal({"--tls-cert", "/c", "--tls-key", "/k", "--insecure-http"}).message,
              HasSubstr("--insecure-http"));
}

TEST(ParseFlags, BoundsTheWorkers) {
  EXPECT_EQ(config({"--workers", "3", "--queue", "9"}).queue, 9u);
  EXPECT_THAT(refusal({"--workers", "0"}).message, HasSubstr("--workers"));
  EXPECT_THAT(refusal({"--queue", "many"}).message, HasSubstr("--queue"));
}

TEST(ParseFlags, SaysWhichNetworksAndLimitsJobsGet) {
  EXPECT_EQ(config({}).jobs_share_network, ::geteuid() != 0);
  EXPECT_TRUE(config({"--network", "loopback"}).jobs_share_network);
  EXPECT_FALSE(config({"--network", "namespaces"}).jobs_share_network);
  EXPECT_THAT(refusal({"--network", "mine"}).message, HasSubstr("--network"));
  EXPECT_EQ(config({"--instance-memory", "8GiB"}).instance_memory, std::uint64_t{8} << 30);
  EXPECT_EQ(config({"--instance-processes", "9"}).instance_processes, 9u);
  EXPECT_EQ(config({"--instance-cpus", "1.5"}).instance_cpus, 1.5);
  EXPECT_THAT(refusal({"--instance-cpus", "-1"}).message, HasSubstr("--instance-cpus"));
}

TEST(ParseFlags, RefusesWhatItDoesNotUnderstand) {
  EXPECT_THAT(refusal({"--listen", "nowhere:1"}).message, HasSubstr("nowhere:1"));
  EXPECT_THAT(refusal({"--listen", "127.0.0.1:70000"}).message, HasSubstr("70000"));
  EXPECT_THAT(refusal({"--colour", "red"}).message, HasSubstr("--colour"));
  EXPECT_THAT(refusal({"--log-level", "loud"}).message, HasSubstr("loud"));
}

TEST(ParseFlags, ShowsHelp) {
  const auto parsed = parse_flags({"--help"});
  ASSERT_TRUE(parsed.has_value());
  EXPECT_FALSE(std::get<Usage>(*parsed).is_wrong);
  EXPECT_THAT(std::get<Usage>(*parsed).text, HasSubstr("--insecure-http"));
}

TEST(ParseEndpoint, KnowsBothAddressFamilies) {
  EXPECT_EQ(parse_endpoint("9000")->port, 9000);
  EXPECT_EQ(parse_endpoint("localhost:1")->address, "127.0.0.1");
  EXPECT_EQ(parse_endpoint("[::1]:8321")->address, "::1");
  EXPECT_FALSE(parse_endpoint("").has_value());
  EXPECT_FALSE(parse_endpoint("127.0.0.1:").has_value());
}

}  // namespace
}  // namespace trainyard::server
