// SPDX-License-Identifier: Apache-2.0
#include "control/config.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using testing::HasSubstr;

TEST(DefaultConfig, OffersAtLeastFourInstances) {
  EXPECT_GE(default_config().machine.instances, 4);
}

class KnownImages : public testing::TestWithParam<std::string_view> {};

TEST_P(KnownImages, MeanTheTorchEnvironment) {
  EXPECT_EQ(resolve_image(default_config(), GetParam()).value_or("none"), "torch");
}

INSTANTIATE_TEST_SUITE_P(
    Table, KnownImages,
    testing::Values("pytorch", "pytorch:2.3", "trainyard/pytorch:latest", "trainyard-pytorch",
                    "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-cpu-py311",
                    "763104351884.dkr.ecr.cn-north-1.amazonaws.com.cn/pytorch-training:2.3.0",
                    "763104351884.dkr.ecr.us-east-1.amazonaws.com/"
                    "huggingface-pytorch-training@sha256:00ff"));

class UnknownImages : public testing::TestWithParam<std::string_view> {};

TEST_P(UnknownImages, AreRefusedWithTheKnownOnesListed) {
  const auto environment = resolve_image(default_config(), GetParam());
  ASSERT_FALSE(environment);
  EXPECT_EQ(environment.error().code, Code::kInvalidArgument);
  EXPECT_THAT(environment.error().message, HasSubstr("trainyard/pytorch"));
}

INSTANTIATE_TEST_SUITE_P(
    Table, UnknownImages,
    testing::Values("", "tensorflow", "evil/pytorch", "pytorchx:1",
                    "7631.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3",
                    "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training-neuron:1"));

TEST(ImagePatterns, TakeAnyTextForAStarAndADigitForAHash) {
  const auto config = parse_config(
      "environments: {one: /srv/one, all: /srv/all}\n"
      "images: {'a*b#*c': one, '*': all}\n",
      {});
  ASSERT_TRUE(config) << config.error().message;
  for (const char* image : {"ab1c", "aXb1bb2XcXc", "abb3cc", "a*b#b0c"}) {
    EXPECT_EQ(*resolve_image(*config, image), "one") << image;
  }
  for (const char* image : {"", "ab1", "abXc", "ab1cd", "xab1c"}) {
    EXPECT_EQ(*resolve_image(*config, image), "all") << image;
  }
}

TEST(ImagePatterns, EndAtOnceWhateverTheImage) {
  std::string pattern;
  for (int i = 0; i < 30; ++i) {
    pattern += "*a";
  }
  const auto config =
      parse_config("environments: {one: /srv/one}\nimages: {'" + pattern + "b': one}\n", {});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(resolve_image(*config, std::string(255, 'a')));
}

TEST(ParseConfig, PutsTheFileOverTheDefaults) {
  const auto config = parse_config(
      "capacity: {instances: 16, gpus: [0, 3]}\n"
      "environments: {mine: /srv/env}\n"
      "images: {'me/*': mine}\n"
      "stop_grace_seconds: 5\n"
      "orphan_limit_seconds: 172800\n"
      "upload_limit_seconds: 60\n",
      default_config());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->machine.instances, 16);
  EXPECT_EQ(config->machine.gpus, (std::vector<std::string>{"0", "3"}));
  EXPECT_EQ(*resolve_image(*config, "me/trainer:1"), "mine");
  EXPECT_EQ(*resolve_image(*config, "pytorch"), "torch");
  EXPECT_EQ(config->limits.stop_grace, std::chrono::seconds(5));
  EXPECT_EQ(config->limits.orphan, std::chrono::hours(48));
  EXPECT_EQ(config->limits.upload, std::chrono::seconds(60));
}

