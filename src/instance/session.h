// SPDX-License-Identifier: Apache-2.0
// The life of one instance for one attempt of a job, in order: prepare, report ready, wait for the
// others, run the user's program, report how it ended, send the results when told to, leave; or, at
// any point, break off because another attempt has begun (main.cc then makes a new session). One
// thread executes it; everything that happens meanwhile comes in through the inbox, everything that
// is to be told goes out through the reporter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "instance/launch/launch_plan.h"
#include "instance/link/inbox.h"
#include "instance/link/orphan.h"
#include "instance/link/reporter.h"
#include "instance/metrics/metric_watch.h"
#include "instance/run/container_mounts.h"
#include "instance/run/container_run.h"
#include "instance/run/outcome.h"
#include "instance/run/raw_output.h"
#include "instance/transfer/checkpoints.h"
#include "s3/object_store.h"
#include "wire/messages.h"

namespace trainyard::instance {

// What an attempt leaves on this machine to the next one, beside the scratch (machine.h).
struct Carried {
  bool is_used = false;  // an attempt was here before
  std::string layered;   // directory over which a layer is mounted; empty: none
};

enum class SessionEnd {
  kDone,     // the job's end was heard and answered
  kLeft,     // had to leave before
  kRestart,  // a new attempt of the job has begun: nothing of this one is heard any more
};

// What a session works with. All outlive it.
struct SessionParts {
  const wire::Assignment& assignment;
  Path scratch;
  Path meeting = {};  // shared by the gang's instances on this machine (run/rank_places.h)
  std::string credentials_path;
  std::optional<SharedNetwork> shared = {};  // set: the machine's network is ours, too
  s3::ObjectStore& downloads;                // ends early when the job is stopped
  s3::ObjectStore& uploads;                  // ends early when the attempt is over
  MakeStore checkpoint_store;
  Reporter& reporter;
  Inbox& inbox;
  Clock& clock;
  Carried& carried;
};

class Session {
 public:
  explicit Session(SessionParts parts) : in_(std::move(parts)) {
    alone_.idle_since = in_.clock.steady_now();
  }

  // Call it on the main thread: containers end with the thread that has started them.
  SessionEnd run();

 private:
  static constexpr Duration kEventInterval{1000};

  void live();
  void say_last_word();
  Result<void> prepare();
  Result<void> restore_checkpoints(const ProgressSinks& sinks);
  Result<void> make_ready(const LaunchForm& form);
  void layer_python();
  Result<void> install(const std::vector<SetupStep>& steps);
  void tell(const std::string& text);
  void train();
  Result<void> start_mirror();
  void flush_checkpoints();
  void start_metrics();
  void start_raw_output();
  void finish_metrics();
  struct Upload {
    bool sent = false;  // perhaps not all of it
    std::optional<Error> error = {};
  };

  void take_lines(std::vector<wire::LogLine> lines);
  void report_stopped();
  void finish();
  void upload(const wire::Command& command);
  Upload upload_one(const std::optional<wire::ArtifactUpload>& upload,
                    const std::string& directory);
  bool wait_to_send(Duration time);

  Result<RunOutcome> run_container(const std::vector<Process>& processes);
  void wait_for_event(Duration longest = kEventInterval);
  void mind_the_server();
  void take(Event event);
  void take(const wire::Command& command);
  void take(ProcessEnd end);
  void pass_on(int signal);  // to what runs
  void ask_to_stop(Duration grace);
  void expect_kill(Duration grace);
  void tell_kill(std::size_t processes);
  // Unasked: nothing is uploaded, and the server must not take it for one that has.
  bool leaves_early() const { return terminated_ || denied_ || orphaned_; }
  bool must_leave() const { return released_ || restart_ || leaves_early(); }
  Path ml() const { return in_.scratch / "ml"; }

  SessionParts in_;
  ContainerPlaces places_;
  std::optional<Error> no_layer_;  // of its own over the Python environment, for this reason
  Checkpoints checkpoints_;
  LaunchPlan plan_;
  std::string remark_;  // of the preparation, in each of its messages
  std::unique_ptr<ContainerRun> container_;
  RunOutcome outcome_;
  bool closed_ = false;                   // the running container has
  std::optional<SteadyTime> kill_at_;     // of what the running container has left by then
  std::unique_ptr<MetricWatch> metrics_;  // while the program runs, if the request defines any
  std::optional<RawOutput> raw_output_;   // while the program runs, if it is wanted

  bool go_ = false;
  bool stopping_ = false;
  bool released_ = false;
  bool restart_ = false;
  bool terminated_ = false;
  bool denied_ = false;
  bool orphaned_ = false;
  bool overdue_ = false;  // stopped for that, unasked
  OrphanFacts alone_;
  std::optional<wire::Command> upload_;
};

}  // namespace trainyard::instance
