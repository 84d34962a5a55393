// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/rank_talk.h"

#include <csignal>

#include <nlohmann/json.hpp>

#include "instance/launch/request.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;

constexpr std::chrono::hours kLongestJob{24 * 365};

Result<ExitStatus> status_from(const std::string& payload) {
  const json status = json::parse(payload, nullptr, false);
  const json& code = member(status, "code");
  const json& signal = member(status, "signal");
  if (!code.is_number_integer() || !signal.is_number_integer()) {
    return Error{Code::kCorrupt, "a rank does not say how it ended"};
  }
  return ExitStatus{.code = code.get<int>(), .signal = signal.get<int>()};
}

Result<ExitStatus> listen(Connection& rank, int number, const RankSinks& sinks,
                          const std::stop_token& stop) {
  while (true) {
    YARD_TRY(Frame frame, rank.next(kLongestJob, stop));
    if (frame.kind == FrameKind::kFinished) {
      return status_from(frame.payload);
    }
    if (frame.kind == FrameKind::kOutput) {
      sinks.heard(number, std::move(frame.payload));
    }
  }
}

}  // namespace

void talk_to_rank(Connection rank, const RankSinks& sinks, const std::stop_token& stop) {
  const Result<Frame> first = rank.next(kHandshakePatience, stop);
  if (!first || first->kind != FrameKind::kRank) {
    return;
  }
  const json who = json::parse(first->payload, nullptr, false);
  const json& number = member(who, "rank");
  if (!number.is_number_integer()) {
    return;
  }
  sinks.joined();
  RankEnd end{.rank = number.get<int>(), .host = text_at(who, "host"), .status = {}};
  if (const std::optional<std::string> program = sinks.start(); !program) {
    end.status.signal = SIGTERM;
  } else if (!rank.send(FrameKind::kStart, *program)) {
    end.status.signal = SIGKILL;
  } else {
    // One that leaves without a word was killed.
    end.status = listen(rank, end.rank, sinks, stop).value_or({.code = 0, .signal = SIGKILL});
  }
  sinks.ended(std::move(end));
  static_cast<void>(rank.send(FrameKind::kTold));
}

}  // namespace trainyard::instance
