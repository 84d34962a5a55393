// SPDX-License-Identifier: Apache-2.0
// The keys that an instance asks for: those of its job's role, for its attempt only.
#pragma once

#include "control/identity.h"
#include "control/run/sessions.h"

namespace trainyard::control {

// Errors as Sessions::find().
Result<nlohmann::json> credentials_for(const InstanceCaller& caller, Sessions& sessions,
                                       Identity& identity);

}  // namespace trainyard::control
