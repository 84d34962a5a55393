// SPDX-License-Identifier: Apache-2.0
// A training job as a value: what was asked, how far it is, and what its instances have said. The
// tables store it, decide() reads it, job_state.h changes it, describe.h shows it to clients. It
// does nothing itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "control/engine.h"
#include "wire/messages.h"

namespace trainyard::control {

// Both clocks at one moment.
struct Now {
  WallTime wall{};
  SteadyTime steady{};
};

// SecondaryStatus of the API. TrainingJobStatus follows from it (status_name()).
enum class Secondary {
  kStarting,
  kDownloading,
  kTraining,
  kUploading,
  kStopping,
  kCompleted,
  kFailed,
  kStopped,
  kMaxRuntimeExceeded,
  kMaxWaitTimeExceeded,
};
std::string_view name_of(Secondary secondary);
std::string_view status_name(Secondary secondary);  // "InProgress", ...
bool is_terminal(Secondary secondary);

// What the reconciler is doing with the job; clients never see it. Exactly one blocking call is in
// flight in the stages marked so, none in the others.
enum class Stage {
  kNew,
  kChecking,     // call: reads the source archive
  kWaiting,      // for capacity
  kPreparing,    // call: Engine::prepare; holds capacity from here on
  kLaunching,    // call: Engine::start
  kRegrouping,   // call: Engine::release of a gang that did not start; then it waits again
  kRunning,      // instances download, wait at the barrier, train
  kRecovering,   // an instance was lost; waits for the user's programs on the others to end
  kRelaunching,  // call: Engine::start of those that replace the lost ones
  kEnding,       // the outcome is known; waits for the user's programs to end
  kUploading,    // instances upload artifacts
  kMerging,      // call: joins artifacts of several instances
  kReleasing,    // call: Engine::release
  kDone,
};
std::string_view name_of(Stage stage);
bool holds_capacity(Stage stage);
bool has_instances(Stage stage);  // that may speak
bool has_call(Stage stage);

struct Transition {
  Secondary status = Secondary::kStarting;
  WallTime start{};
  std::optional<WallTime> end = {};
  std::string message;
};

// One try to run the job. The first begins when its machines are granted; a platform fault ends it
// and the next follows, as long as the request allows.
struct Attempt {
  int epoch = 1;
  WallTime start{};
  std::optional<WallTime> end = {};
  std::string cause = {};                   // why it ended, when that was no success
  std::string host = {};                    // the instance that was at fault, if it was one
  std::vector<std::string> also_lost = {};  // hosts that the same repair had to replace
  // As `end`, by the clock as it is set now (run/clock_jump.h). Empty: `end`.
  std::optional<WallTime> counts_as_ended = {};
};
// The names, at most so many of them: "algo-1, algo-2, algo-3 and 2 more".
std::string some_of(std::vector<std::string> names, std::size_t named = 3);
// The cause with all who were lost: "instance algo-2 was lost (...), and so were algo-3, algo-4
// and 2 more".
std::string full_cause(std::string_view cause, const std::vector<std::string>& also_lost);

// How the job will end, known as soon as the first cause is.
struct Outcome {
  Secondary status = Secondary::kCompleted;
  std::string reason = {};  // FailureReason, with its class; only of kFailed
  WallTime at{};
};

// Parts in the object store that become one object, in this order.
struct Merge {
  std::vector<std::string> parts;
  std::string target;
};

struct Job {
  std::int64_t sequence = 0;  // order of creation
  std::string name;
  std::string arn;
  nlohmann::json request = {};   // as accepted
  std::string environment = {};  // directory that the image name maps to
  int instances = 1;
  int gpus_per_instance = 0;

