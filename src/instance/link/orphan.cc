// SPDX-License-Identifier: Apache-2.0
#include "instance/link/orphan.h"

#include <algorithm>

#include "instance/launch/request.h"

namespace trainyard::instance {
namespace {

constexpr std::chrono::seconds kDefaultRuntime{86'400};  // the service's
constexpr std::chrono::seconds kMostRuntime{std::chrono::hours(24 * 365)};

std::chrono::seconds max_runtime(const nlohmann::json& request) {
  const nlohmann::json& given = member(request, "StoppingCondition", "MaxRuntimeInSeconds");
  const std::chrono::seconds asked =
      given.is_number_integer() ? std::chrono::seconds(given.get<std::int64_t>()) : kDefaultRuntime;
  return std::clamp(asked, std::chrono::seconds(0), kMostRuntime);
}

std::string seconds_of(Duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

OrphanLimits orphan_limits(const wire::Assignment& assignment) {
  return {.runtime = max_runtime(assignment.request) + assignment.stop_grace,
          .orphan = assignment.orphan_limit};
}

OrphanStep orphan_step(const OrphanFacts& facts, const OrphanLimits& limits, SteadyTime now) {
  if (facts.runs_since) {
    const bool is_overdue = now >= *facts.runs_since + limits.runtime;
    const bool is_alone = now >= facts.heard + wire::kSilence;
    return is_overdue && is_alone ? OrphanStep::kStop : OrphanStep::kGoOn;
  }
  return now >= std::max(facts.idle_since, facts.heard) + limits.orphan ? OrphanStep::kLeave
                                                                        : OrphanStep::kGoOn;
}

std::string describe(OrphanStep step, const OrphanLimits& limits, const std::string& scratch) {
  switch (step) {
    case OrphanStep::kStop:
      return "the server is away, and MaxRuntimeInSeconds with the stop grace (" +
             seconds_of(limits.runtime) + ") is over: stopping the program";
    case OrphanStep::kLeave:
      return "nothing was heard of the server for " + seconds_of(limits.orphan) +
             ": leaving; what was not sent lies in " + scratch;
    case OrphanStep::kGoOn:
      break;
  }
  return {};
}

}  // namespace trainyard::instance
