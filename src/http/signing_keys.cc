// SPDX-License-Identifier: Apache-2.0
#include "http/signing_keys.h"

#include "http/internal/sigv4_canonical.h"

namespace trainyard::http {
namespace {

// Jobs come and go, and their keys with them: then all are derived again.
constexpr std::size_t kMost = 1'024;

}  // namespace

std::string SigningKeys::of(const Credentials& credentials, std::string_view time,
                            const SigningScope& scope) {
  std::string wanted = scope_text(time, scope);
  {
    const MutexLock lock(mutex_);
    const auto found = derived_.find(credentials.access_key_id);
    if (found != derived_.end() && found->second.scope == wanted &&
        found->second.secret == credentials.secret_access_key) {
      return found->second.key;
    }
  }
  std::string key = signing_key(credentials.secret_access_key, time, scope);
  const MutexLock lock(mutex_);
  if (derived_.size() >= kMost) {
    derived_.clear();
  }
  derived_.insert_or_assign(
      credentials.access_key_id,
      Derived{.secret = credentials.secret_access_key, .scope = std::move(wanted), .key = key});
  return key;
}

}  // namespace trainyard::http
