// SPDX-License-Identifier: Apache-2.0
// What must hold of jobs as they are stored, whatever happens: it looks after every commit and
// compares with what it saw before. Its rules are written down once more here, independent of the
// code that they judge.
#pragma once

#include <map>
#include <set>
#include <string>

#include "control/testing/sim/cluster.h"
#include "control/testing/sim/server.h"

namespace trainyard::control {

class SimOracle {
 public:
  SimOracle(SimWorld& world, SimCluster& cluster) : world_(world), cluster_(cluster) {}

  // The stages in which jobs are stored now that were not before.
  std::vector<Stage> look(SimServer& server);
  // From here on the job must exist, and a stop that was acknowledged must not be forgotten.
  void created(const std::string& job) { created_.insert(job); }
  void stop_acknowledged(const std::string& job) { stopped_.insert(job); }

  bool all_ended() const;
  const std::map<std::string, Job>& jobs() const { return jobs_; }

 private:
  void judge(const Job* before, const Job& now);
  void judge_transitions(const Job* before, const Job& now);
  void judge_attempts(const Job* before, const Job& now);
  void judge_cause(const Job& job, const Attempt& attempt);
  void judge_end(const Job& now);
  void judge_keys(SimServer& server);
  void expect(bool holds, const Job& job, std::string_view what);

  SimWorld& world_;
  SimCluster& cluster_;
  std::int64_t commits_ = -1;
  const SimServer* seen_ = nullptr;
  std::map<std::string, std::string> states_;
  std::map<std::string, Job> jobs_;
  std::set<std::string> created_;
  std::set<std::string> stopped_;
};

}  // namespace trainyard::control
