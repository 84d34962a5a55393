// SPDX-License-Identifier: Apache-2.0
// The tests' program is also the program that a container runs as pid 1 and that an engine starts
// as a supervisor, as `trainyard` is outside of tests; and it measures for bench/metrics_bench.py.
#include <string_view>

#include <gtest/gtest.h>

#include "instance/launch/mpi_command.h"
#include "instance/main.h"
#include "instance/mpi/mpi_main.h"
#include "instance/run/init.h"
#include "instance/testing/metrics_rate.h"

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "instance-init") {
    return trainyard::instance::init_main({argv + 2, argv + argc});
  }
  if (verb == "instance") {
    return trainyard::instance::instance_main({argv + 2, argv + argc});
  }
  if (verb == trainyard::instance::kMpiVerb) {
    return trainyard::instance::mpi_main({argv + 2, argv + argc});
  }
  if (verb == trainyard::instance::kMetricsRateVerb) {
    return trainyard::instance::metrics_rate({argv + 2, argv + argc});
  }
  if (verb == trainyard::instance::kLogRateVerb) {
    return trainyard::instance::log_rate({argv + 2, argv + argc});
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
