// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/upload_expiry.h"

#include <string>

#include "base/log.h"
#include "base/thread.h"

namespace trainyard::s3 {
namespace {

// Less than this between two looks is how clocks are kept right.
constexpr Duration kStep = std::chrono::minutes(1);

}  // namespace

WallTime ExpiryBound::look(WallTime now, SteadyTime steady) {
  if (last_) {
    const Duration forward =
        now - last_->now - std::chrono::duration_cast<Duration>(steady - last_->steady);
    if (forward > kStep) {
      steps_.push_back({.seen = steady, .forward = forward});
    }
  }
  last_ = {.now = now, .steady = steady};
  std::erase_if(steps_, [&](const Step& step) { return steady - step.seen > lifetime_; });
  WallTime bound = now - lifetime_;
  for (const Step& step : steps_) {
    bound -= step.forward;
  }
  return bound;
}

UploadExpiry::UploadExpiry(DirectoryStore& store, Clock& clock, Duration lifetime, Duration period)
    : store_(store),
      clock_(clock),
      lifetime_(lifetime),
      period_(period),
      thread_(start_thread("expiry", [this](const std::stop_token& stop) { run(stop); })) {}

void UploadExpiry::run(const std::stop_token& stop) {
  ExpiryBound bound(lifetime_);
  while (!stop.stop_requested()) {
    const auto count = store_.expire_uploads(bound.look(clock_.now(), clock_.steady_now()), stop);
    if (!count) {
      log_warning("store: abandoned uploads stay for now: " + count.error().message);
    } else if (*count > 0) {
      log_info("store: aborted " + std::to_string(*count) + " uploads that nobody went on with");
    }
    store_.collect_kept(stop);
    const MutexLock lock(mutex_);
    stopped_.wait_for(mutex_, stop, period_, [] { return false; });
  }
}

}  // namespace trainyard::s3
