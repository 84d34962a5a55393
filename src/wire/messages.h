// SPDX-License-Identifier: Apache-2.0
// What the server and an instance say to each other: JSON over HTTP under /yard/v1/. Each side
// proves with every message that it knows the instance's token (proof.h). The instance pulls
// (assignment, commands by long poll) and reports; the server never connects to it. Reports carry
// sequence numbers and may arrive twice; whoever receives drops what it has seen. docs/wire.md has
// the protocol page.
//
//   GET  /yard/v1/assignment              -> Assignment        once, at start
//   GET  /yard/v1/commands?after=<seq>    -> [Command...]      long poll, up to kLongPoll
//   POST /yard/v1/reports   [Report...]   -> {"acknowledged": <seq>}   at least every kBeat
//   GET  /yard/v1/credentials             -> Credentials       temporary keys of the job's role
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::wire {

// A server serves instances of its own version and of the two before, and answers each in its
// version; anything else is refused on both sides with both versions named. Sent as the header
// Yard-Protocol.
// Version 1 sent the token itself and proved no answer. Version 2 is version 3, but for its first
// builds: these made their proofs with another key, and are refused.
inline constexpr int kProtocolVersion = 3;
inline constexpr int kVersionsBefore = 2;
inline constexpr int kBearerVersion = 1;
inline constexpr std::string_view kProtocolHeader = "Yard-Protocol";
// The attempt that a call of an instance belongs to; on every call but that for the assignment. A
// call of an older attempt than the job's is answered with kRestart, its reports are dropped.
inline constexpr std::string_view kEpochHeader = "Yard-Epoch";
inline constexpr std::chrono::milliseconds kBeat{1000};
inline constexpr std::chrono::milliseconds kSilence{5000};  // no report for this long: lost
inline constexpr std::chrono::milliseconds kLongPoll{20000};

struct Host {
  std::string name;     // "algo-1"
  std::string address;  // "10.77.3.1"
};

struct Assignment {
  int protocol = kProtocolVersion;
  std::string job_name;
  std::string job_arn;
  std::string region;
  std::string account;
  int epoch = 1;
  std::string host;               // which of `hosts` this instance is
  std::vector<Host> hosts;        // sorted by name as strings, as the service does; rank = position
  std::string network_interface;  // "eth0"
  nlohmann::json request;         // the accepted CreateTrainingJob request, whole
  std::string python_environment;  // directory of the environment that the image name maps to
  std::string server;              // "http://10.77.3.254:8321", reachable from the instance
  int num_cpus = 1;
  std::vector<std::string> gpus;  // numbers of the machine's GPUs that are this instance's alone
  std::string log_stream;         // "<job>/algo-1-<epoch seconds>"
  std::chrono::milliseconds stop_grace{120'000};
  // Without a word of the server's for so long, an instance whose program does not run leaves.
  std::chrono::milliseconds orphan_limit{std::chrono::hours(24)};
  // Known to the instances of this attempt and to nobody else: by it they know each other.
  std::string gang_secret = {};
  std::vector<std::string> gpu_nodes = {};  // the device nodes of `gpus` on the machine
  std::vector<std::string> notes = {};      // for the job's log
};

// Temporary keys of the job's role. `expires` is when they must have been renewed.
struct Credentials {
  std::string role_arn;
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;
  WallTime expires{};
};

enum class Phase {
  kStarting,     // supervisor is up, has its assignment
  kDownloading,  // channels, code
  kReady,        // waits for kGo
  kTraining,
  kEnded,  // user processes are gone, `exit` says how, and their checkpoints are in S3; waits for
           // kUpload or kRelease
  kUploading,
  kFinished,  // nothing more to come; the supervisor exits
};
std::string_view name_of(Phase phase);

// How the user's program ended on this host. The first failing process is the one that counts.
struct Exit {
  int code = 0;
  int signal = 0;
  std::optional<int> global_rank = {};  // of the process that failed first, when ranks are known
  std::string host = {};  // where that ran, when one launcher has the ranks of all hosts
  bool stopped = false;   // ended because it was asked to: a victim, not a culprit
  // Asked by a signal to the supervisor, which leaves: not by the server.
  bool is_leaving = false;
  // Stopped by its supervisor, which had no server to ask: MaxRuntimeInSeconds was over.
  bool is_overdue = false;
  bool out_of_memory = false;
  std::string failure_file = {};             // first 1,024 characters of /opt/ml/output/failure
  std::vector<std::string> last_lines = {};  // of the failing process, at most 20
  WallTime at{};
  bool has_model = false;   // /opt/ml/model holds files
  bool has_output = false;  // /opt/ml/output/data holds files
  // Names of the files in both, of a job of several hosts: sorted, and the first few hundred only.
  std::vector<std::string> model_files = {};
  std::vector<std::string> output_files = {};
};

struct LogLine {
  WallTime at{};
  std::string text;  // valid UTF-8, no line end
};

// A value that a line of output gave to a metric of the request's MetricDefinitions. It may be
// infinite or not a number: that is what the program printed.
struct MetricPoint {
  std::string metric;  // the definition's Name
  WallTime at{};
  double value = 0;
};

// How far the objects of a job's checkpoints are behind the files on this host.
struct CheckpointLag {
  std::int64_t files = 0;  // still to be sent
  std::int64_t bytes = 0;
  std::int64_t removals = 0;           // still to be repeated in S3
  std::chrono::milliseconds oldest{};  // age of the oldest change that is not in S3
  // The user's processes have ended and kEnded follows once everything is in S3, or when nothing
  // has moved for a minute.
  bool is_flushing = false;
};

// One fact. Exactly one of the optional members beyond `seq` is set; none: a beat.
struct Report {
  std::int64_t seq = 0;  // 1, 2, ... per instance and epoch; beats have 0
  std::optional<Phase> phase = {};
  std::optional<Exit> exit = {};  // when it is known, and again with phase kEnded
  std::optional<Error> error =
      {};  // a platform or client fault that ends the job: bad channel, ...
  std::vector<LogLine> lines = {};
  std::vector<MetricPoint> points = {};
  std::string message = {};  // becomes the StatusMessage when not empty
  std::optional<CheckpointLag> checkpoints = {};
};

struct ArtifactUpload {
  std::string s3_uri;  // where to put it
  // "whole": a complete .tar.gz. "member": one gzip member with tar entries and no end-of-archive
  // blocks, to be joined by the server. "files": the files themselves under the prefix.
  std::string form = "whole";
  std::string note = {};  // for the job's log
};

// What a user may send to the programs of a job.
enum class UserSignal { kUsr1, kUsr2 };
std::string_view name_of(UserSignal signal);  // "USR1"
std::optional<UserSignal> user_signal(std::string_view name);

struct Command {
  enum class Kind { kGo, kStop, kAbort, kUpload, kRelease, kRestart, kSignal };
  std::int64_t seq = 0;  // 1, 2, ... per instance and epoch
  Kind kind = Kind::kGo;
  // kGo: the barrier is open. kStop: SIGTERM to every process, stop_grace, SIGKILL. kAbort: the
  // same with a short grace (5 s), because a peer has failed. kUpload: send `model` and `output`
  // where set, then finish. kRelease: finish without uploading. kRestart: a new attempt has
  // begun: end what runs, fetch the assignment anew. kSignal: pass `signal` on to every process
  // that expects it.
  std::optional<ArtifactUpload> model = {};
  std::optional<ArtifactUpload> output = {};
  std::optional<UserSignal> signal = {};
};

nlohmann::json to_json(const Assignment& value);
nlohmann::json to_json(const Credentials& value);
nlohmann::json to_json(const Report& value);
nlohmann::json to_json(const Command& value);
// kInvalidArgument names the member that is missing or has the wrong type, by its path
// ("report.exit.code"). Unknown members are ignored: a newer peer sends more.
Result<Assignment> assignment_from_json(const nlohmann::json& json);
Result<Credentials> credentials_from_json(const nlohmann::json& json);
Result<Report> report_from_json(const nlohmann::json& json);
Result<Command> command_from_json(const nlohmann::json& json);

// Who sent the kProtocolHeader that is being checked.
enum class Peer { kInstance, kServer };

// The version that the two sides talk in, which is the instance's, by the rule at
// kProtocolVersion. `header` is the header's value, empty when it was absent. Otherwise
// kInvalidArgument, subject "protocol", with both versions named.
Result<int> check_protocol(std::string_view header, Peer peer, int ours = kProtocolVersion);

}  // namespace trainyard::wire
