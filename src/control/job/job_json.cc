// SPDX-License-Identifier: Apache-2.0
// The JSON of the columns `state` and `facts`. Members that a newer release added are read if they
// are there, so that a database survives an upgrade; what a job cannot do without is required.
#include "base/text.h"
#include "control/job/job.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

std::int64_t millis(WallTime time) {
  return time.time_since_epoch().count();
}

json time_or_null(const std::optional<WallTime>& time) {
  return time ? json(millis(*time)) : json();
}

WallTime time_of(const json& value) {
  return WallTime(Duration(value.get<std::int64_t>()));
}

std::optional<WallTime> optional_time(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? std::nullopt : std::optional(time_of(*found));
}

// The enumerators are few and contiguous: try each.
template <typename E>
E value_named(std::string_view name, E last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<E>(i)) == name) {
      return static_cast<E>(i);
    }
  }
  throw json::other_error::create(500, "unknown name " + std::string(name), nullptr);
}

Secondary secondary_of(const json& value) {
  return value_named(value.get<std::string>(), Secondary::kMaxWaitTimeExceeded);
}

json json_of(const std::vector<Transition>& transitions) {
  json list = json::array();
  for (const Transition& transition : transitions) {
    list.push_back({{"status", std::string(name_of(transition.status))},
                    {"start", millis(transition.start)},
                    {"end", time_or_null(transition.end)},
                    {"message", transition.message}});
  }
  return list;
}

std::vector<Transition> transitions_of(const json& list) {
  std::vector<Transition> transitions;
  for (const json& item : list) {
    transitions.push_back({.status = secondary_of(item.at("status")),
                           .start = time_of(item.at("start")),
                           .end = optional_time(item, "end"),
                           .message = item.at("message").get<std::string>()});
  }
  return transitions;
}

json json_of(const std::vector<Attempt>& attempts) {
  json list = json::array();
  for (const Attempt& attempt : attempts) {
    list.push_back({{"epoch", attempt.epoch},
                    {"start", millis(attempt.start)},
                    {"end", time_or_null(attempt.end)},
                    {"counts_as_ended", time_or_null(attempt.counts_as_ended)},
                    {"cause", attempt.cause},
                    {"host", attempt.host},
                    {"also_lost", attempt.also_lost}});
  }
  return list;
}

std::vector<Attempt> attempts_of(const json& list) {
  std::vector<Attempt> attempts;
  for (const json& item : list) {
    attempts.push_back({.epoch = item.at("epoch").get<int>(),
                        .start = time_of(item.at("start")),
                        .end = optional_time(item, "end"),
                        .cause = item.at("cause").get<std::string>(),
                        .host = item.at("host").get<std::string>(),
                        .also_lost = item.value("also_lost", std::vector<std::string>()),
                        .counts_as_ended = optional_time(item, "counts_as_ended")});
  }
  return attempts;
}

json json_of(const std::vector<Merge>& merges) {
  json list = json::array();
  for (const Merge& merge : merges) {
    list.push_back({{"parts", merge.parts}, {"target", merge.target}});
  }
  return list;
}

std::vector<Merge> merges_of(const json& list) {
  std::vector<Merge> merges;
  for (const json& item : list) {
    merges.push_back({.parts = item.at("parts").get<std::vector<std::string>>(),
                      .target = item.at("target").get<std::string>()});
  }
  return merges;
}

// Written by no release before attempts were.
void read_attempts(const json& in, Job& job) {
  job.gang_epoch = in.value("gang_epoch", job.epoch);
  job.attempts = attempts_of(in.value("attempts", json::array()));
  job.repairs = in.value("repairs", 0);
  job.start_after = optional_time(in, "start_after");
  job.to_start = in.value("to_start", std::vector<std::string>());
  job.waiting_since = optional_time(in, "waiting_since");
  job.stage_until = optional_time(in, "stage_until");
}

