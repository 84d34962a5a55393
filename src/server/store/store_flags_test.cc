// SPDX-License-Identifier: Apache-2.0
#include "server/store/store_flags.h"

#include <gtest/gtest.h>

namespace trainyard::server {
namespace {

TEST(StoreFlags, HaveDefaults) {
  const auto parsed = parse_store_flags({"--root", "/tmp/store"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& config = std::get<StoreConfig>(*parsed);
  EXPECT_EQ(config.root, "/tmp/store");
  EXPECT_EQ(config.keys, "/tmp/store/credentials");
  EXPECT_EQ(config.port, 8321);
  EXPECT_EQ(config.domains, std::vector<std::string>{"localhost"});
  EXPECT_EQ(config.upload_lifetime, std::chrono::hours(168));
}

TEST(StoreFlags, TakeDomainsKeysAndALifetime) {
  const auto parsed =
      parse_store_flags({"--root", "r", "--domain", "S3.Example.com", "--domain", "x.org", "--keys",
                         "/k", "--upload-lifetime-days", "1", "--listen", "0"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& config = std::get<StoreConfig>(*parsed);
  EXPECT_TRUE(config.root.is_absolute());
  EXPECT_EQ(config.keys, "/k");
  EXPECT_EQ(config.domains, (std::vector<std::string>{"localhost", "s3.example.com", "x.org"}));
  EXPECT_EQ(config.upload_lifetime, std::chrono::hours(24));
}

TEST(StoreFlags, ImportNamesFolderAndPrefix) {
  const auto parsed = parse_store_flags({"import", "/data/set", "s3://bucket/some/prefix", "--root",
                                         "/r", "--mode", "link", "--json"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& config = std::get<ImportConfig>(*parsed);
  EXPECT_EQ(config.root, "/r");
  EXPECT_EQ(config.what.folder, "/data/set");
  EXPECT_EQ(config.what.bucket, "bucket");
  EXPECT_EQ(config.what.prefix, "some/prefix/");
  EXPECT_EQ(config.what.mode, s3::AdoptMode::kLink);
  EXPECT_TRUE(config.as_json);
}

class BadStoreFlags : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(BadStoreFlags, AreRefused) {
  const auto parsed = parse_store_flags(GetParam());
  if (parsed) {
    const auto* usage = std::get_if<Usage>(&*parsed);
    ASSERT_NE(usage, nullptr);
    EXPECT_TRUE(usage->is_wrong);
  } else {
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadStoreFlags,
    testing::Values(std::vector<std::string>{"--listen", "0.0.0.0:1"},
                    std::vector<std::string>{"--tls-cert", "c"},
                    std::vector<std::string>{"--tls-cert", "c", "--tls-key", "k",
                                             "--insecure-http"},
                    std::vector<std::string>{"--upload-lifetime-days", "0"},
                    std::vector<std::string>{"import"}, std::vector<std::string>{"import", "/d"},
                    std::vector<std::string>{"import", "/d", "bucket"},
                    std::vector<std::string>{"import", "/d", "s3://No"},
                    std::vector<std::string>{"import", "/d", "s3://bucket", "--mode", "steal"},
                    std::vector<std::string>{"--nonsense"}));

}  // namespace
}  // namespace trainyard::server
