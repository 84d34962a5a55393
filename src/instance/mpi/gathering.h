// SPDX-License-Identifier: Apache-2.0
// What the leader has heard of every rank, wherever it runs: bytes go in, whole lines come out,
// each beginning with "[rank N] " when there are several ranks. Pure; one thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "instance/mpi/verdict.h"
#include "instance/run/line_splitter.h"
#include "instance/run/log_pump.h"

namespace trainyard::instance {

class Gathering {
 public:
  static constexpr int kMpirun = -1;  // as a rank: mpirun's own words, and ours

  explicit Gathering(bool several) : several_(several) {}

  void joined() { ++connected_; }
  std::vector<std::string> heard(int rank, std::string_view bytes, SteadyTime now);
  // The latest states of progress bars that stand still.
  std::vector<std::string> tick(SteadyTime now);
  // `end` without its lines. What the rank has printed without a line end comes out.
  std::vector<std::string> ended(RankEnd end);

  bool is_quiet() const { return connected_ == 0; }
  const std::vector<RankEnd>& ends() const { return ends_; }
  std::vector<std::string> tail(int rank);  // its last lines, cut as LastLines does

 private:
  struct Speaker {
    LineSplitter splitter;
    LastLines tail = {};
  };

  Speaker& speaker(int rank);

  bool several_;
  int connected_ = 0;
  std::map<int, Speaker> speakers_;
  std::vector<RankEnd> ends_;
};

}  // namespace trainyard::instance
