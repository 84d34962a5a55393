// SPDX-License-Identifier: Apache-2.0
#include "control/run/clock_jump.h"

#include <algorithm>

namespace trainyard::control {

Duration jump_between(const Now& before, const Now& now) {
  constexpr Duration kLeast{1000};
  const auto passed = std::chrono::duration_cast<Duration>(now.steady - before.steady);
  const Duration jump = (now.wall - before.wall) - passed;
  return jump >= kLeast || jump <= -kLeast ? jump : Duration();
}

Duration jump_since_stored(const Job& job, WallTime now) {
  return job.stored_at ? std::min(Duration(), now - *job.stored_at) : Duration();
}

void follow(Duration jump, Job& job, Facts& facts) {
  job.wait_counts_from = job.wait_counts_from.value_or(job.created) + jump;
  if (job.training_start) {
    job.runtime_counts_from = job.runtime_counts_from.value_or(*job.training_start) + jump;
  }
  for (std::optional<WallTime>* time : {&job.waiting_since, &job.stage_until, &job.start_after}) {
    if (*time) {
      **time += jump;
    }
  }
  if (job.outcome) {
    job.outcome->at += jump;
  }
  for (Attempt& attempt : job.attempts) {
    if (attempt.end) {
      attempt.counts_as_ended = attempt.counts_as_ended.value_or(*attempt.end) + jump;
    }
  }
  facts.launched.wall += jump;
  for (InstanceFacts& instance : facts.instances) {
    if (instance.heard) {
      *instance.heard += jump;
    }
    if (instance.last_report) {
      instance.last_report->wall += jump;
    }
    if (instance.exit) {
      instance.exit->at += jump;
    }
  }
}

void forget_the_future(WallTime now, Facts& facts) {
  for (InstanceFacts& instance : facts.instances) {
    if (instance.heard) {
      instance.heard = std::min(*instance.heard, now);
    }
    if (instance.exit) {
      instance.exit->at = std::min(instance.exit->at, now);
    }
  }
}

}  // namespace trainyard::control
