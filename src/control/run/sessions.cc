// SPDX-License-Identifier: Apache-2.0
#include "control/run/sessions.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "base/hash.h"
#include "control/tables/metric_table.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

Error denied() {
  return {.code = Code::kDenied,
          .message = "the token is unknown: the attempt of the job that it belonged to is over"};
}

Error old_attempt(const InstanceKey& key, int epoch) {
  return {
      .code = Code::kConflict,
      .message = fmt::format("attempt {} of job {} is over: this is {}", epoch, key.job, key.epoch),
      .subject = "epoch"};
}

// Follows from the epochs alone and is never stored.
json restart_after(std::int64_t after) {
  return json::array(
      {wire::to_json(wire::Command{.seq = after + 1, .kind = wire::Command::Kind::kRestart})});
}

std::int64_t highest(const std::vector<wire::Report>& reports) {
  std::int64_t seq = 0;
  for (const wire::Report& report : reports) {
    seq = std::max(seq, report.seq);
  }
  return seq;
}

json later_than(const std::vector<wire::Command>& commands, std::int64_t after) {
  json list = json::array();
  for (const wire::Command& command : commands) {
    if (command.seq > after) {
      list.push_back(wire::to_json(command));
    }
  }
  return list;
}

Result<std::vector<wire::Report>> parse_reports(const json& body) {
  if (!body.is_array()) {
    return Error{.code = Code::kInvalidArgument, .message = "reports are an array"};
  }
  std::vector<wire::Report> reports;
  for (const json& item : body) {
    YARD_TRY(wire::Report report, wire::report_from_json(item));
    reports.push_back(std::move(report));
  }
  return reports;
}

void learn(const wire::Report& report, InstanceFacts& facts) {
  if (report.phase) {
    facts.phase = std::max(facts.phase, *report.phase);
    facts.message = report.message;  // a message belongs to its phase
  } else if (!report.message.empty()) {
    facts.message = report.message;
  }
  if (report.exit && !facts.exit) {
    facts.exit = report.exit;
  } else if (report.exit) {
    facts.exit->is_leaving = facts.exit->is_leaving || report.exit->is_leaving;
  }
  if (report.error && !facts.error) {
    facts.error = report.error;
  }
  if (report.checkpoints) {
    facts.is_flushing = report.checkpoints->is_flushing;
  }
}

}  // namespace

void Sessions::open(const std::string& job, const std::vector<Opening>& openings) {
  {
    const MutexLock lock(mutex_);
    std::map<std::string, wire::HeardNumbers> heard;
    std::erase_if(sessions_, [&](const auto& item) {
      const bool is_over = item.second.key.job == job;
      if (is_over) {
        heard[item.first] = item.second.numbers;
      }
      return is_over;
    });
    for (const Opening& opening : openings) {
      sessions_[opening.row.token_hash] = {.key = opening.row.key,
                                           .assignment = wire::to_json(opening.assignment),
                                           .log_stream = opening.assignment.log_stream,
                                           .facts = opening.row.facts,
                                           .acknowledged = opening.row.acknowledged,
                                           .commands = opening.row.commands,
                                           .numbers = heard[opening.row.token_hash]};
    }
  }
  answer_polls();
}

void Sessions::send(const InstanceKey& key, std::vector<wire::Command> commands) {
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(sessions_.begin(), sessions_.end(),
                                    [&](const auto& item) { return item.second.key == key; });
    if (found == sessions_.end()) {
      return;
    }
    found->second.commands = std::move(commands);
  }
  answer_polls();
}

std::int64_t Sessions::taken_commands(const InstanceKey& key) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(sessions_.begin(), sessions_.end(),
                                  [&](const auto& item) { return item.second.key == key; });
  return found == sessions_.end() ? 0 : found->second.taken;
}

std::vector<InstanceKey> Sessions::storing() {
  std::vector<InstanceKey> keys;
  const MutexLock lock(mutex_);
  for (const auto& [hash, session] : sessions_) {
    if (session.is_storing) {
      keys.push_back(session.key);
    }
  }
  return keys;
}

void Sessions::answer_polls() {
  std::vector<std::pair<Answer, Result<json>>> ready;
  {
    const MutexLock lock(mutex_);
    std::erase_if(polls_, [&](Poll& poll) {
      auto answer = answer_to(poll);
      if (!answer) {
        return false;
      }
      ready.emplace_back(std::move(poll.answer), std::move(*answer));
      return true;
    });
  }
  for (auto& [answer, list] : ready) {
    answer(std::move(list));
  }
}

void Sessions::expire() {
  std::vector<Answer> over;
  const SteadyTime now = clock_.steady_now();
  {
    const MutexLock lock(mutex_);
    std::erase_if(polls_, [&](Poll& poll) {
      if (poll.until > now) {
        return false;
      }
      over.push_back(std::move(poll.answer));
      return true;
    });
  }
  for (const Answer& answer : over) {
    answer(json::array());
  }
}

