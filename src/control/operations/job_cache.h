// SPDX-License-Identifier: Apache-2.0
// Jobs as values for those who ask for the same few again and again, as clients that poll do: to
// parse a job costs more than to read it. What is kept is found by the very text that is stored, so
// nobody has to tell when a job has changed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "control/tables/job_table.h"

namespace trainyard::control {

class JobCache {
 public:
  // Thread-safe. Shared with the callers that still read it when it is forgotten. kCorrupt.
  Result<std::shared_ptr<const Job>> parse(JobRow row);

 private:
  struct Entry {
    JobRow row;
    std::shared_ptr<const Job> job;
  };

  Mutex mutex_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);  // by name
};

}  // namespace trainyard::control
