// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/upload_expiry.h"

#include <string>

#include "base/log.h"
#include "base/thread.h"

namespace trainyard::s3 {

UploadExpiry::UploadExpiry(DirectoryStore& store, Clock& clock, Duration lifetime, Duration period)
    : store_(store),
      clock_(clock),
      lifetime_(lifetime),
      period_(period),
      thread_(start_thread("expiry", [this](const std::stop_token& stop) { run(stop); })) {}

void UploadExpiry::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto count = store_.expire_uploads(clock_.now() - lifetime_, stop);
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
