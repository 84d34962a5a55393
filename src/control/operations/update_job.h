// SPDX-License-Identifier: Apache-2.0
// What UpdateTrainingJob changes, as a pure function. Only members of the request change that
// decide nothing about how the job runs, so that the reconciler need not hear of it: what clients
// are shown follows, and that is all the effect there is on this server, which keeps no warm pools
// and runs neither profiler nor profiler rules.
#pragma once

#include <nlohmann/json.hpp>

#include "control/job/job.h"

namespace trainyard::control {

// The request of `job` with the validated changes of `input`: ProfilerConfig by member, rules of
// the profiler by name, ResourceConfig.KeepAlivePeriodInSeconds, RemoteDebugConfig. kConflict when
// the job is past changing; remote debugging changes only while it is Downloading or Training.
Result<nlohmann::json> updated_request(const Job& job, const nlohmann::json& input);

}  // namespace trainyard::control
