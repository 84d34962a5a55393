// SPDX-License-Identifier: Apache-2.0
#include "comm/run/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trainyard::comm {

Error disagreement(const Scene& scene, std::int32_t peer, const Label& theirs, std::size_t got,
                   std::size_t wanted) {
  const std::string mine = to_string(scene.label.signature);
  if (theirs == scene.label) {
    return Error{
        Code::kConflict,
        fmt::format("the ranks of '{}' disagree in operation {}, {}: rank {} sent {} "
                    "bytes where rank {} expects {}; their counts or algorithms differ",
                    scene.communicator, theirs.sequence, mine, peer, got, scene.rank, wanted)};
  }
  return Error{
      Code::kConflict,
      fmt::format("the ranks of '{}' disagree: rank {} is in operation {}, {}; rank {} is in "
                  "operation {}, {}",
                  scene.communicator, scene.rank, scene.label.sequence, mine, peer, theirs.sequence,
                  to_string(theirs.signature))};
}

Error overdue(const Scene& scene, const Overdue& what) {
  std::vector<std::string> silent;
  for (const SilentRank& one : what.silent) {
    silent.push_back(one.last_issued
                         ? fmt::format("{} (last in operation {})", one.rank, *one.last_issued)
                         : std::to_string(one.rank));
  }
  std::string text =
      fmt::format("operation {} of '{}', {} ({} bytes), took longer than {} ms on rank {}",
                  scene.label.sequence, scene.communicator, to_string(scene.label.signature),
                  what.bytes, what.timeout.count(), scene.rank);
  if (what.peer >= 0) {
    text += fmt::format(", which waits for rank {}", what.peer);
  }
  text += fmt::format("; heard in it from ranks: {}; not from: {}",
                      what.heard.empty() ? "none" : fmt::format("{}", fmt::join(what.heard, ", ")),
                      silent.empty() ? "none" : fmt::format("{}", fmt::join(silent, ", ")));
  return Error{Code::kDeadline, std::move(text)};
}

Error out_of_reach(const Scene& scene, std::int32_t peer, const Error& why) {
  return Error{
      Code::kUnavailable,
      fmt::format("operation {} of '{}', {}: rank {} cannot read the memory of rank {} any "
                  "more: {}",
                  scene.label.sequence, scene.communicator, to_string(scene.label.signature),
                  scene.rank, peer, why.message)};
}

}  // namespace trainyard::comm