void read_state(const json& in, Job& job) {
  job.environment = in.at("environment").get<std::string>();
  job.instances = in.at("instances").get<int>();
  job.gpus_per_instance = in.at("gpus_per_instance").get<int>();
  job.stage = value_named(in.at("stage").get<std::string>(), Stage::kDone);
  job.secondary = secondary_of(in.at("secondary"));
  job.transitions = transitions_of(in.at("transitions"));
  job.training_start = optional_time(in, "training_start");
  job.training_end = optional_time(in, "training_end");
  job.wait_counts_from = optional_time(in, "wait_counts_from");
  job.runtime_counts_from = optional_time(in, "runtime_counts_from");
  job.stored_at = optional_time(in, "stored_at");
  job.stop_requested = optional_time(in, "stop_requested");
  job.launched = optional_time(in, "launched");
  job.epoch = in.at("epoch").get<int>();
  read_attempts(in, job);
  if (const json& outcome = in.at("outcome"); !outcome.is_null()) {
    job.outcome = Outcome{.status = secondary_of(outcome.at("status")),
                          .reason = outcome.at("reason").get<std::string>(),
                          .at = time_of(outcome.at("at"))};
  }
  job.network = {.addresses = in.at("addresses").get<std::vector<std::string>>(),
                 .interface = in.at("interface").get<std::string>(),
                 .server = in.at("server").get<std::string>()};
  job.gpus = in.at("gpus").get<std::vector<std::vector<std::string>>>();
  job.merges = merges_of(in.at("merges"));
  job.missing = in.value("missing", std::string());
  job.has_model = in.value("has_model", false);
}

void read_facts(const json& in, InstanceFacts& facts) {
  facts.message = in.at("message").get<std::string>();
  facts.incarnation = in.value("incarnation", facts.incarnation);
  facts.is_flushing = in.value("flushing", false);
  facts.heard = optional_time(in, "heard");
  if (const auto end = in.find("log_end"); end != in.end() && end->is_number_unsigned()) {
    facts.log_end = end->get<std::uint64_t>();
  }
  if (const auto report = wire::report_from_json(in.at("phase"))) {
    facts.phase = report->phase.value_or(wire::Phase::kStarting);
    facts.exit = report->exit;
  }
  if (const json& error = in.at("error"); !error.is_null()) {
    if (auto report = wire::report_from_json(error)) {
      facts.error = report->error;
    }
  }
}

Error corrupt(const json::exception& exception) {
  return {.code = Code::kCorrupt, .message = exception.what()};
}

}  // namespace

json state_to_json(const Job& job) {
  json outcome;
  if (job.outcome) {
    outcome = {{"status", std::string(name_of(job.outcome->status))},
               {"reason", job.outcome->reason},
               {"at", millis(job.outcome->at)}};
  }
  return {{"environment", job.environment},
          {"instances", job.instances},
          {"gpus_per_instance", job.gpus_per_instance},
          {"stage", std::string(name_of(job.stage))},
          {"secondary", std::string(name_of(job.secondary))},
          {"transitions", json_of(job.transitions)},
          {"training_start", time_or_null(job.training_start)},
          {"training_end", time_or_null(job.training_end)},
          {"wait_counts_from", time_or_null(job.wait_counts_from)},
          {"runtime_counts_from", time_or_null(job.runtime_counts_from)},
          {"stored_at", time_or_null(job.stored_at)},
          {"stop_requested", time_or_null(job.stop_requested)},
          {"waiting_since", time_or_null(job.waiting_since)},
          {"stage_until", time_or_null(job.stage_until)},
          {"launched", time_or_null(job.launched)},
          {"epoch", job.epoch},
          {"gang_epoch", job.gang_epoch},
          {"attempts", json_of(job.attempts)},
          {"repairs", job.repairs},
          {"start_after", time_or_null(job.start_after)},
          {"to_start", job.to_start},
          {"outcome", outcome},
          {"addresses", job.network.addresses},
          {"interface", job.network.interface},
          {"server", job.network.server},
          {"gpus", job.gpus},
          {"merges", json_of(job.merges)},
          {"missing", job.missing},
          {"has_model", job.has_model}};
}

Result<void> state_from_json(const json& in, Job& job) {
  try {
    read_state(in, job);
    return {};
  } catch (const json::exception& exception) {
    return corrupt(exception).in("reading the state of job " + job.name);
  }
}

json facts_to_json(const InstanceFacts& facts) {
  json error;
  if (facts.error) {
    error = wire::to_json(wire::Report{.seq = 1, .error = facts.error});
  }
  const wire::Report phase{.seq = 1, .phase = facts.phase, .exit = facts.exit};
  json out = {{"phase", wire::to_json(phase)}, {"error", error},
              {"message", facts.message},      {"incarnation", facts.incarnation},
              {"flushing", facts.is_flushing}, {"heard", time_or_null(facts.heard)}};
  if (facts.log_end) {
    out["log_end"] = *facts.log_end;
  }
  return out;
}

Result<void> facts_from_json(const json& in, InstanceFacts& facts) {
  try {
    read_facts(in, facts);
    return {};
  } catch (const json::exception& exception) {
    return corrupt(exception).in("reading the facts of instance " + facts.host);
  }
}

}  // namespace trainyard::control
