// SPDX-License-Identifier: Apache-2.0
// The verbs of the `trainyard` program that are plain clients of the AWS API: submit, list,
// describe, logs, why, stop, delete. Whatever they do, `aws sagemaker` and `aws logs` can do too.
// They know nothing of the server's inside; apps/trainyard/main.cc hands them every verb that is
// not the server's own.
#pragma once

#include <string>
#include <vector>

namespace trainyard::cli {

// `args` without the program's name. Gives the exit code: 0 done; 1 refused, or the awaited job did
// not complete; 2 wrong usage; 130 interrupted. Call it before any thread is started: it takes
// SIGINT over while it follows a job.
int client_main(const std::vector<std::string>& args);

}  // namespace trainyard::cli
