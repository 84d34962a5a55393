// SPDX-License-Identifier: Apache-2.0
// Where a process is among the ranks of a SageMaker training job, by the file that each container
// has of its job: /opt/ml/input/config/resourceconfig.json ("How Amazon SageMaker AI Provides
// Training Information" of the developer guide). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::comm {

inline constexpr const char* kResourceConfig = "/opt/ml/input/config/resourceconfig.json";

struct JobPlace {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::string leader;     // the host of rank 0: a name that all hosts of the job know
  std::string interface;  // which carries the job's traffic; may be empty

  bool operator==(const JobPlace&) const = default;
};

// Hosts in the order of the file, which is the same on all of them, each with `local_size` ranks;
// this is the one of number `local_rank` on `current_host`. kInvalidArgument names what is wrong.
Result<JobPlace> place_in_job(std::string_view config, std::int32_t local_rank,
                              std::int32_t local_size);

}  // namespace trainyard::comm
