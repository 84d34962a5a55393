// SPDX-License-Identifier: Apache-2.0
// What ended a job badly, as one FailureReason of at most 1,024 characters. Clients branch on its
// first word: AlgorithmError (the user's program), ClientError (what the user asked for),
// CapacityError (no room: retry later), InternalServerError (us or the machine: retry). The culprit
// is whatever happened first; what we stopped because of it is named as a victim, not as a cause.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "control/job/job.h"

namespace trainyard::control {

inline constexpr std::size_t kMaxReason = 1024;  // characters, as the API has it
// An instance has this long from its start to its first report.
inline constexpr std::chrono::milliseconds kFirstReport{60'000};
// What one event takes goes within this time.
inline constexpr Duration kOneEvent{10'000};

struct Fault {
  WallTime at{};
  std::string reason;        // FailureReason
  std::string host = {};     // empty: of no single instance
  bool is_platform = false;  // the machine's fault or ours: worth another attempt
  WallTime began{};          // when it may have begun, at the earliest; who was first is told by it
};

// The reason without its class: "instance algo-2 was lost (its supervisor ended)".
std::string_view cause_of(const Fault& fault);

// "ClientError: ..." or "InternalServerError: ..." by the code.
std::string reason_of(const Error& error);
// Of an engine that could not start the gang: CapacityError when nodes are lacking.
std::string launch_reason_of(const Error& error);
// "AlgorithmError: rank 1 on algo-2 exited with code 3; last lines: ..., exit code: 3".
std::string reason_of(const InstanceFacts& culprit, const Facts& facts);

// When the first program ended that its instance had stopped for MaxRuntimeInSeconds, as no server
// was there to do it.
std::optional<WallTime> overdue_since(const Facts& facts);

// Gone without having finished: its supervisor has ended, or it is silent.
bool is_lost(const InstanceFacts& instance, const Facts& facts, const Now& now);

// The instance's own fault. Once we have `asked` instances to end, one that was stopped has none,
// unless somebody else has told its supervisor to leave.
std::optional<Fault> fault_of(const InstanceFacts& instance, const Facts& facts, bool asked,
                              const Now& now);

// Who else was lost at about the same time as an instance whose loss `first` is.
std::vector<std::string> lost_together(const Fault& first, const Facts& facts, const Now& now);

// The earliest of all that went wrong. A lost instance counts from its last report: its peers fail
// because of it, and may well say so before its silence is noticed.
std::optional<Fault> first_fault(const Facts& facts, bool asked, const Now& now);

}  // namespace trainyard::control
