// SPDX-License-Identifier: Apache-2.0
#include "control/decide/signal.h"

#include <fmt/format.h>

#include "control/decide/steps.h"

namespace trainyard::control {
namespace {

Error not_running(const Job& job, wire::UserSignal signal) {
  const std::string_view status = status_name(job.secondary);
  const std::string_view step = name_of(job.secondary);
  return {.code = Code::kConflict,
          .message = fmt::format(
              "{} cannot be sent to the training job '{}': its program is not running, the job is "
              "{}.",
              name_of(signal), job.name,
              status == step ? std::string(step) : fmt::format("{}, {}", status, step))};
}

}  // namespace

Result<std::vector<Send>> plan_signal(const Job& job, const Facts& facts, wire::UserSignal signal,
                                      const Now& now) {
  if (job.stage != Stage::kRunning || job.secondary != Secondary::kTraining) {
    return not_running(job, signal);
  }
  const CapacityView no_view;
  const Limits no_limits;
  const Situation in{
      .job = job, .facts = facts, .capacity = no_view, .limits = no_limits, .now = now};
  std::vector<Send> sends;
  for (const InstanceFacts& instance : facts.instances) {
    if (!has_ended(in, instance)) {
      sends.push_back(
          {.host = instance.host, .kind = wire::Command::Kind::kSignal, .signal = signal});
    }
  }
  if (sends.empty()) {
    return not_running(job, signal);
  }
  return sends;
}

}  // namespace trainyard::control