void Sessions::shut() {
  std::vector<Poll> polls;
  {
    const MutexLock lock(mutex_);
    is_shut_ = true;
    sessions_.clear();
    polls.swap(polls_);
  }
  for (const Poll& poll : polls) {
    poll.answer(Error{.code = Code::kUnavailable, .message = "the server is stopping"});
  }
}

Result<Sessions::Session*> Sessions::session_of(const std::string& token_hash,
                                                std::optional<int> epoch) {
  if (is_shut_) {
    return Error{.code = Code::kUnavailable, .message = "the server is stopping"};
  }
  const auto found = sessions_.find(token_hash);
  if (found == sessions_.end()) {
    return denied();
  }
  const InstanceKey& key = found->second.key;
  if (epoch && *epoch < key.epoch) {
    return old_attempt(key, *epoch);
  }
  if (epoch && *epoch > key.epoch) {
    return denied();  // of an attempt that never was
  }
  return &found->second;
}

Result<void> Sessions::hear(const InstanceCaller& caller, std::uint64_t number) {
  const std::string hash = sha256_hex(caller.token);
  const MutexLock lock(mutex_);
  YARD_TRY(Session * session, session_of(hash, std::nullopt));
  if (!session->numbers.hear(number)) {
    return Error{.code = Code::kConflict,
                 .message = fmt::format("request {} of this instance was here before", number),
                 .subject = "number"};
  }
  return {};
}

Result<InstanceKey> Sessions::find(const InstanceCaller& caller) {
  const MutexLock lock(mutex_);
  YARD_TRY(const Session* session, session_of(sha256_hex(caller.token), caller.epoch));
  return session->key;
}

Result<json> Sessions::assignment(const InstanceCaller& caller) {
  const MutexLock lock(mutex_);
  YARD_TRY(const Session* session, session_of(sha256_hex(caller.token), std::nullopt));
  return session->assignment;
}

std::optional<Result<json>> Sessions::answer_to(const Poll& poll) {
  const Result<Session*> session = session_of(poll.token_hash, poll.epoch);
  if (!session) {
    return session.error().code == Code::kConflict ? Result<json>(restart_after(poll.after))
                                                   : Result<json>(session.error());
  }
  if (poll.epoch) {  // else it may be a number of an older attempt
    (*session)->taken = std::max((*session)->taken, poll.after);
  }
  json list = later_than((*session)->commands, poll.after);
  return list.empty() ? std::nullopt : std::optional(Result<json>(std::move(list)));
}

void Sessions::commands(const InstanceCaller& caller, std::int64_t after,
                        std::chrono::milliseconds time, Answer answer) {
  Poll poll{.token_hash = sha256_hex(caller.token),
            .epoch = caller.epoch,
            .after = after,
            .until = clock_.steady_now() + time,
            .answer = std::move(answer)};
  std::optional<Result<json>> now;
  {
    const MutexLock lock(mutex_);
    now = answer_to(poll);
    if (!now && time.count() > 0) {
      polls_.push_back(std::move(poll));
      return;
    }
  }
  poll.answer(now ? std::move(*now) : Result<json>(json::array()));
}

Result<Sessions::Batch> Sessions::begin_batch(const std::string& token_hash,
                                              std::optional<int> epoch) {
  const MutexLock lock(mutex_);
  const Result<Session*> found = session_of(token_hash, epoch);
  if (!found && found.error().code == Code::kConflict) {
    Batch old;
    old.is_old = true;
    return old;
  }
  if (!found) {
    return found.error();
  }
  Session& session = **found;
  const bool was_busy = std::exchange(session.is_storing, true);
  return Batch{.key = session.key,
               .log_stream = session.log_stream,
               .facts = session.facts,
               .acknowledged = session.acknowledged,
               .was_busy = was_busy};
}

void Sessions::end_batch(const std::string& token_hash, const Batch& batch) {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(token_hash);
  if (found != sessions_.end() && found->second.key == batch.key) {
    found->second.facts = batch.facts;
    found->second.acknowledged = batch.acknowledged;
    found->second.is_storing = false;
  }
}

std::uint64_t Sessions::log_end_of(const std::string& stream) {
  const auto summary = logs_.summary(kTrainingLogGroup, stream);
  return summary ? summary->events : 0;  // none yet
}

// How many of `events` stand in the log already, from `begin` on, where all that is acknowledged
// ends. What cannot be read, or is something else, is not them.
std::size_t Sessions::count_repeated(const std::string& stream, std::uint64_t begin,
                                     std::span<const LogEvent> events) {
  const std::uint64_t end = log_end_of(stream);
  const std::size_t most = std::min<std::uint64_t>(end - std::min(begin, end), events.size());
  if (most == 0) {
    return 0;
  }
  const auto page = logs_.read(
      kTrainingLogGroup, stream,
      {.from = begin, .max_events = most, .max_bytes = std::numeric_limits<std::size_t>::max()});
  const bool is_same =
      page && std::ranges::equal(
                  page->events, events.first(most), {},
                  [](const StoredEvent& stored) { return std::tie(stored.at, stored.text); },
                  [](const LogEvent& event) { return std::tie(event.at, event.text); });
  return is_same ? most : 0;
}

