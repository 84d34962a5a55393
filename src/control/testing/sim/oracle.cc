// SPDX-License-Identifier: Apache-2.0
#include "control/testing/sim/oracle.h"

#include <algorithm>

#include <fmt/format.h>

#include "control/tables/job_table.h"

namespace trainyard::control {
namespace {

// As the service's documentation draws it, and back to Starting for another attempt.
bool may_follow(Secondary from, Secondary to) {
  using S = Secondary;
  static const std::set<std::pair<S, S>> kSteps = {{S::kStarting, S::kDownloading},
                                                   {S::kStarting, S::kStopping},
                                                   {S::kStarting, S::kFailed},
                                                   {S::kDownloading, S::kTraining},
                                                   {S::kDownloading, S::kStarting},
                                                   {S::kDownloading, S::kStopping},
                                                   {S::kDownloading, S::kFailed},
                                                   {S::kTraining, S::kUploading},
                                                   {S::kTraining, S::kStarting},
                                                   {S::kTraining, S::kStopping},
                                                   {S::kTraining, S::kFailed},
                                                   {S::kUploading, S::kCompleted},
                                                   {S::kUploading, S::kStarting},
                                                   {S::kUploading, S::kStopping},
                                                   {S::kUploading, S::kFailed},
                                                   {S::kStopping, S::kStopped},
                                                   {S::kStopping, S::kFailed},
                                                   {S::kStopping, S::kMaxRuntimeExceeded},
                                                   {S::kStopping, S::kMaxWaitTimeExceeded}};
  return kSteps.contains({from, to});
}

using States = std::map<std::string, std::string>;

Result<States> read_states(Connection& connection) {
  YARD_TRY(Statement statement, connection.prepare("SELECT name, state FROM job"));
  States states;
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return states;
    }
    states[statement.text(0)] = statement.text(1);
  }
}

}  // namespace

void SimOracle::expect(bool holds, const Job& job, std::string_view what) {
  if (!holds) {
    world_.broken(
        fmt::format("job {} ({}, epoch {}): {}", job.name, name_of(job.stage), job.epoch, what));
  }
}

std::vector<Stage> SimOracle::look(SimServer& server) {
  std::vector<Stage> entered;
  if (seen_ == &server && commits_ == server.commits()) {
    return entered;
  }
  seen_ = &server;
  commits_ = server.commits();
  const auto states = server.database().read(read_states);
  for (const auto& [name, state] : states ? *states : States()) {
    if (std::exchange(states_[name], state) == state) {
      continue;
    }
    auto read = server.database().read(
        [&name = name](Connection& connection) { return find_job(connection, name); });
    const Job job = std::move(read).value_or(std::nullopt).value_or(Job());
    if (job.name != name) {
      world_.broken("job " + name + " cannot be read");
      continue;
    }
    const auto before = jobs_.find(name);
    const bool is_known = before != jobs_.end();
    if (!is_known || before->second.stage != job.stage) {
      entered.push_back(job.stage);
    }
    judge(is_known ? &before->second : nullptr, job);
    jobs_[name] = job;
    world_.epochs[name] = job.epoch;
  }
  judge_keys(server);
  for (const std::string& name : created_) {
    if (!states || !states->contains(name)) {
      world_.broken("job " + name + " was acknowledged, and is gone");
    }
  }
  return entered;
}

void SimOracle::judge(const Job* before, const Job& now) {
  world_.note(fmt::format("stored: {} {} {} epoch {}: {}", now.name, name_of(now.stage),
                          name_of(now.secondary), now.epoch, now.transitions.back().message));
  if (before != nullptr) {
    expect(now.epoch >= before->epoch, now, "its epoch fell");
    expect(before->stage != Stage::kDone, now, "it changed after its end");
    expect(now.modified >= before->modified, now, "LastModifiedTime fell");
  }
  expect(now.gang_epoch <= now.epoch, now, "its gang is of a later epoch");
  expect(!stopped_.contains(now.name) || now.stop_requested, now, "its stop is forgotten");
  const bool is_repair = now.stage == Stage::kRecovering || now.stage == Stage::kRelaunching;
  expect(
      !is_repair || now.secondary == Secondary::kStarting || now.secondary == Secondary::kStopping,
      now, "it is repaired, and does not say so");
  judge_transitions(before, now);
  judge_attempts(before, now);
  if (now.stage == Stage::kDone) {
    judge_end(now);
  }
}

