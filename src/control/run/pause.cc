// SPDX-License-Identifier: Apache-2.0
#include "control/run/pause.h"

#include <algorithm>

namespace trainyard::control {

Duration pause_between(SteadyTime last, SteadyTime now, Duration tick) {
  constexpr int kTicks = 4;
  const auto gap = std::chrono::duration_cast<Duration>(now - last);
  return gap > kTicks * tick ? gap - tick : Duration();
}

void forgive(Duration pause, const Now& now, Job& job, Facts& facts) {
  const auto later = [&](SteadyTime& time) { time = std::min(time + pause, now.steady); };
  later(facts.launched.steady);
  for (InstanceFacts& instance : facts.instances) {
    if (instance.last_report) {
      later(instance.last_report->steady);
    }
  }
  if (job.stage_until) {
    *job.stage_until += pause;
  }
}

}  // namespace trainyard::control
