// SPDX-License-Identifier: Apache-2.0
// The heart of control: from a job, what is known of its instances, its place in the queue and the
// time, the next actions. A pure function; the reconciler applies and performs what it returns and
// asks again until nothing is left to do. Each answer is one step of the life in design.md §5.
#pragma once

#include <variant>
#include <vector>

#include "control/decide/artifacts.h"
#include "control/decide/queue.h"
#include "control/job/job.h"

namespace trainyard::control {

// After a peer has failed: the instances' own grace is 5 s, the rest is for their reports.
inline constexpr std::chrono::milliseconds kAbortBound{15'000};
// Beyond the stop grace, for the same reason.
inline constexpr std::chrono::milliseconds kStopMargin{15'000};

// What config.yaml settles.
struct Limits {
  std::chrono::milliseconds stop_grace = std::chrono::seconds(120);
  std::chrono::milliseconds upload = std::chrono::hours(6);
  std::chrono::milliseconds orphan = std::chrono::hours(24);  // of instances without a server
};

// Changes of the job itself.
struct SetStatus {
  Secondary status;
  std::string message;
};
struct SetMessage {
  std::string message;
};
struct Enter {
  Stage stage;
  std::optional<WallTime> until = {};  // of kRecovering, kEnding, kUploading and kMerging
  std::vector<Merge> merges = {};      // of kUploading: what is to be joined afterwards
  bool has_model = false;              // of kReleasing
  std::string missing = {};            // of kReleasing: whose results are
};
struct Conclude {
  Outcome outcome;
};
struct AbandonAttempt {
  std::string cause;
  std::string host = {};
  std::vector<std::string> also_lost = {};
  std::vector<std::string> to_replace = {};
  // The attempt has not trained yet, and what was lost is older: of the event that ended the one
  // before. It goes on under another epoch and is not counted.
  bool joins = false;
};
// More hosts that the repair under way has to replace; all of them.
struct AlsoLost {
  std::vector<std::string> hosts;
};
// What an older epoch says or holds counts for nothing from here on.
struct NextEpoch {};
// The call of kMerging has failed and is made again after this pause.
struct MergeLater {
  Duration pause{};
};

// Effects outside. Each call follows its Enter and is answered in Facts::call.
struct CheckSource {};
struct PrepareGang {
  std::vector<std::vector<std::string>> gpus;  // of each instance
};
struct StartGang {
  std::vector<std::string> hosts;  // the others run already
};
struct MergeArtifacts {};
struct ReleaseGang {};
struct Send {
  std::string host;
  wire::Command::Kind kind;
  InstanceUpload upload = {};  // of kUpload
  std::optional<wire::UserSignal> signal = {};
};

using Action = std::variant<SetStatus, SetMessage, Enter, Conclude, AbandonAttempt, AlsoLost,
                            NextEpoch, MergeLater, CheckSource, PrepareGang, StartGang,
                            MergeArtifacts, ReleaseGang, Send>;
// Whether the action changes nothing but the job's value.
bool is_value(const Action& action);

std::vector<Action> decide(const Job& job, const Facts& facts, const CapacityView& view,
                           const Limits& limits, const Now& now);

// What the action means for the values; effects mean nothing here but what they remember.
void apply(const Action& action, const Now& now, Job& job, Facts& facts);

// One line for logs and test failures: "Send algo-1 abort".
std::string describe(const Action& action);

}  // namespace trainyard::control
