// SPDX-License-Identifier: Apache-2.0
// Aborts uploads that nobody goes on with, in the background: their parts fill the disk, and no
// listing of objects shows them. An upload is abandoned when neither it nor a part of it began
// within its lifetime. What a backup has kept on the disk goes with the same look.
#pragma once

#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "s3/directory/directory_store.h"

namespace trainyard::s3 {

class UploadExpiry {
 public:
  // How long an upload may be silent. S3 leaves it to a life-cycle rule; its usual value.
  static constexpr Duration kLifetime = std::chrono::hours(7 * 24);

  // Looks at once and then every `period`, until destroyed. Both are borrowed for life. A failure
  // is logged and tried again with the next look.
  UploadExpiry(DirectoryStore& store, Clock& clock, Duration lifetime = kLifetime,
               Duration period = std::chrono::hours(1));

 private:
  void run(const std::stop_token& stop);

  DirectoryStore& store_;
  Clock& clock_;
  const Duration lifetime_;
  const Duration period_;
  Mutex mutex_;
  ConditionVariable stopped_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace trainyard::s3
