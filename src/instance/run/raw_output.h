// SPDX-License-Identifier: Apache-2.0
// What a job's processes print, byte for byte, beside its results: a log event holds text, one
// state of a progress bar and no control sequences, so who needs the bytes asks for them by
// TRAINYARD_RAW_OUTPUT=1 in CreateTrainingJob.Environment. The files come with output.tar.gz:
//
//   /opt/ml/output/data/raw-algo-1.log            or, with several ranks on a host,
//   /opt/ml/output/data/raw-algo-1-rank-3.log
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"
#include "instance/launch/launch_plan.h"

namespace trainyard::instance {

bool wants_raw_output(const nlohmann::json& request);

class RawOutput {
 public:
  // `ml` is /opt/ml as the machine sees it. No link below it is followed: user code of an attempt
  // before may have put one there. A file that is there is continued.
  static Result<RawOutput> open(const Path& ml, const std::string& host,
                                const std::vector<Process>& processes);

  // Of one thread. A file that cannot be written is given up, with a line in our own log.
  void write(int process, std::string_view bytes);

 private:
  std::vector<Fd> files_;
};

}  // namespace trainyard::instance
