// SPDX-License-Identifier: Apache-2.0
// Signing keys of Signature Version 4 that were derived before: one serves all requests of a key
// for one day, region and service, and deriving it costs four HMACs. Held in memory, like the
// secrets themselves. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "http/sigv4.h"

namespace trainyard::http {

class SigningKeys {
 public:
  // The raw key of `secret` for the day of `time` ("20261129T201205Z"). A secret that was changed
  // is found out.
  std::string of(const Credentials& credentials, std::string_view time, const SigningScope& scope);

 private:
  struct Derived {
    std::string secret;
    std::string scope;
    std::string key;
  };

  Mutex mutex_;
  std::unordered_map<std::string, Derived> derived_ GUARDED_BY(mutex_);  // by access key
};

}  // namespace trainyard::http
