// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/upload_patience.h"

#include <algorithm>

namespace trainyard::instance {
namespace {

constexpr Duration kFirstPause{200};
constexpr Duration kLongestPause{15'000};
constexpr int kDoublings = 7;  // beyond the longest
// A store that comes and goes would else fill the log, and so would one that is full for hours.
constexpr Duration kLeastQuiet{10'000};
constexpr Duration kLongestQuiet{600'000};

std::string waiting(const Error& failure) {
  const bool is_full = failure.code == Code::kExhausted;
  return std::string(is_full ? "The store is full" : "The store does not answer") +
         ": the results wait, and are sent again until it takes them (" + failure.message + ")";
}

}  // namespace

bool may_pass(const Error& of_store) {
  return of_store.code == Code::kUnavailable || of_store.code == Code::kDeadline ||
         of_store.code == Code::kExhausted ||
         // A store that crashed may have lost what was sent of it.
         (of_store.code == Code::kNotFound && of_store.subject == "upload");
}

UploadPatience::NextTry UploadPatience::after(const Error& failure, SteadyTime now) {
  NextTry next{.pause =
                   std::min(kLongestPause, kFirstPause * (1 << std::min(failures_, kDoublings)))};
  ++failures_;
  const Duration quiet = failure.code == told_code_ ? kLongestQuiet : kLeastQuiet;
  if (!told_ || now >= *told_ + quiet) {
    told_ = now;
    told_code_ = failure.code;
    next.is_to_tell = true;
  }
  return next;
}

Result<LeftOut> send_until_stored(const std::function<Result<LeftOut>()>& send,
                                  const UploadWait& wait, const Clock& clock) {
  UploadPatience patience;
  for (;;) {
    Result<LeftOut> sent = send();
    if (sent && patience.has_told()) {
      wait.tell("The store has taken the results at try " +
                std::to_string(patience.failures() + 1));
    }
    if (sent || sent.error().subject != kMayPass) {
      return sent;
    }
    const UploadPatience::NextTry next = patience.after(sent.error(), clock.steady_now());
    if (next.is_to_tell) {
      wait.tell(waiting(sent.error()));
    }
    if (!wait.pause(next.pause)) {
      return Error{Code::kCancelled, "given up: " + sent.error().message};
    }
  }
}

}  // namespace trainyard::instance
