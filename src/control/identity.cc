// SPDX-License-Identifier: Apache-2.0
#include "control/identity.h"

#include <fmt/format.h>

#include "api/arn.h"
#include "base/log.h"
#include "control/tables/identity_table.h"
#include "wire/proof.h"

namespace trainyard::control {
namespace {

constexpr std::string_view kIdAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
// AWS's also have '/' and '+', which break copying into URLs and shells; 40 of these are 238 bits.
constexpr std::string_view kSecretAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view kTemporary = "ASIA";  // of jobs, and of nobody else
constexpr std::size_t kIdLength = 16;            // after the four letters that say what it is
constexpr std::size_t kSecretLength = 40;
constexpr std::size_t kSessionTokenLength = 120;
constexpr std::string_view kSession = "SageMaker";

std::string credentials_text(const AccessKey& key) {
  return fmt::format("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
                     key.access_key_id, key.secret_access_key);
}

}  // namespace

Result<std::unique_ptr<Identity>> Identity::open(Database& database, Clock& clock, Random& random,
                                                 const std::string& account,
                                                 const Path& credentials_file) {
  std::unique_ptr<Identity> identity(new Identity(database, clock, random, account));
  YARD_TRY(identity->load());
  if (identity->root().access_key_id.empty()) {
    YARD_TRY(identity->make_root());
  }
  std::error_code ignored;
  if (!std::filesystem::exists(credentials_file, ignored)) {
    YARD_TRY(write_file_durably(credentials_file, credentials_text(identity->root()), 0600));
    log_info(fmt::format("the access key is in {}", credentials_file.string()));
  }
  return identity;
}

Result<void> Identity::load() {
  YARD_TRY(const std::vector<KeyRow> rows, database_.read(all_keys));
  const MutexLock lock(mutex_);
  for (const KeyRow& row : rows) {
    if (row.job.empty()) {
      root_id_ = row.key.access_key_id;
    }
    keys_[row.key.access_key_id] = {.key = row.key, .job = row.job, .epoch = row.epoch};
  }
  return {};
}

Result<void> Identity::make_root() {
  const Held held{.key = {.access_key_id = "AKIA" + random_text(kIdLength, kIdAlphabet),
                          .secret_access_key = random_text(kSecretLength, kSecretAlphabet),
                          .arn = fmt::format("arn:aws:iam::{}:user/admin", account_),
                          .user_id = "AIDA" + random_text(kIdLength, kIdAlphabet)},
                  .job = {}};
  YARD_TRY(store(held));
  const MutexLock lock(mutex_);
  root_id_ = held.key.access_key_id;
  return {};
}

Result<void> Identity::store(const Held& held) {
  const auto insert = [&](Connection& connection) {
    return insert_key(connection, {.key = held.key, .job = held.job, .epoch = held.epoch});
  };
  YARD_TRY(database_.write(insert));
  const MutexLock lock(mutex_);
  keys_[held.key.access_key_id] = held;
  return {};
}

std::optional<AccessKey> Identity::find(std::string_view access_key_id) {
  const MutexLock lock(mutex_);
  const auto found = keys_.find(access_key_id);
  return found == keys_.end() ? std::nullopt : std::optional(found->second.key);
}

AccessKey Identity::root() {
  const MutexLock lock(mutex_);
  const auto found = keys_.find(root_id_);
  return found == keys_.end() ? AccessKey() : found->second.key;
}

std::string Identity::instance_token(std::string_view id) {
  return wire::make_token(root().secret_access_key, id);
}

Result<AccessKey> Identity::key_for_job(const JobRole& role) {
  const WallTime now = clock_.now();
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, held] : keys_) {
      const bool is_ours = held.job == role.job && held.epoch == role.epoch;
      if (is_ours && held.key.expires && *held.key.expires - now > kKeyRenewal) {
        return held.key;
      }
    }
  }
  YARD_TRY(const std::string name, api::role_name_of(role.role_arn));
  const Held held{
      .key = {.access_key_id = std::string(kTemporary) + random_text(kIdLength, kIdAlphabet),
              .secret_access_key = random_text(kSecretLength, kSecretAlphabet),
              .session_token = random_text(kSessionTokenLength, kSecretAlphabet),
              .expires = now + kKeyLife,
              .arn = api::assumed_role_arn(account_, name, kSession),
              .user_id = fmt::format("AROA{}:{}", random_text(kIdLength, kIdAlphabet), kSession)},
      .job = role.job,
      .epoch = role.epoch};
  YARD_TRY(store(held));
  return held.key;
}

bool Identity::is_revoked(std::string_view access_key_id) {
  return access_key_id.starts_with(kTemporary) && !find(access_key_id);
}

Result<void> Identity::revoke(const std::string& job, int epoch) {
  forget(job, epoch);
  return database_.write(
      [&](Connection& connection) { return delete_keys_of(connection, job, epoch); });
}

void Identity::forget(const std::string& job, int epoch) {
  const MutexLock lock(mutex_);
  std::erase_if(keys_, [&](const auto& item) {
    return item.second.job == job && item.second.epoch <= epoch;
  });
}

Result<void> Identity::revoke_all_but(
    const std::function<bool(const std::string& job, int epoch)>& running) {
  YARD_TRY(const std::vector<KeyRow> rows, database_.read(all_keys));
  for (const KeyRow& row : rows) {
    if (!row.job.empty() && !running(row.job, row.epoch)) {
      YARD_TRY(revoke(row.job, row.epoch));
    }
  }
  return {};
}

std::string Identity::random_text(std::size_t length, std::string_view alphabet) {
  std::string text;
  while (text.size() < length) {
    text += alphabet[random_.next() % alphabet.size()];
  }
  return text;
}

}  // namespace trainyard::control
