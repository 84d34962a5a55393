// SPDX-License-Identifier: Apache-2.0
// Results wait for a store that is full or away: they may be all that is left of days of training.
// What is tried again, when, and what is said meanwhile is decided by pure functions;
// send_until_stored() does it for the session. There is no limit here: the server ends an attempt
// whose upload takes too long, and without a server the instance leaves by link/orphan.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "formats/left_out.h"

namespace trainyard::instance {

// Whether what the store has answered, or that it has not, may be otherwise in a while. That a
// bucket is missing or denied is for the user to mend.
bool may_pass(const Error& of_store);

// The subject of an upload's error for which this holds. An error of the disk that is read may have
// the same code, and never has it.
inline constexpr const char* kMayPass = "may-pass";

// The pauses between the tries of one upload.
class UploadPatience {
 public:
  struct NextTry {
    Duration pause{};
    bool is_to_tell = false;  // that it waits: at first, when the reason is another, now and then
  };

  NextTry after(const Error& failure, SteadyTime now);
  int failures() const { return failures_; }
  bool has_told() const { return told_.has_value(); }

 private:
  int failures_ = 0;
  std::optional<SteadyTime> told_;
  Code told_code_{};
};

struct UploadWait {
  // Lets the time pass and hears what comes in meanwhile; false: nothing more is to be sent.
  std::function<bool(Duration)> pause;
  std::function<void(const std::string&)> tell;
};

// Calls `send` until it works, fails for good, or `wait.pause` says that it is too late, which is
// kCancelled.
Result<LeftOut> send_until_stored(const std::function<Result<LeftOut>()>& send,
                                  const UploadWait& wait, const Clock& clock);

}  // namespace trainyard::instance
