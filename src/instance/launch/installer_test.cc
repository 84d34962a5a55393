// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/installer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

wire::Assignment in_environment(const std::string& directory) {
  wire::Assignment assignment;
  assignment.python_environment = directory;
  return assignment;
}

SetupStep step(const CodeFacts& facts, const Variables& environment) {
  const std::vector<SetupStep> steps = setup_steps(in_environment("/env"), facts, environment);
  EXPECT_EQ(steps.size(), 1u);
  return steps.empty() ? SetupStep() : steps.front();
}

const CodeFacts kBoth = {.has_requirements = true, .has_uv = true, .has_pip = true};

TEST(SetupSteps, TakeUvWhereItIsThere) {
  EXPECT_THAT(
      step(kBoth, {{"PIP_DISABLE_PIP_VERSION_CHECK", "1"}, {"PIP_INDEX_URL", ""}}).process.argv,
      ElementsAre("/env/bin/uv", "pip", "install", "--python", "/env/bin/python", "-r",
                  "requirements.txt"));
}

TEST(SetupSteps, TakePipWhereItsVariablesSayWhatToInstall) {
  EXPECT_THAT(step(kBoth, {{"PIP_INDEX_URL", "https://packages.example"}}).process.argv,
              ElementsAre("/env/bin/python", "-m", "pip", "install", "-r", "requirements.txt"));
}

TEST(SetupSteps, TakePipWhereItsFileSaysWhatToInstall) {
  CodeFacts facts = kBoth;
  facts.pip_settings = {{"PIP_INDEX_URL", "https://packages.example"}};
  EXPECT_EQ(step(facts, {}).process.argv.front(), "/env/bin/python");
  facts.pip_settings = {{"PIP_CERT", "/ca.pem"}};
  EXPECT_EQ(step(facts, {}).process.argv.front(), "/env/bin/uv");
}

TEST(SetupSteps, TakeTheOnlyInstallerThatIsThere) {
  EXPECT_EQ(step({.has_setup_py = true}, {}).process.argv,
            (std::vector<std::string>{"/env/bin/python", "-m", "pip", "install", "."}));
  EXPECT_EQ(step({.has_setup_py = true, .has_uv = true}, {}).process.argv.front(), "/env/bin/uv");
}

TEST(SetupSteps, TellUvWhatPipWasToldWhereOnlyUvIsThere) {
  const CodeFacts only_uv = {.has_requirements = true,
                             .has_uv = true,
                             .pip_settings = {{"PIP_CONSTRAINT", "/etc/versions.txt"}}};
  const Process process = step(only_uv, {{"PIP_INDEX_URL", "https://packages.example"}}).process;
  EXPECT_THAT(process.argv,
              ElementsAre("/env/bin/uv", "pip", "install", "--python", "/env/bin/python",
                          "--constraint=/etc/versions.txt", "-r", "requirements.txt"));
  EXPECT_EQ(process.environment.at("UV_DEFAULT_INDEX"), "https://packages.example");
  EXPECT_EQ(step(only_uv, {{"PIP_INDEX_URL", "https://pip.example"},
                           {"UV_DEFAULT_INDEX", "https://uv.example"}})
                .process.environment.at("UV_DEFAULT_INDEX"),
            "https://uv.example");
}

TEST(SetupSteps, AreNotTriedWhereTheInstallerWouldNotHearWhatWasSaid) {
  EXPECT_THAT(
      step({.has_requirements = true, .has_uv = true}, {{"PIP_CONFIG_FILE", "/pip.conf"}}).obstacle,
      AllOf(HasSubstr("PIP_CONFIG_FILE"), HasSubstr("ensurepip")));
  EXPECT_EQ(step(kBoth, {{"PIP_CONFIG_FILE", "/pip.conf"}}).obstacle, "");
}

TEST(SetupSteps, LetUvTrustWhomPipTrusts) {
  EXPECT_EQ(step(kBoth, {{"PIP_CERT", "/ca.pem"}}).process.environment.at("SSL_CERT_FILE"),
            "/ca.pem");
  EXPECT_EQ(step(kBoth, {{"PIP_CERT", "/ca.pem"}, {"SSL_CERT_FILE", "/own.pem"}})
                .process.environment.at("SSL_CERT_FILE"),
            "/own.pem");
}

TEST(InstallerAdvice, FollowsFromTheLastLines) {
  EXPECT_EQ(installer_advice({"ERROR: No matching distribution found for x"}), "");
  EXPECT_THAT(installer_advice({"/env/bin/python: No module named pip"}), HasSubstr("ensurepip"));
  EXPECT_THAT(installer_advice({"error: externally-managed-environment", "", "x"}),
              HasSubstr("config.yaml"));
  EXPECT_THAT(installer_advice({"error: Request failed", "  cause: client error (Connect)",
                                "  cause: invalid peer certificate: UnknownIssuer"}),
              HasSubstr("SSL_CERT_FILE"));
  EXPECT_THAT(installer_advice({"  cause: dns error", "  cause: failed to lookup address"}),
              HasSubstr("--find-links"));
}

}  // namespace
}  // namespace trainyard::instance
