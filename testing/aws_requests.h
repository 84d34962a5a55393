// SPDX-License-Identifier: Apache-2.0
// Requests as clients send them, for tests that need one valid request to start from.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace trainyard::testing {

inline nlohmann::json s3_channel(const std::string& name, const std::string& uri) {
  return {{"ChannelName", name},
          {"DataSource",
           {{"S3DataSource",
             {{"S3DataType", "S3Prefix"},
              {"S3Uri", uri},
              {"S3DataDistributionType", "FullyReplicated"}}}}}};
}

// A CreateTrainingJob request with two instances, one channel, hyperparameters and tags.
inline nlohmann::json small_training_job(const std::string& name = "demo-1") {
  return {
      {"TrainingJobName", name},
      {"AlgorithmSpecification",
       {{"TrainingImage", "trainyard/pytorch:2"}, {"TrainingInputMode", "File"}}},
      {"RoleArn", "arn:aws:iam::123456789012:role/Demo"},
      {"InputDataConfig", nlohmann::json::array({s3_channel("train", "s3://yard-data/train/")})},
      {"OutputDataConfig", {{"S3OutputPath", "s3://yard-data/out/"}}},
      {"ResourceConfig",
       {{"InstanceType", "ml.m5.large"}, {"InstanceCount", 2}, {"VolumeSizeInGB", 10}}},
      {"StoppingCondition", {{"MaxRuntimeInSeconds", 600}}},
      {"HyperParameters", {{"epochs", "3"}}},
      {"Environment", {{"MODE", "fast"}}},
      {"Tags", nlohmann::json::array({{{"Key", "team"}, {"Value", "red"}}})}};
}

}  // namespace trainyard::testing
