// SPDX-License-Identifier: Apache-2.0
// The training-job operations of the API on a database, after validation: what a request asks for
// is checked against what exists (images, objects, capacity, other jobs), stored in one
// transaction, and the reconciler is told. Nothing is left behind by a request that is refused.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "control/config.h"
#include "control/control.h"
#include "control/operations/job_cache.h"
#include "control/run/reconciler.h"

namespace trainyard::control {

class TrainingJobs {
 public:
  TrainingJobs(const Surroundings& around, Reconciler& reconciler, EventQueue& events)
      : around_(around), reconciler_(reconciler), events_(events) {}

  // kUnimplemented, subject "operation", for a name that is none of ours.
  Result<nlohmann::json> call(std::string_view operation, const nlohmann::json& input);

 private:
  Result<nlohmann::json> create(const nlohmann::json& input);
  Result<nlohmann::json> describe(const nlohmann::json& input);
  Result<nlohmann::json> list(const nlohmann::json& input);
  Result<nlohmann::json> search(const nlohmann::json& input);
  Result<nlohmann::json> stop(const nlohmann::json& input);
  Result<nlohmann::json> signal(const nlohmann::json& input);
  Result<nlohmann::json> update(const nlohmann::json& input);
  Result<nlohmann::json> remove(const nlohmann::json& input);
  Result<nlohmann::json> add_tags(const nlohmann::json& input);
  Result<nlohmann::json> list_tags(const nlohmann::json& input);
  Result<nlohmann::json> delete_tags_of(const nlohmann::json& input);

  Result<Job> new_job(const nlohmann::json& input);
  Result<void> fit(Job& job);
  Result<int> instances_in_use();
  Result<void> input_exists(const nlohmann::json& request);
  Result<void> output_exists(const nlohmann::json& request);
  Result<void> store_new(Job& job, const std::vector<Tag>& tags);
  Result<Job> require(const std::string& name);

  Surroundings around_;
  Reconciler& reconciler_;
  EventQueue& events_;
  JobCache parsed_;  // those that were described
};

}  // namespace trainyard::control
