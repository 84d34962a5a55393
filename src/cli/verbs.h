// SPDX-License-Identifier: Apache-2.0
// What each verb does, given its options and a way to reach the server. An error is for the person
// at the terminal; the value is the exit code.
#pragma once

#include <iosfwd>

#include "base/clock.h"
#include "base/result.h"
#include "cli/api_client.h"
#include "cli/follow.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace trainyard::cli {

// All of it outlives the call.
struct Session {
  const ApiClient& api;
  const Terminal& terminal;
  Clock& clock;
  std::istream& in;
  Pause pause;
};

Result<int> run_verb(const Options& options, const Session& session);

}  // namespace trainyard::cli
