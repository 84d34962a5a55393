// SPDX-License-Identifier: Apache-2.0
#include "instance/link/role_credentials.h"

#include <algorithm>

namespace trainyard::instance {
namespace {

constexpr Duration kRenewBefore{300'000};

}  // namespace

Result<wire::Credentials> RoleCredentials::get(bool refresh) {
  {
    std::unique_lock lock(mutex_);
    if (fetching_) {
      fetched_.wait(lock, [&] { return !fetching_; });
      refresh = false;
    }
    if (!refresh && current_ && clock_.now() < renew_at_) {
      return *current_;
    }
    fetching_ = true;
  }
  const WallTime asked = clock_.now();
  Result<wire::Credentials> fetched = link_.credentials();
  const MutexLock lock(mutex_);
  fetching_ = false;
  fetched_.notify_all();
  if (fetched) {
    // Keys that live for a minute are renewed after half of it.
    const Duration left = fetched->expires - asked;
    renew_at_ = fetched->expires - std::min(kRenewBefore, left / 2);
    current_ = *fetched;
    return fetched;
  }
  if (!refresh && current_ && clock_.now() < current_->expires) {
    return *current_;
  }
  return fetched.error().in("renewing the credentials of the job's role");
}

Result<http::Credentials> RoleCredentials::signing_keys(bool refresh) {
  YARD_TRY(wire::Credentials keys, get(refresh));
  return http::Credentials{.access_key_id = std::move(keys.access_key_id),
                           .secret_access_key = std::move(keys.secret_access_key),
                           .session_token = std::move(keys.session_token)};
}

}  // namespace trainyard::instance
