// SPDX-License-Identifier: Apache-2.0
// The temporary keys of the job's role, renewed from the server well before they expire. Shared by
// the S3 client and by the endpoint that user code asks; one thread at a time fetches, the others
// wait for it.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "http/sigv4.h"
#include "instance/link/server_link.h"
#include "wire/messages.h"

namespace trainyard::instance {

class RoleCredentials {
 public:
  RoleCredentials(ServerLink& link, Clock& clock) : link_(link), clock_(clock) {}

  // Keys that are good for a while. `refresh`: the ones handed out before were refused. While the
  // server is away the old ones are given until they expire.
  Result<wire::Credentials> get(bool refresh = false);
  Result<http::Credentials> signing_keys(bool refresh);

 private:
  ServerLink& link_;
  Clock& clock_;
  Mutex mutex_;
  ConditionVariable fetched_;
  bool fetching_ GUARDED_BY(mutex_) = false;
  std::optional<wire::Credentials> current_ GUARDED_BY(mutex_);
  WallTime renew_at_ GUARDED_BY(mutex_){};
};

}  // namespace trainyard::instance
