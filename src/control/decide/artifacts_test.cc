// SPDX-License-Identifier: Apache-2.0
#include "control/decide/artifacts.h"

#include <algorithm>
#include <chrono>

#include <gtest/gtest.h>

#include "control/testing/harness.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using Indices = std::vector<int>;

bool holds(const Indices& indices, std::size_t index) {
  return std::find(indices.begin(), indices.end(), static_cast<int>(index)) != indices.end();
}

Facts ended(int instances, const Indices& with_model, const Indices& with_output = {}) {
  Facts facts = facts_in(wire::Phase::kTraining, instances);
  for (std::size_t i = 0; i < facts.instances.size(); ++i) {
    wire::Exit exit = exit_with(0);
    exit.has_model = holds(with_model, i);
    exit.has_output = holds(with_output, i);
    end(facts.instances[i], exit);
  }
  return facts;
}

wire::ArtifactUpload model_of(const ArtifactPlan& plan, const std::string& host) {
  return plan.uploads.at(host).model.value_or(wire::ArtifactUpload());
}

wire::ArtifactUpload output_of(const ArtifactPlan& plan, const std::string& host) {
  return plan.uploads.at(host).output.value_or(wire::ArtifactUpload());
}

ArtifactPlan plan(const Job& job, const Facts& facts, Secondary outcome = Secondary::kCompleted) {
  std::vector<const InstanceFacts*> able;
  able.reserve(facts.instances.size());
  for (const InstanceFacts& instance : facts.instances) {
    able.push_back(&instance);
  }
  return plan_artifacts(job, able, outcome);
}

TEST(PlanArtifacts, LetsALoneHolderWriteTheArchiveItself) {
  const ArtifactPlan made = plan(new_job("demo"), ended(2, {1}));
  EXPECT_EQ(model_of(made, "algo-2").form, "whole");
  EXPECT_EQ(model_of(made, "algo-2").s3_uri, "s3://bucket/out/demo/output/model.tar.gz");
  EXPECT_FALSE(made.uploads.at("algo-1").model);
  EXPECT_TRUE(made.merges.empty());
}

TEST(PlanArtifacts, CutsSeveralHoldersIntoMembersWithTheEndInTheLast) {
  const ArtifactPlan made = plan(new_job("demo", 3), ended(3, {0, 2}));
  EXPECT_EQ(model_of(made, "algo-1").form, "member");
  EXPECT_EQ(model_of(made, "algo-3").form, "whole");
  ASSERT_EQ(made.merges.size(), 1u);
  EXPECT_EQ(made.merges[0].parts,
            (std::vector<std::string>{
                "s3://bucket/out/demo/output/.parts/1796000000000/1/algo-1/model.tar.gz",
                "s3://bucket/out/demo/output/.parts/1796000000000/1/algo-3/model.tar.gz"}));
}

TEST(PlanArtifacts, KeepsPartsOfAttemptsAndOfJobsOfOneNameApart) {
  Job job = new_job("demo");
  const std::string first = parts_place(job);
  ++job.epoch;
  const std::string second = parts_place(job);
  EXPECT_NE(second, first);
  EXPECT_TRUE(first.starts_with(all_parts_place(job)));
  EXPECT_TRUE(second.starts_with(all_parts_place(job)));
  job.created += std::chrono::milliseconds(1);
  EXPECT_FALSE(second.starts_with(all_parts_place(job)));
}

TEST(PlanArtifacts, KeepsModelAndOutputApart) {
  const ArtifactPlan made = plan(new_job("demo"), ended(2, {0}, {0, 1}));
  EXPECT_EQ(model_of(made, "algo-1").form, "whole");
  EXPECT_EQ(output_of(made, "algo-1").form, "member");
  EXPECT_EQ(made.merges[0].target, "s3://bucket/out/demo/output/output.tar.gz");
}

TEST(PlanArtifacts, UploadsFilesWithoutCompression) {
  Job job = new_job("demo");
  job.request["OutputDataConfig"]["CompressionType"] = "NONE";
  const ArtifactPlan made = plan(job, ended(2, {0, 1}));
  EXPECT_EQ(model_of(made, "algo-1").form, "files");
  EXPECT_EQ(model_of(made, "algo-2").s3_uri, "s3://bucket/out/demo/output/model/");
  EXPECT_TRUE(made.merges.empty());
}

TEST(PlanArtifacts, DropsTheModelOfAFailedJob) {
  const ArtifactPlan made = plan(new_job("demo"), ended(2, {0}, {0}), Secondary::kFailed);
  EXPECT_FALSE(made.uploads.at("algo-1").model);
  EXPECT_TRUE(made.uploads.at("algo-1").output);
}

// Two hosts that have saved these files.
Facts with_files(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  Facts facts = ended(2, {0, 1});
  for (std::size_t i = 0; i < facts.instances.size(); ++i) {
    wire::Exit exit = facts.instances[i].exit.value_or(wire::Exit());
    exit.model_files = i == 0 ? first : second;
    facts.instances[i].exit = std::move(exit);
  }
  return facts;
}

