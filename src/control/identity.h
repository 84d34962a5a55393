// SPDX-License-Identifier: Apache-2.0
// Who may call: the access key that the first start makes, and the temporary keys of running jobs.
// Keys live in the database, so that a restarted server still knows them, and in memory, because
// every request asks for one. Any thread may call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/random.h"
#include "control/control.h"
#include "control/tables/database.h"

namespace trainyard::control {

inline constexpr std::chrono::minutes kKeyLife{60};
// A key with less life than this is replaced when the instance asks; the old one stays valid.
inline constexpr std::chrono::minutes kKeyRenewal{30};

struct JobRole {
  std::string job;
  int epoch = 1;
  std::string role_arn;
};

class Identity {
 public:
  // Makes the first key when there is none, and writes it to `credentials_file` (0600, the AWS
  // tools' form) when the file is missing.
  static Result<std::unique_ptr<Identity>> open(Database& database, Clock& clock, Random& random,
                                                const std::string& account,
                                                const Path& credentials_file);

  std::optional<AccessKey> find(std::string_view access_key_id);
  AccessKey root();
  // wire::make_token() under the first key's secret: another home has other tokens.
  std::string instance_token(std::string_view id);

  // The attempt's current key, or a new one when it nears its end.
  Result<AccessKey> key_for_job(const JobRole& role);
  // Whether it was a job's, whose attempt is over. One that ran out is none of these before that:
  // what it has begun may still be on the way.
  bool is_revoked(std::string_view access_key_id);
  // The job's attempts up to `epoch` are over: their keys are worth nothing from here on.
  Result<void> revoke(const std::string& job, int epoch);
  // The same for keys that are no longer in the database.
  void forget(const std::string& job, int epoch);
  // At start: revokes the keys of all attempts that are not `running`.
  Result<void> revoke_all_but(
      const std::function<bool(const std::string& job, int epoch)>& running);

 private:
  struct Held {
    AccessKey key;
    std::string job;  // empty: not of a job
    int epoch = 0;
  };
  Identity(Database& database, Clock& clock, Random& random, std::string account)
      : database_(database), clock_(clock), random_(random), account_(std::move(account)) {}
  Result<void> load();
  Result<void> make_root();
  Result<void> store(const Held& held);
  std::string random_text(std::size_t length, std::string_view alphabet);

  Database& database_;
  Clock& clock_;
  Random& random_;
  std::string account_;

  Mutex mutex_;
  std::map<std::string, Held, std::less<>> keys_ GUARDED_BY(mutex_);
  std::string root_id_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::control
