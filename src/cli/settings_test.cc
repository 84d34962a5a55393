// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::cli {
namespace {

using ::testing::HasSubstr;

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<TempDir> made = TempDir::make();
    ASSERT_TRUE(made.has_value());
    home_ = std::make_unique<TempDir>(*std::move(made));
  }

  void write(const char* name, const char* content) {
    ASSERT_TRUE(write_file(home() / name, content).has_value());
  }
  const Path& home() const { return home_->path(); }

 private:
  std::unique_ptr<TempDir> home_;
};

constexpr const char* kCredentials =
    "# made by the server\n[other]\naws_access_key_id = NO\n[default]\n"
    "aws_access_key_id = AKHOME\naws_secret_access_key=a/b=c\n";

TEST_F(SettingsTest, TakeWhatTheServerOfThisMachineHasWritten) {
  write("server.json", R"({"endpoint": "http://127.0.0.1:8321"})");
  write("credentials", kCredentials);
  const auto settings = find_settings(environment({}), home(), "");
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  EXPECT_EQ(settings->endpoint, "http://127.0.0.1:8321");
  EXPECT_EQ(settings->region, "us-east-1");
  EXPECT_EQ(settings->credentials.access_key_id, "AKHOME");
  EXPECT_EQ(settings->credentials.secret_access_key, "a/b=c");
}

TEST_F(SettingsTest, TrustTheCertificateThatTheServerOrTheEnvironmentNames) {
  write("server.json", R"({"endpoint": "https://127.0.0.1:1", "ca_bundle": "/a.pem"})");
  write("credentials", kCredentials);
  EXPECT_EQ(find_settings(environment({}), home(), "")->ca_bundle, "/a.pem");
  const auto env = environment({{"AWS_CA_BUNDLE", "/b.pem"}});
  EXPECT_EQ(find_settings(env, home(), "")->ca_bundle, "/a.pem");
  EXPECT_EQ(find_settings(env, home(), "https://elsewhere:1")->ca_bundle, "/b.pem");
  EXPECT_EQ(find_settings(environment({}), home(), "https://elsewhere:1")->ca_bundle, "");
}

TEST_F(SettingsTest, PreferTheOptionThenTheEnvironment) {
  write("server.json", R"({"endpoint": "http://127.0.0.1:1"})");
  const auto env = environment({{"AWS_ENDPOINT_URL", "http://127.0.0.1:2/"},
                                {"AWS_DEFAULT_REGION", "eu-west-1"},
                                {"AWS_ACCESS_KEY_ID", "AKENV"},
                                {"AWS_SECRET_ACCESS_KEY", "s"},
                                {"AWS_SESSION_TOKEN", "t"}});
  const auto settings = find_settings(env, home(), "");
  EXPECT_EQ(settings->endpoint, "http://127.0.0.1:2");
  EXPECT_EQ(settings->region, "eu-west-1");
  EXPECT_EQ(settings->credentials.session_token, "t");
  EXPECT_TRUE(settings->keys_from_environment);
  EXPECT_EQ(find_settings(env, home(), "https://yard:3")->endpoint, "https://yard:3");
}

TEST_F(SettingsTest, TakeTheRegionOfTheServerOfThisMachine) {
  write("server.json", R"({"endpoint": "http://127.0.0.1:1", "region": "eu-west-1"})");
  write("credentials", kCredentials);
  EXPECT_EQ(find_settings(environment({}), home(), "")->region, "eu-west-1");
  EXPECT_EQ(find_settings(environment({{"AWS_REGION", "eu-north-1"}}), home(), "")->region,
            "eu-north-1");
}

TEST_F(SettingsTest, SayHowToStartAServer) {
  const auto settings = find_settings(environment({}), home(), "");
  ASSERT_FALSE(settings.has_value());
  EXPECT_THAT(settings.error().message, HasSubstr("start it with ./yard up"));
}

TEST_F(SettingsTest, SayWhereKeysComeFrom) {
  const auto settings = find_settings(environment({}), home(), "http://127.0.0.1:1");
  ASSERT_FALSE(settings.has_value());
  EXPECT_THAT(settings.error().message, HasSubstr("./yard env"));
}

TEST_F(SettingsTest, RefuseWhatIsNoEndpoint) {
  write("credentials", kCredentials);
  for (const char* text : {"127.0.0.1:80", "ftp://x", "http://", "http://h/path"}) {
    EXPECT_FALSE(find_settings(environment({}), home(), text).has_value()) << text;
  }
}

}  // namespace
}  // namespace trainyard::cli