  Stage stage = Stage::kNew;
  Secondary secondary = Secondary::kStarting;
  std::vector<Transition> transitions = {};
  WallTime created{};
  WallTime modified{};
  std::optional<WallTime> training_start = {};
  std::optional<WallTime> training_end = {};
  // When the job was created and began to train, as the wall clock would have shown it as it is set
  // now (run/clock_jump.h): limits count from here. Empty: the times above.
  std::optional<WallTime> wait_counts_from = {};
  std::optional<WallTime> runtime_counts_from = {};
  std::optional<WallTime> stored_at = {};  // when this was stored last
  std::optional<WallTime> stop_requested = {};
  std::optional<Outcome> outcome = {};
  std::optional<WallTime> waiting_since = {};  // in kWaiting
  // kRecovering, kEnding, kUploading and kMerging wait no longer than this.
  std::optional<WallTime> stage_until = {};

  int epoch = 1;       // of the current attempt
  int gang_epoch = 1;  // in which the gang was prepared that the engine knows
  std::vector<Attempt> attempts = {};
  // That have followed each other since it trained last, and joins that have failed since.
  int repairs = 0;
  std::optional<WallTime> start_after = {};  // of a repair, or a join, that has to wait
  // Hosts that Engine::start is asked for, in kLaunching and kRelaunching; before that, in
  // kRecovering, those that are known to need it.
  std::vector<std::string> to_start = {};
  std::optional<WallTime> launched = {};  // the first time; names the log streams
  GangNetwork network = {};
  std::vector<std::vector<std::string>> gpus = {};  // devices of algo-(i+1)
  std::vector<Merge> merges = {};
  std::string missing = {};  // at the end: whose results are, and why; empty: nobody's
  bool has_model = false;    // at the end: /opt/ml/model held something, and it is in the store
};

// What is known of one instance of the current attempt.
struct InstanceFacts {
  std::string host;
  wire::Phase phase = wire::Phase::kStarting;
  std::optional<wire::Exit> exit = {};
  std::optional<Error> error = {};
  std::string message = {};            // the last one reported
  int incarnation = 1;                 // the epoch in which its supervisor was started
  std::optional<WallTime> heard = {};  // when it last reported something new
  bool is_flushing = false;  // its processes have ended, their checkpoints are on the way to S3
  // Where its log stream ends when it holds the lines of what is acknowledged and no others;
  // unknown until the first of them is to be added. What is behind is repeated, should the instance
  // send it again.
  std::optional<std::uint64_t> log_end = {};
  // These three are not stored: a restarted server starts from what it sees.
  std::string unstored = {};  // why the server could not keep its last reports; empty: it could
  bool supervisor_ended = false;
  std::optional<Now> last_report = {};  // none before the first
};

// Everything that decide() may know of a job beside the job itself. Not stored.
struct Facts {
  std::vector<InstanceFacts> instances = {};  // algo-1, algo-2, ...
  Now launched{};  // when this attempt's instances were started or re-adopted
  std::optional<Result<void>> call = {};  // outcome of the call of the current stage
};

std::string host_name(int index);  // 0 -> "algo-1"

// The parts of the request that decisions need, with the service's defaults.
std::chrono::seconds max_runtime(const Job& job);
std::optional<std::chrono::seconds> max_wait(const Job& job);     // from its creation; spot only
std::optional<std::chrono::seconds> max_pending(const Job& job);  // in kWaiting
int max_attempts(const Job& job);                                 // 1 + RetryStrategy
GangId gang_of(const Job& job);
// What is shown of a job that has not trained yet, with what its request is warned of.
std::string with_warning(std::string shown, const Job& job);
bool is_isolated(const Job& job);
bool is_compressed(const Job& job);           // OutputDataConfig.CompressionType
std::string artifact_prefix(const Job& job);  // "s3://bucket/prefix/<job>/output"
std::string model_uri(const Job& job);        // S3ModelArtifacts: known from the start
std::string log_stream(const Job& job, std::string_view host);
nlohmann::json hyperparameters(const Job& job);  // an object, possibly empty

// The columns `state` and `facts` of the database. kCorrupt names what is missing.
nlohmann::json state_to_json(const Job& job);
Result<void> state_from_json(const nlohmann::json& json, Job& job);
nlohmann::json facts_to_json(const InstanceFacts& facts);
Result<void> facts_from_json(const nlohmann::json& json, InstanceFacts& facts);

}  // namespace trainyard::control
