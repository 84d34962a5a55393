// SPDX-License-Identifier: Apache-2.0
// The SM_* variables that the SageMaker training toolkit sets for a script, from the same sources:
// the resource configuration, the channels and the hyperparameters. Pure. Names and JSON forms
// follow aws/sagemaker-training-toolkit, environment.py.
//
// SM_HP_<KEY> and SM_CHANNEL_<NAME>: variable_names.h says which names a key gets.
#pragma once

#include <string>
#include <vector>

#include "instance/launch/environment.h"
#include "instance/launch/hyperparameters.h"
#include "wire/messages.h"

namespace trainyard::instance {

struct ScriptFacts {
  std::string program;           // "train.py"
  std::string submit_directory;  // as given: an S3 URI or a path
};

Variables script_variables(const wire::Assignment& assignment, const Hyperparameters& all,
                           const ScriptFacts& script);

// What the job's log is to say of keys whose variables clash or cannot be.
std::vector<std::string> naming_notes(const wire::Assignment& assignment,
                                      const Hyperparameters& all);

}  // namespace trainyard::instance
