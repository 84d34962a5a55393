// SPDX-License-Identifier: Apache-2.0
// How the packages that come with a script get into its Python environment: which installer takes
// them, how it is called, and what a user can do when it fails. Pure; session.cc runs the steps.
//
// uv is the quicker one. pip is what the training toolkit calls: it installs where uv is not there,
// and where one of its own variables (PIP_INDEX_URL, PIP_CONSTRAINT, ...) or a configuration file
// of its own says what or from where. Where pip is not there, uv is told the same (pip_settings.h).
#pragma once

#include <string>
#include <vector>

#include "instance/launch/launch_plan.h"

namespace trainyard::instance {

// The job's interpreter: of its environment, else the machine's.
std::string python_of(const wire::Assignment& assignment);

std::vector<SetupStep> setup_steps(const wire::Assignment& assignment, const CodeFacts& facts,
                                   const Variables& environment);

// Empty when an installer's last lines say all that there is to say.
std::string installer_advice(const std::vector<std::string>& last_lines);

}  // namespace trainyard::instance
