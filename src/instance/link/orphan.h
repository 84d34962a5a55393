// SPDX-License-Identifier: Apache-2.0
// What an instance does of its own accord while it hears nothing of its server, which else enforces
// every limit: a program that hangs must not keep a machine for ever because nobody is there to end
// it, and results must not be lost because nobody was there for a night. Pure functions; the
// session asks them about once a second.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "wire/messages.h"

namespace trainyard::instance {

enum class OrphanStep {
  kGoOn,
  kStop,   // the program's time is over: as a stop of the server's
  kLeave,  // nobody comes back: end all processes and exit
};

struct OrphanLimits {
  // Of the request, and the stop grace on top of it: by then a server that lives has ended the job.
  Duration runtime{};
  Duration orphan{};  // without a word of the server's, while no program runs
};

OrphanLimits orphan_limits(const wire::Assignment& assignment);

struct OrphanFacts {
  std::optional<SteadyTime> runs_since = {};  // the user's program, unless it has ended
  SteadyTime idle_since{};                    // no program has run since then
  SteadyTime heard{};                         // the server, last
};

OrphanStep orphan_step(const OrphanFacts& facts, const OrphanLimits& limits, SteadyTime now);

// What the log says of a step that was taken; the results of the job lie in `scratch`.
std::string describe(OrphanStep step, const OrphanLimits& limits, const std::string& scratch);

}  // namespace trainyard::instance
