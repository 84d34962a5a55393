// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/pip_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(SettingsOfPipFile, AreItsVariables) {
  EXPECT_THAT(settings_of_pip_file("[global]\n"
                                   "# of the company\n"
                                   "index-url = https://packages.example/simple\n"
                                   "cert: /etc/ca.pem\n"),
              UnorderedElementsAre(Pair("PIP_INDEX_URL", "https://packages.example/simple"),
                                   Pair("PIP_CERT", "/etc/ca.pem")));
}

TEST(SettingsOfPipFile, GoOnInIndentedLines) {
  EXPECT_THAT(
      settings_of_pip_file("[global]\nextra-index-url =\n  https://a\n\n  https://b\nx\n y"),
      ElementsAre(Pair("PIP_EXTRA_INDEX_URL", " https://a https://b")));
}

TEST(SettingsOfPipFile, OfInstallComeBeforeThoseOfAllCommands) {
  EXPECT_THAT(settings_of_pip_file("[install]\nindex-url=a\n[global]\nindex-url=b\npre=1\n"
                                   "[download]\nno-deps=1\n"),
              UnorderedElementsAre(Pair("PIP_INDEX_URL", "a"), Pair("PIP_PRE", "1")));
}

TEST(SettingsOfPipFile, AreNoneOfAnythingElse) {
  EXPECT_THAT(settings_of_pip_file(""), IsEmpty());
  EXPECT_THAT(settings_of_pip_file("[\n=\n:\n  x\n]"), IsEmpty());
}

TEST(PackageSettings, AreThoseThatSayWhatComesAndFromWhere) {
  EXPECT_THAT(package_settings(
                  {{"PIP_INDEX_URL", "user"},
                   {"PIP_CONSTRAINT", ""},
                   {"PIP_TIMEOUT", "9"},
                   {"HOME", "/root"}},
                  {{"PIP_INDEX_URL", "file"}, {"PIP_CONSTRAINT", "file"}, {"PIP_CERT", "/ca.pem"}}),
              UnorderedElementsAre(Pair("PIP_INDEX_URL", "user"), Pair("PIP_CONSTRAINT", "file")));
}

TEST(UvSettings, NameTheSameIndexesInAllVersionsOfUv) {
  const UvSettings uv = uv_settings(
      {{"PIP_INDEX_URL", "https://a"}, {"PIP_EXTRA_INDEX_URL", "https://b\nhttps://c"}});
  EXPECT_THAT(
      uv.variables,
      UnorderedElementsAre(Pair("UV_DEFAULT_INDEX", "https://a"), Pair("UV_INDEX_URL", "https://a"),
                           Pair("UV_INDEX", "https://b https://c"),
                           Pair("UV_EXTRA_INDEX_URL", "https://b https://c")));
  EXPECT_THAT(uv.arguments, IsEmpty()) << "an address may hold a password";
}

TEST(UvSettings, SayWhatMayCome) {
  EXPECT_THAT(
      uv_settings({{"PIP_CONSTRAINT", "a.txt b.txt"},
                   {"PIP_FIND_LINKS", "/wheels"},
                   {"PIP_NO_BINARY", "x,y"},
                   {"PIP_NO_DEPS", "yes"},
                   {"PIP_NO_INDEX", "1"},
                   {"PIP_ONLY_BINARY", ":all:"},
                   {"PIP_PRE", "true"},
                   {"PIP_REQUIRE_HASHES", "on"}})
          .arguments,
      UnorderedElementsAre("--constraint=a.txt", "--constraint=b.txt", "--find-links=/wheels",
                           "--no-binary=x", "--no-binary=y", "--no-deps", "--no-index",
                           "--only-binary=:all:", "--prerelease=allow", "--require-hashes"));
  EXPECT_THAT(uv_settings({{"PIP_NO_INDEX", "0"}, {"PIP_PRE", "False"}}).arguments, IsEmpty());
}

TEST(UvSettings, SayHowTheIndexIsReached) {
  EXPECT_THAT(
      uv_settings({{"PIP_PROXY", "http://p:1"},
                   {"PIP_TRUSTED_HOST", "a b"},
                   {"PIP_CLIENT_CERT", "/me.pem"}})
          .variables,
      UnorderedElementsAre(Pair("HTTPS_PROXY", "http://p:1"), Pair("HTTP_PROXY", "http://p:1"),
                           Pair("https_proxy", "http://p:1"), Pair("http_proxy", "http://p:1"),
                           Pair("UV_INSECURE_HOST", "a b"), Pair("SSL_CLIENT_CERT", "/me.pem")));
}

TEST(UvSettings, LeaveOutWhatUvCannotBeTold) {
  EXPECT_THAT(uv_settings({{"PIP_CONFIG_FILE", "/pip.conf"}}).unheard,
              ElementsAre("PIP_CONFIG_FILE"));
  EXPECT_THAT(uv_settings({{"PIP_CONFIG_FILE", "/dev/null"}}).unheard, IsEmpty());
}

}  // namespace
}  // namespace trainyard::instance
