// SPDX-License-Identifier: Apache-2.0
// Entry of `trainyard instance --server URL --scratch DIR`: the supervisor of one instance of a
// job, over as many attempts as the instance lives. The engine starts it, as root, inside the
// instance's network namespace; or, with `--loopback 12700-12799`, on the machine's network, of
// which these ports are the job's: then it enters a user namespace and needs no root. DIR/token
// holds its token; its own log is standard error. Never started by hand.
#pragma once

#include <string>
#include <vector>

namespace trainyard::instance {

// `args` without the verb. 0: the job's end was heard and answered. 1: it had to leave before, or
// could not begin; standard error says why. SIGTERM stops the job's processes and leaves; SIGUSR1
// and SIGUSR2 are passed on to the user's processes.
int instance_main(const std::vector<std::string>& args);

// Entry of `trainyard instance-probe`: 0 when this user can run instances without root; otherwise
// standard error says what is in the way.
int probe_main();

}  // namespace trainyard::instance
