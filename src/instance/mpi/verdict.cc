// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/verdict.h"

#include <algorithm>

namespace trainyard::instance {
namespace {

const RankEnd* culprit_in(const LaunchFacts& facts) {
  const auto find = [&](auto matches) {
    const auto found = std::find_if(facts.ends.begin(), facts.ends.end(), matches);
    return found == facts.ends.end() ? nullptr : &*found;
  };
  const int code = shell_code(facts.mpirun);
  const RankEnd* same =
      find([&](const RankEnd& end) { return !end.status.ok() && shell_code(end.status) == code; });
  return same != nullptr ? same : find([](const RankEnd& end) { return !end.status.ok(); });
}

}  // namespace

int shell_code(ExitStatus status) {
  constexpr int kSignalled = 128;
  return status.signal != 0 ? kSignalled + status.signal : status.code;
}

ProcessEnd verdict_of(const LaunchFacts& facts) {
  ProcessEnd end{.at = facts.at};
  if (facts.mpirun.ok()) {
    return end;
  }
  end.victim = facts.stopping;
  const RankEnd* const culprit = culprit_in(facts);
  if (culprit == nullptr) {
    end.code = facts.mpirun.code;
    end.signal = facts.mpirun.signal;
    return end;
  }
  end.code = culprit->status.code;
  end.signal = culprit->status.signal;
  end.at = culprit->at;
  end.rank = culprit->rank;
  end.host = culprit->host;
  end.lines = culprit->lines;
  return end;
}

}  // namespace trainyard::instance