// Stored before the first lines are added: what stands behind this end after we have died is known
// for theirs. False when the attempt is over.
Result<bool> Sessions::note_log_end(Batch& batch) {
  if (batch.facts.log_end) {
    return true;
  }
  Batch noted = batch;
  noted.facts.log_end = log_end_of(batch.log_stream);
  YARD_TRY(const bool is_current, store_facts(noted, {}));
  batch = std::move(noted);
  return is_current;
}

// The lines first: if we die before the facts are stored, they come again, but none is missing.
Result<void> Sessions::store_lines(Batch& batch, std::span<const LogEvent> events) {
  const std::uint64_t begin = batch.facts.log_end.value_or(0);
  const std::size_t repeated = count_repeated(batch.log_stream, begin, events);
  YARD_TRY(logs_.append(kTrainingLogGroup, batch.log_stream, events.subspan(repeated)));
  // On disk first: the instance forgets what is acknowledged.
  YARD_TRY(logs_.sync(kTrainingLogGroup, batch.log_stream));
  batch.facts.log_end = repeated == events.size() ? begin + repeated : log_end_of(batch.log_stream);
  return {};
}

// Points of metrics are in the transaction: each counts once. False when the attempt is over.
Result<bool> Sessions::store_facts(const Batch& batch,
                                   const std::vector<wire::MetricPoint>& points) {
  return database_.write([&](Connection& connection) -> Result<bool> {
    YARD_TRY(const bool is_current,
             save_facts(connection, batch.key, batch.facts, batch.acknowledged));
    if (is_current) {
      YARD_TRY(add_points(connection, batch.key.job, points));
    }
    return is_current;
  });
}

// False when the attempt is over. `before` learns what is stored even if the rest cannot be.
Result<bool> Sessions::store(Batch& before, Batch& batch, std::span<const LogEvent> events,
                             const std::vector<wire::MetricPoint>& points) {
  if (!events.empty()) {
    YARD_TRY(const bool is_current, note_log_end(before));
    if (!is_current) {
      return false;
    }
    batch.facts.log_end = before.facts.log_end;
    YARD_TRY(store_lines(batch, events));
  }
  return store_facts(batch, points);
}

// What it said has to come again. That it speaks has been heard.
Error Sessions::refuse(const std::string& token_hash, Batch batch, const Now& received, Error why) {
  end_batch(token_hash, batch);
  batch.facts.unstored = why.message;
  news_({.key = std::move(batch.key),
         .acknowledged = batch.acknowledged,
         .facts = std::move(batch.facts),
         .received = received});
  return why;
}

Result<json> Sessions::reports(const InstanceCaller& caller, const json& body) {
  const std::string hash = sha256_hex(caller.token);
  const Now received{.wall = clock_.now(), .steady = clock_.steady_now()};
  YARD_TRY(const std::vector<wire::Report> reports, parse_reports(body));
  YARD_TRY(Batch before, begin_batch(hash, caller.epoch));
  if (before.is_old) {
    return json{{"acknowledged", highest(reports)}};
  }
  if (before.key.epoch == 1 && before.acknowledged == 0) {
    before.facts.log_end = 0;  // streams begin with the first attempt
  }
  Batch batch = before;
  std::vector<LogEvent> events;
  std::vector<wire::MetricPoint> points;
  for (const wire::Report& report : reports) {
    // Not: a beat, what was seen before, what is behind a gap that will be filled first, and a
    // repetition of what is being stored (it will come again).
    if (before.was_busy || report.seq != batch.acknowledged + 1) {
      continue;
    }
    batch.acknowledged = report.seq;
    learn(report, batch.facts);
    for (const wire::LogLine& line : report.lines) {
      events.push_back({.at = line.at, .text = line.text});
    }
    points.insert(points.end(), report.points.begin(), report.points.end());
  }
  if (batch.acknowledged != before.acknowledged) {
    batch.facts.heard = received.wall;
    const Result<bool> stored = store(before, batch, events, points);
    if (!stored) {
      return refuse(hash, std::move(before), received, stored.error().in("storing reports"));
    }
    if (!*stored) {
      end_batch(hash, before);
      return json{{"acknowledged", highest(reports)}};
    }
  }
  if (!before.was_busy) {
    end_batch(hash, batch);
  }
  news_({.key = batch.key,
         .acknowledged = batch.acknowledged,
         .facts = batch.facts,
         .received = received});
  return json{{"acknowledged", batch.acknowledged}};
}

}  // namespace trainyard::control