TEST(ParseConfig, FindsTheGpusThatHaveADeviceNode) {
  const TempDir devices = *TempDir::make();
  for (const char* name : {"gpu10", "gpu2", "gpu", "gpux", "gpu-1", "other3"}) {
    ASSERT_TRUE(write_file(devices.path() / name, ""));
  }
  const std::string pattern = (devices.path() / "gpu*").string();
  const auto config = parse_config("capacity: {gpu_device: '" + pattern + "'}\n", {});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->machine.gpus, (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(gpu_node(config->machine, "10"), (devices.path() / "gpu10").string());
  const auto some = parse_config("capacity: {gpus: [2], gpu_device: '" + pattern + "'}\n", {});
  EXPECT_EQ(some->machine.gpus, std::vector<std::string>{"2"});
}

TEST(ParseConfig, AcceptsAnEmptyFile) {
  EXPECT_TRUE(parse_config("# nothing\n", {}));
}

struct Mistake {
  std::string_view text;
  std::string_view message;
};
class ConfigMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(ConfigMistakes, AreNamedWithTheirLine) {
  const auto config = parse_config(GetParam().text, default_config());
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, Code::kInvalidArgument);
  EXPECT_THAT(config.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ConfigMistakes,
    testing::Values(
        Mistake{"capacity:\n  instances: many\n",
                "line 2: instances is a number from 1 to 10000, not 'many'"},
        Mistake{"capacity:\n  instances: 0\n",
                "line 2: instances is a number from 1 to 10000, not '0'"},
        Mistake{"capacity: {instances: [1]}\n",
                "instances is a number from 1 to "
                "10000, not a list"},
        Mistake{"capacity: 4\n", "line 1: capacity is a mapping of keys to values, not '4'"},
        Mistake{"capacity: {gpus: all}\n", "gpus is a list of numbers, not 'all'"},
        Mistake{"capacity: {gpus: [[0]]}\n", "gpus is a list of numbers, not a list"},
        Mistake{"capacity: {gpu_device: {}}\n", "not a mapping"},
        Mistake{"stop_grace_seconds: 2 min\n",
                "stop_grace_seconds is a number from 0 to 86400, not '2 min'"},
        Mistake{"orphan_limit_seconds: 5\n",
                "orphan_limit_seconds is a number from 60 to 2592000, not '5'"},
        Mistake{"upload_limit_seconds: 1h\n",
                "upload_limit_seconds is a number from 1 to 86400, not '1h'"},
        Mistake{"images: torch\n", "images is a mapping of patterns to environments, not 'torch'"},
        Mistake{"images: {'me/*': [a]}\n", "me/* is the name of an environment, not a list"},
        Mistake{"environments: {mine: {}}\n",
                "mine is the absolute path of a directory, not a mapping"},
        Mistake{"capacity: {cores: 3}\n", "line 1: unknown key 'cores'"},
        Mistake{"a: [1,\n", "line 2"},
        Mistake{"\nimages: {x: nowhere}\n", "line 2: no environment is named 'nowhere'"},
        Mistake{"environments: {x: relative}\n",
                "line 1: x is the absolute path of a "
                "directory, not 'relative'"},
        Mistake{"capacity: {gpus: [1, 1]}\n", "a GPU is named twice"},
        Mistake{"capacity:\n  gpu_device: /dev/nvidia\n", "line 2: gpu_device is"},
        Mistake{"capacity: {gpu_device: dev/gpu*}\n", "line 1: gpu_device is"},
        Mistake{"capacity: {gpu_device: /dev/*/gpu}\n", "line 1: gpu_device is"},
        Mistake{"- list\n", "line 1: it is a mapping of keys to values, not a list"}));

TEST(EnvironmentDirectory, SaysHowToMakeAMissingOne) {
  Config config;
  config.environments["torch"] = "/nonexistent/torch";
  const auto directory = environment_directory(config, "torch");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Code::kInvalidArgument);
  EXPECT_THAT(directory.error().message, HasSubstr("./yard setup"));
}

TEST(EnvironmentDirectory, IsTheOneThatALinkLeadsTo) {
  const TempDir home = *TempDir::make();
  std::filesystem::create_directory(home.path() / "torch-1");
  std::filesystem::create_directory_symlink("torch-1", home.path() / "torch");
  Config config;
  config.environments["torch"] = (home.path() / "torch").string();
  EXPECT_EQ(*environment_directory(config, "torch"), (home.path() / "torch-1").string());
}

}  // namespace
}  // namespace trainyard::control
