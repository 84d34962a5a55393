// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/report.h"

#include <unistd.h>

#include "base/fd.h"
#include "instance/mpi/verdict.h"

namespace trainyard::instance {
namespace {

// Init will report our own end as well: a failure of ours after a victim's end would be taken for
// its cause.
int exit_code(const ProcessEnd& end) {
  return end.victim ? 0 : shell_code({.code = end.code, .signal = end.signal});
}

}  // namespace

// A supervisor that cannot be told is gone, and takes us with it.

int report_end(const ProcessEnd& end) {
  if (end.code != 0 || end.signal != 0) {
    static_cast<void>(write_all(kStatusFd, to_line(end) + "\n"));
  }
  return exit_code(end);
}

int report_lost(const Error& error) {
  static_cast<void>(write_all(STDOUT_FILENO, "The MPI launch ends: " + error.message + "\n"));
  return report_end({.code = 1, .victim = true, .at = SystemClock().now()});
}

}  // namespace trainyard::instance
