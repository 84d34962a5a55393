// SPDX-License-Identifier: Apache-2.0
#include "server/store/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace trainyard::server {
namespace {

TEST(KeyFile, IsWhatAwsClientsRead) {
  const auto keys = parse_keys(
      "# two users\n[default]\naws_access_key_id = AKIA1\naws_secret_access_key=0123456789abcdef\n"
      "region = us-east-1\n\n[other]\n  aws_access_key_id=AKIA2\r\n"
      "  AWS_SECRET_ACCESS_KEY = fedcba9876543210+/=\r\n");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(*keys, (AccessKeys{{"AKIA1", "0123456789abcdef"}, {"AKIA2", "fedcba9876543210+/="}}));
}

class BadKeyFile : public testing::TestWithParam<const char*> {};

TEST_P(BadKeyFile, IsRefused) {
  EXPECT_EQ(parse_keys(GetParam()).error().code, Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadKeyFile,
    testing::Values("", "[default]\n", "words", "aws_secret_access_key = 0123456789abcdef",
                    "aws_access_key_id = A\naws_secret_access_key = short",
                    "[a]\naws_access_key_id = A\n[b]\naws_secret_access_key = 0123456789abcdef"));

TEST(KeyFile, IsMadeOnceForItsOwnerOnly) {
  const TempDir folder = *TempDir::make();
  SystemRandom random;
  const Path file = folder.path() / "new" / "credentials";
  const auto made = load_or_make_keys(file, random);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->size(), 1u);
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_EQ(*load_or_make_keys(file, random), *made);
}

TEST(KeyFile, ErrorNamesTheFile) {
  const TempDir folder = *TempDir::make();
  SystemRandom random;
  const Path file = folder.path() / "credentials";
  ASSERT_TRUE(write_file(file, "nonsense"));
  const auto read = load_or_make_keys(file, random);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find(file.string()), std::string::npos);
}

}  // namespace
}  // namespace trainyard::server
