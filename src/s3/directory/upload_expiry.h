// SPDX-License-Identifier: Apache-2.0
// Aborts uploads that nobody goes on with, in the background: their parts fill the disk, and no
// listing of objects shows them. An upload is abandoned when neither it nor a part of it began
// within its lifetime. What a backup has kept on the disk goes with the same look.
#pragma once

#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "s3/directory/directory_store.h"

namespace trainyard::s3 {

// Since when an upload must have been silent. Uploads bear the time of the wall clock. Where that
// is set forward (a machine that starts days behind asks for the time), those that are under way
// look older than they are: so the step is taken off their age until the lifetime has passed by the
// steady clock. The sleep of a machine looks the same, and does not count either.
class ExpiryBound {
 public:
  explicit ExpiryBound(Duration lifetime) : lifetime_(lifetime) {}

  // The bound as both clocks are now. Steps since the call before are noticed.
  WallTime look(WallTime now, SteadyTime steady);

 private:
  struct Look {
    WallTime now;
    SteadyTime steady;
  };
  struct Step {
    SteadyTime seen;
    Duration forward;
  };

  const Duration lifetime_;
  std::optional<Look> last_;
  std::vector<Step> steps_;  // that uploads within their lifetime may have seen
};

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