void SimOracle::judge_transitions(const Job* before, const Job& now) {
  const auto& list = now.transitions;
  expect(list.front().status == Secondary::kStarting, now, "it did not begin with Starting");
  expect(list.back().status == now.secondary, now, "its status is not that of its last transition");
  for (std::size_t i = 0; i < list.size(); ++i) {
    expect(!list[i].message.empty(), now, "a transition without a message");
    if (i > 0) {
      expect(may_follow(list[i - 1].status, list[i].status), now,
             fmt::format("{} after {}", name_of(list[i].status), name_of(list[i - 1].status)));
      expect(list[i - 1].end == list[i].start && list[i].start >= list[i - 1].start, now,
             "transitions with a gap, or back in time");
    }
    if (before != nullptr && i < before->transitions.size()) {
      expect(before->transitions[i].status == list[i].status &&
                 before->transitions[i].start == list[i].start,
             now, "a transition changed");
    }
  }
}

// Only the machine's faults and ours are worth another attempt.
void SimOracle::judge_cause(const Job& job, const Attempt& attempt) {
  expect(attempt.end && !attempt.cause.empty(), job, "an attempt followed without cause");
  expect(attempt.cause.find("exited with code") == std::string::npos &&
             attempt.cause.find("channel train") == std::string::npos,
         job, "the user's fault was retried: " + attempt.cause);
}

void SimOracle::judge_attempts(const Job* before, const Job& now) {
  const auto& list = now.attempts;
  expect(static_cast<int>(list.size()) <= max_attempts(now), now, "more attempts than allowed");
  for (std::size_t i = 0; i < list.size(); ++i) {
    expect(list[i].end.value_or(list[i].start) >= list[i].start, now,
           "an attempt ended before it began");
    if (i > 0) {
      expect(list[i].epoch > list[i - 1].epoch, now, "two attempts of one epoch");
      judge_cause(now, list[i - 1]);
    }
  }
  if (before != nullptr) {
    expect(list.size() >= before->attempts.size(), now, "an attempt is not counted any more");
    const bool is_repair = now.stage == Stage::kRecovering || now.stage == Stage::kRelaunching;
    if (is_repair && before->stage != Stage::kRecovering && !before->attempts.empty()) {
      const Attempt& ended = list[before->attempts.size() - 1];
      expect(ended.cause.find("supervisor ended") == std::string::npos ||
                 !cluster_.lives(now.name, ended.host),
             now, ended.host + " lives, but is said to have ended");
    }
  }
}

// They end with their attempt, and with their job.
void SimOracle::judge_keys(SimServer& server) {
  for (const SimKeys& keys : world_.keys) {
    const auto job = jobs_.find(keys.job);
    const bool is_over =
        job != jobs_.end() && (job->second.stage == Stage::kDone || job->second.epoch > keys.epoch);
    if (is_over && server.identity().find(keys.id)) {
      world_.broken(fmt::format("the keys of attempt {} of {} outlived it", keys.epoch, keys.job));
    }
  }
}

void SimOracle::judge_end(const Job& now) {
  expect(is_terminal(now.secondary), now, "it is done without a terminal status");
  expect(now.attempts.empty() || now.attempts.back().end, now, "its last attempt is open");
  expect(cluster_.is_stuck(now.name) || !cluster_.runs_anything_of(now.name), now,
         "it ended while something of it runs");
  const std::string reason = now.outcome ? now.outcome->reason : std::string();
  if (now.secondary == Secondary::kFailed) {
    expect(reason.starts_with("AlgorithmError: ") || reason.starts_with("ClientError: ") ||
               reason.starts_with("InternalServerError: "),
           now, "its reason has no class: " + reason);
  }
}

bool SimOracle::all_ended() const {
  return std::all_of(created_.begin(), created_.end(), [&](const std::string& name) {
    const auto found = jobs_.find(name);
    return found != jobs_.end() && found->second.stage == Stage::kDone;
  });
}

}  // namespace trainyard::control
