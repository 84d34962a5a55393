// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/gathering.h"

namespace trainyard::instance {
namespace {

void remember(LastLines& tail, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    tail.add(line);
  }
}

}  // namespace

Gathering::Speaker& Gathering::speaker(int rank) {
  const auto found = speakers_.find(rank);
  if (found != speakers_.end()) {
    return found->second;
  }
  const bool named = several_ && rank != kMpirun;
  const std::string prefix = named ? "[rank " + std::to_string(rank) + "] " : "";
  return speakers_.emplace(rank, Speaker{.splitter = LineSplitter(prefix)}).first->second;
}

std::vector<std::string> Gathering::heard(int rank, std::string_view bytes, SteadyTime now) {
  Speaker& from = speaker(rank);
  std::vector<std::string> lines;
  from.splitter.push(bytes, now, lines);
  remember(from.tail, lines);
  return lines;
}

std::vector<std::string> Gathering::tick(SteadyTime now) {
  std::vector<std::string> all;
  for (auto& [rank, from] : speakers_) {
    std::vector<std::string> lines;
    from.splitter.tick(now, lines);
    remember(from.tail, lines);
    all.insert(all.end(), lines.begin(), lines.end());
  }
  return all;
}

std::vector<std::string> Gathering::tail(int rank) {
  const auto& lines = speaker(rank).tail.all();
  return {lines.begin(), lines.end()};
}

std::vector<std::string> Gathering::ended(RankEnd end) {
  Speaker& from = speaker(end.rank);
  std::vector<std::string> lines;
  from.splitter.flush(lines);
  remember(from.tail, lines);
  end.lines = tail(end.rank);
  ends_.push_back(std::move(end));
  --connected_;
  return lines;
}

}  // namespace trainyard::instance
