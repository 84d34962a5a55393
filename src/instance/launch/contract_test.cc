// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/contract.h"

#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using nlohmann::json;

wire::Assignment assignment() {
  return {.job_name = "job-1",
          .job_arn = "arn",
          .region = "us-east-1",
          .account = "1",
          .host = "algo-10",
          .hosts = {{"algo-1", "10.0.0.1"}, {"algo-10", "10.0.0.10"}, {"algo-2", "10.0.0.2"}},
          .network_interface = "eth0",
          .request = {{"HyperParameters", {{"epochs", "3"}, {"name", "\"a\""}}},
                      {"ResourceConfig", {{"InstanceType", "ml.c5.xlarge"}}},
                      {"InputDataConfig",
                       {{{"ChannelName", "training"},
                         {"ContentType", "text/csv"},
                         {"DataSource",
                          {{"S3DataSource", {{"S3DataDistributionType", "ShardedByS3Key"}}}}}},
                        {{"ChannelName", "eval"}}}}},
          .python_environment = {},
          .server = {},
          .gpus = {},
          .log_stream = {}};
}

json content(const std::string& path) {
  for (const ContractFile& file : contract_files(assignment())) {
    if (file.path == path) {
      return json::parse(file.content);
    }
  }
  return {};
}

TEST(Contract, WritesEveryHyperparameterAsAString) {
  EXPECT_EQ(content("input/config/hyperparameters.json"),
            (json{{"epochs", "3"}, {"name", "\"a\""}}));
}

TEST(Contract, DescribesTheClusterInTheServicesOrder) {
  const json resources = content("input/config/resourceconfig.json");
  EXPECT_EQ(resources["current_host"], "algo-10");
  EXPECT_EQ(resources["hosts"], (json{"algo-1", "algo-10", "algo-2"}));
  EXPECT_EQ(resources["current_instance_type"], "ml.c5.xlarge");
  EXPECT_EQ(resources["current_group_name"], "homogeneousCluster");
  EXPECT_EQ(resources["instance_groups"][0]["hosts"].size(), 3u);
  EXPECT_EQ(resources["network_interface_name"], "eth0");
}

TEST(Contract, DescribesChannelsWithTheirDefaults) {
  EXPECT_EQ(content("input/config/inputdataconfig.json"),
            (json{{"training",
                   {{"TrainingInputMode", "File"},
                    {"S3DistributionType", "ShardedByS3Key"},
                    {"RecordWrapperType", "None"},
                    {"ContentType", "text/csv"}}},
                  {"eval",
                   {{"TrainingInputMode", "File"},
                    {"S3DistributionType", "FullyReplicated"},
                    {"RecordWrapperType", "None"}}}}));
}

TEST(Contract, SaysWhereCheckpointsAreOnlyWhenTheyAreKept) {
  EXPECT_EQ(content("input/config/checkpointconfig.json"), json());
  wire::Assignment with = assignment();
  with.request["CheckpointConfig"] = {{"S3Uri", "s3://b/ckpt"}};
  const std::vector<ContractFile> files = contract_files(with);
  const auto found = std::find_if(files.begin(), files.end(), [](const ContractFile& file) {
    return file.path == "input/config/checkpointconfig.json";
  });
  ASSERT_NE(found, files.end());
  EXPECT_EQ(json::parse(found->content),
            (json{{"S3Uri", "s3://b/ckpt"}, {"LocalPath", "/opt/ml/checkpoints/"}}));
}

TEST(HostsFile, NamesEveryHostAtItsOwnAddress) {
  const std::string text = hosts_file(assignment());
  EXPECT_NE(text.find("10.0.0.10\talgo-10\n"), std::string::npos);
  EXPECT_NE(text.find("127.0.0.1\tlocalhost\n"), std::string::npos);
  EXPECT_EQ(text.find("127.0.1.1"), std::string::npos);
}

TEST(ResolverFile, LooksBehindAStubOnTheLoopback) {
  EXPECT_EQ(resolver_file("nameserver 127.0.0.53\n", "nameserver 10.0.0.1\n"),
            "nameserver 10.0.0.1\n");
  EXPECT_EQ(resolver_file("nameserver 8.8.8.8\n", "nameserver 10.0.0.1\n"), "nameserver 8.8.8.8\n");
  EXPECT_EQ(resolver_file("nameserver 127.0.0.53\n", ""), "nameserver 127.0.0.53\n");
}

}  // namespace
}  // namespace trainyard::instance
