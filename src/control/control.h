// SPDX-License-Identifier: Apache-2.0
// The control plane as the server sees it: AWS operations in, instance facts in, answers out. It
// owns the database, the logs and the reconciler; it speaks no HTTP. Intent comes in through
// call(), facts through reports(); both end up as events of the one reconciler thread, which lets
// decide() choose the next actions.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "base/result.h"
#include "control/engine.h"
#include "s3/object_store.h"

namespace trainyard::control {

struct ControlOptions {
  Path home;  // $TRAINYARD_HOME; holds trainyard.db, logs/, config.yaml
  std::string region = "us-east-1";
  std::string account = "123456789012";
};

// What control takes from outside. All outlive it.
struct Outside {
  Clock& clock;
  Random& random;
  s3::ObjectStore& objects;
  Engine& engine;
};

// Who signed a request.
struct Caller {
  std::string access_key_id;
  std::string arn;  // "arn:aws:iam::123456789012:user/admin", or an assumed role's
  std::string user_id;
};

struct AccessKey {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token = {};  // of temporary keys
  std::optional<WallTime> expires = {};
  std::string arn;
  std::string user_id = {};  // "AIDA...", or "AROA...:<session>" of a role
};

// Who calls the instance protocol.
struct InstanceCaller {
  std::string token;              // whole; of who has proved that it is his
  std::optional<int> epoch = {};  // the attempt that it speaks for; absent: the current one
};

class Control {
 public:
  static Result<std::unique_ptr<Control>> open(ControlOptions options, Outside outside);
  virtual ~Control() = default;  // stops the reconciler; running jobs go on

  // One operation. `service` is AWS's "sagemaker", "logs", "sts" or "iam", or "trainyard" for what
  // AWS does not have; `input` its JSON. Input is validated here (api::validate). Thread-safe.
  // Errors: see api/errors.h for what clients see.
  virtual Result<nlohmann::json> call(std::string_view service, std::string_view operation,
                                      const nlohmann::json& input, const Caller& caller) = 0;

  // Access keys: nullopt for an unknown one. Thread-safe and fast: called for every request.
  virtual std::optional<AccessKey> find_key(std::string_view access_key_id) = 0;
  // The key made at the first start, as written to <home>/credentials (AWS's file form).
  virtual AccessKey root_key() = 0;

  // The token whose public part is `id` (wire/proof.h), whether or not it was ever given out.
  // Thread-safe and fast: called for every request of an instance.
  virtual std::string instance_token(std::string_view id) = 0;
  // Whether an instance of this token may speak, in any attempt: kDenied for one that is unknown,
  // as below. For what is to be decided before a request is read and proven. Thread-safe.
  virtual Result<void> knows(const InstanceCaller& caller) = 0;
  // For each proven request, before the call that it makes: kConflict, subject "number", when the
  // instance has used this number before. Thread-safe.
  virtual Result<void> hear(const InstanceCaller& caller, std::uint64_t number) = 0;

  // The instance protocol (wire/messages.h). kDenied for a token that is unknown, or belonged to an
  // instance that was replaced. To one that speaks for an older attempt, commands() answers with
  // kRestart, reports() acknowledges and drops everything, credentials() gives kConflict.
  virtual Result<nlohmann::json> assignment(const InstanceCaller& caller) = 0;
  virtual Result<nlohmann::json> reports(const InstanceCaller& caller,
                                         const nlohmann::json& body) = 0;
  virtual Result<nlohmann::json> credentials(const InstanceCaller& caller) = 0;
  // Answers at once when commands after `after` exist, else when one comes or the time is over
  // (then with an empty list). `answer` is called exactly once, from any thread.
  virtual void commands(const InstanceCaller& caller, std::int64_t after,
                        std::chrono::milliseconds time,
                        std::function<void(Result<nlohmann::json>)> answer) = 0;

  // Answers the polls that are held, and those that come later, as by a server that is stopping.
  // Before the HTTP server is told to stop: else that would wait for them.
  virtual void release_polls() = 0;
};

}  // namespace trainyard::control
