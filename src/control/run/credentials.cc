// SPDX-License-Identifier: Apache-2.0
#include "control/run/credentials.h"

namespace trainyard::control {

using nlohmann::json;

Result<json> credentials_for(const InstanceCaller& caller, Sessions& sessions, Identity& identity) {
  YARD_TRY(const InstanceKey instance, sessions.find(caller));
  // From here on the attempt is named, also for a caller that does not name it.
  const InstanceCaller named{.token = caller.token, .epoch = instance.epoch};
  YARD_TRY(const json assignment, sessions.assignment(named));
  const std::string role = assignment.at("request").at("RoleArn").get<std::string>();
  YARD_TRY(const AccessKey key,
           identity.key_for_job({.job = instance.job, .epoch = instance.epoch, .role_arn = role}));
  if (const auto still = sessions.find(named); !still) {
    // The attempt ended meanwhile, and its keys were revoked before this one was made.
    YARD_TRY(identity.revoke(instance.job, instance.epoch));
    return still.error();
  }
  return wire::to_json(wire::Credentials{.role_arn = role,
                                         .access_key_id = key.access_key_id,
                                         .secret_access_key = key.secret_access_key,
                                         .session_token = key.session_token,
                                         .expires = key.expires.value_or(WallTime())});
}

}  // namespace trainyard::control