TEST(PlanArtifacts, WarnsOfANameThatSeveralHostsHave) {
  const ArtifactPlan made = plan(new_job("demo"), with_files({"a", "model.pt"}, {"b", "model.pt"}));
  EXPECT_EQ(made.warning,
            "\"model.pt\" of /opt/ml/model comes from algo-1, algo-2: model.tar.gz holds each, and "
            "who unpacks it gets that of algo-2");
  EXPECT_TRUE(model_of(made, "algo-1").note.empty());
  EXPECT_TRUE(model_of(made, "algo-2").note.starts_with("Warning: " + made.warning));
}

TEST(PlanArtifacts, CountsTheOtherNames) {
  const ArtifactPlan made = plan(new_job("demo"), with_files({"a", "b", "c"}, {"a", "b", "c"}));
  EXPECT_NE(made.warning.find("algo-2, and 2 more names from several hosts: "), std::string::npos);
}

TEST(PlanArtifacts, HasNothingToWarnOf) {
  EXPECT_EQ(plan(new_job("demo"), with_files({"a"}, {"b"})).warning, "");
  EXPECT_EQ(plan(new_job("demo"), with_files({}, {})).warning, "");
  // Of a failed job no model is kept.
  EXPECT_EQ(plan(new_job("demo"), with_files({"a"}, {"a"}), Secondary::kFailed).warning, "");
}

TEST(PlanArtifacts, WarnsThatOnlyOneOfTwoObjectsStays) {
  Job job = new_job("demo");
  job.request["OutputDataConfig"]["CompressionType"] = "NONE";
  EXPECT_EQ(plan(job, with_files({"a"}, {"a"})).warning,
            "\"a\" of /opt/ml/model comes from algo-1, algo-2: only the one that is sent last is "
            "kept");
}

class JoinParts : public ::testing::Test {
 protected:
  JoinParts() { harness_.close(); }

  // Of two hosts' models.
  static Merge merge_of(const Job& job) { return plan(job, ended(2, {0, 1})).merges.at(0); }
  void send(const std::string& part, const std::string& content) {
    const auto uri = s3::parse_uri(part);
    ASSERT_TRUE(uri);
    harness_.put(uri->key, content);
  }
  Harness harness_;
  const Merge merge_{.parts = {"s3://bucket/p/1", "s3://bucket/p/2"}, .target = "s3://bucket/t"};
};

TEST_F(JoinParts, ConcatenatesInOrderAndRemovesTheParts) {
  harness_.put("p/2", "world");
  harness_.put("p/1", "hello ");
  ASSERT_TRUE(join_parts(harness_.objects(), merge_, false));
  EXPECT_EQ(harness_.get("t"), "hello world");
  EXPECT_FALSE(harness_.objects().head("bucket", "p/1"));
}

TEST_F(JoinParts, MayBeRepeatedAfterACrash) {
  harness_.put("p/2", "world");  // it was written, and the removal of this part was lost
  harness_.put("t", "hello world");
  ASSERT_TRUE(join_parts(harness_.objects(), merge_, false));
  EXPECT_EQ(harness_.get("t"), "hello world");
  EXPECT_FALSE(harness_.objects().head("bucket", "p/2"));
}

TEST_F(JoinParts, RefusesAMissingPart) {
  harness_.put("p/1", "hello");
  EXPECT_EQ(join_parts(harness_.objects(), merge_, false).error().code, Code::kNotFound);
  EXPECT_FALSE(harness_.objects().head("bucket", "t"));
}

TEST_F(JoinParts, ReplacesTheResultOfAnEarlierJobOfTheName) {
  harness_.put("t", "of last week");
  harness_.clock().advance(std::chrono::seconds(1));
  harness_.put("p/1", "new");
  ASSERT_TRUE(join_parts(harness_.objects(), merge_, true));
  EXPECT_EQ(harness_.get("t"), "new");
  EXPECT_FALSE(harness_.objects().head("bucket", "p/1"));
}

TEST_F(JoinParts, TakesNoPartOfAnEarlierAttempt) {
  Job job = new_job("demo");
  send(merge_of(job).parts.at(0), "old");
  ++job.epoch;
  send(merge_of(job).parts.at(1), "new");
  ASSERT_TRUE(join_parts(harness_.objects(), merge_of(job), true));
  EXPECT_EQ(harness_.get("out/demo/output/model.tar.gz"), "new");
}

TEST_F(JoinParts, TakesWhatThereIsOfAFailedJob) {
  harness_.put("p/2", "world");
  ASSERT_TRUE(join_parts(harness_.objects(), merge_, true));
  EXPECT_EQ(harness_.get("t"), "world");
}

}  // namespace
}  // namespace trainyard::control
