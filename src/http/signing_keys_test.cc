// SPDX-License-Identifier: Apache-2.0
#include "http/signing_keys.h"

#include <gtest/gtest.h>

#include "http/internal/sigv4_canonical.h"

namespace trainyard::http {
namespace {

constexpr std::string_view kTime = "20261129T201205Z";
const SigningScope kScope{.region = "us-east-1", .service = "s3"};

Credentials key_with(std::string secret, std::string id = "AKIA") {
  return {.access_key_id = std::move(id), .secret_access_key = std::move(secret)};
}

TEST(SigningKeys, AreTheDerivedOnesTheFirstAndTheSecondTime) {
  SigningKeys keys;
  const std::string right = signing_key("secret", kTime, kScope);
  EXPECT_EQ(keys.of(key_with("secret"), kTime, kScope), right);
  EXPECT_EQ(keys.of(key_with("secret"), "20261129T235959Z", kScope), right);
}

TEST(SigningKeys, AreOthersForAnotherSecretDayRegionOrService) {
  SigningKeys keys;
  const std::string tomorrow = "20261130T000000Z";
  const SigningScope region{.region = "eu-west-1", .service = "s3"};
  const SigningScope service{.region = "us-east-1", .service = "sagemaker"};
  keys.of(key_with("secret"), kTime, kScope);
  EXPECT_EQ(keys.of(key_with("changed"), kTime, kScope), signing_key("changed", kTime, kScope));
  EXPECT_EQ(keys.of(key_with("changed"), tomorrow, kScope),
            signing_key("changed", tomorrow, kScope));
  EXPECT_EQ(keys.of(key_with("changed"), tomorrow, region),
            signing_key("changed", tomorrow, region));
  EXPECT_EQ(keys.of(key_with("changed"), tomorrow, service),
            signing_key("changed", tomorrow, service));
}

TEST(SigningKeys, OfManyAccessKeysAreTold) {
  SigningKeys keys;
  for (int i = 0; i < 3'000; ++i) {
    const std::string secret = "secret" + std::to_string(i);
    ASSERT_EQ(keys.of(key_with(secret, "AKIA" + std::to_string(i)), kTime, kScope),
              signing_key(secret, kTime, kScope));
  }
}

}  // namespace
}  // namespace trainyard::http
