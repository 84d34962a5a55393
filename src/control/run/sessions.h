// SPDX-License-Identifier: Apache-2.0
// The instances that may speak, one session each: who a token is, its assignment, the
// commands it is to get and the reports it has sent. HTTP threads bring tokens; the reconciler
// opens and closes sessions and hands in commands; facts go on as News. What an instance is told is
// acknowledged is stored: its lines in the log, its facts in the database. Lines that come again,
// because the facts beside them were refused or the server has died in between, are known by where
// and what they are, and stand once: where the log ended is stored before anything is added to it.
// What is said in the name of an older attempt is heard by nobody: the instance is told to begin
// anew.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/mutex.h"
#include "control/control.h"
#include "control/logs/log_store.h"
#include "control/tables/database.h"
#include "control/tables/job_table.h"
#include "wire/heard_numbers.h"
#include "wire/messages.h"

namespace trainyard::control {

inline constexpr std::string_view kTrainingLogGroup = "/aws/sagemaker/TrainingJobs";

// An instance has spoken. News of one instance may overtake each other on their way: those that
// acknowledge less than was heard already are old.
struct News {
  InstanceKey key;
  std::int64_t acknowledged = 0;
  InstanceFacts facts;
  Now received{};
};

// Who may speak for an instance, and what it is told first.
struct Opening {
  InstanceRow row;
  wire::Assignment assignment;
};

class Sessions {
 public:
  using Answer = std::function<void(Result<nlohmann::json>)>;

  // `news` is called from the thread of each report, without a lock; it may wait.
  Sessions(Database& database, LogStore& logs, Clock& clock, std::function<void(News)> news)
      : database_(database), logs_(logs), clock_(clock), news_(std::move(news)) {}

  // These and no others speak for the job from here on. Polls that wait with a token or in the name
  // of an attempt that is over are answered.
  void open(const std::string& job, const std::vector<Opening>& openings);
  void close(const std::string& job) { open(job, {}); }
  void send(const InstanceKey& key, std::vector<wire::Command> commands);
  // The number up to which the instance has asked for later ones, as far as this server knows.
  std::int64_t taken_commands(const InstanceKey& key);
  // Whose reports are on their way to the disk: they speak, however long it takes.
  std::vector<InstanceKey> storing();
  // Answers polls whose time is over. Called a few times a second.
  void expire();
  // Answers all polls (kUnavailable) and all later calls; used once, before destruction.
  void shut();

  // kDenied for a token that is unknown, kConflict for a number that it has used.
  Result<void> hear(const InstanceCaller& caller, std::uint64_t number);
  // kDenied for a token that is unknown, kConflict for an older attempt.
  Result<InstanceKey> find(const InstanceCaller& caller);
  Result<nlohmann::json> assignment(const InstanceCaller& caller);
  Result<nlohmann::json> reports(const InstanceCaller& caller, const nlohmann::json& body);
  void commands(const InstanceCaller& caller, std::int64_t after, std::chrono::milliseconds time,
                Answer answer);

 private:
  struct Session {
    InstanceKey key;
    nlohmann::json assignment;
    std::string log_stream;
    InstanceFacts facts;
    std::int64_t acknowledged = 0;
    std::vector<wire::Command> commands;
    std::int64_t taken = 0;           // of the commands; named with the epoch
    bool is_storing = false;          // one thread is between reading the facts and writing them
    wire::HeardNumbers numbers = {};  // kept over attempts, as the token is
  };
  struct Poll {
    std::string token_hash;
    std::optional<int> epoch;
    std::int64_t after = 0;
    SteadyTime until{};
    Answer answer;
  };
  struct Batch {
    InstanceKey key;
    std::string log_stream;
    InstanceFacts facts;
    std::int64_t acknowledged = 0;
    bool was_busy = false;
    bool is_old = false;  // of an attempt that is over: to be dropped
  };

  // kDenied, kConflict as find(), kUnavailable when the server stops.
  Result<Session*> session_of(const std::string& token_hash, std::optional<int> epoch)
      YARD_GUARD(requires_capability(mutex_));
  // Empty: it has to wait.
  std::optional<Result<nlohmann::json>> answer_to(const Poll& poll)
      YARD_GUARD(requires_capability(mutex_));
  void answer_polls();
  Result<Batch> begin_batch(const std::string& token_hash, std::optional<int> epoch);
  void end_batch(const std::string& token_hash, const Batch& batch);
  Error refuse(const std::string& token_hash, Batch batch, const Now& received, Error why);
  std::uint64_t log_end_of(const std::string& stream);
  std::size_t count_repeated(const std::string& stream, std::uint64_t begin,
                             std::span<const LogEvent> events);
  Result<bool> note_log_end(Batch& batch);
  Result<void> store_lines(Batch& batch, std::span<const LogEvent> events);
  Result<bool> store(Batch& before, Batch& batch, std::span<const LogEvent> events,
                     const std::vector<wire::MetricPoint>& points);
  Result<bool> store_facts(const Batch& batch, const std::vector<wire::MetricPoint>& points);

  Database& database_;
  LogStore& logs_;
  Clock& clock_;
  std::function<void(News)> news_;

  Mutex mutex_;
  std::map<std::string, Session, std::less<>> sessions_ GUARDED_BY(mutex_);  // by token hash
  std::vector<Poll> polls_ GUARDED_BY(mutex_);
  bool is_shut_ GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::control
