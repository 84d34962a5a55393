// SPDX-License-Identifier: Apache-2.0
#include "wire/messages.h"

#include <array>
#include <cmath>

#include "base/encoding.h"
#include "base/text.h"
#include "wire/fields.h"

namespace trainyard {

// Beside the type, so that Fields finds it.
static void read_members(wire::Fields& in, Error& out) {
  in.read("code", out.code);
  in.read("message", out.message);
  in.read_if("subject", out.subject);
}

namespace wire {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<Phase, std::string_view>, 7> kPhases = {
    {{Phase::kStarting, "starting"},
     {Phase::kDownloading, "downloading"},
     {Phase::kReady, "ready"},
     {Phase::kTraining, "training"},
     {Phase::kEnded, "ended"},
     {Phase::kUploading, "uploading"},
     {Phase::kFinished, "finished"}}};

constexpr std::array<std::pair<Command::Kind, std::string_view>, 6> kKinds = {
    {{Command::Kind::kGo, "go"},
     {Command::Kind::kStop, "stop"},
     {Command::Kind::kAbort, "abort"},
     {Command::Kind::kUpload, "upload"},
     {Command::Kind::kRelease, "release"},
     {Command::Kind::kRestart, "restart"}}};

constexpr std::array<std::pair<UserSignal, std::string_view>, 2> kSignals = {
    {{UserSignal::kUsr1, "USR1"}, {UserSignal::kUsr2, "USR2"}}};

template <typename Table, typename T>
std::string_view name_in(const Table& table, T value) {
  for (const auto& [known, name] : table) {
    if (known == value) {
      return name;
    }
  }
  return "unknown";
}

template <typename Table, typename T>
bool value_in(const Table& table, std::string_view name, T& out) {
  for (const auto& [value, known] : table) {
    if (known == name) {
      out = value;
      return true;
    }
  }
  return false;
}

std::int64_t millis(WallTime time) {
  return time.time_since_epoch().count();
}

// The JSON library throws when it writes text that is not UTF-8; text from jobs may be anything.
std::string text_of(const std::string& text) {
  return is_utf8(text) ? text : to_valid_utf8(text);
}

json texts_of(const std::vector<std::string>& texts) {
  json list = json::array();
  for (const std::string& text : texts) {
    list.push_back(text_of(text));
  }
  return list;
}

json json_of(const Exit& value) {
  json out = {{"code", value.code},
              {"signal", value.signal},
              {"stopped", value.stopped},
              {"out_of_memory", value.out_of_memory},
              {"failure_file", text_of(value.failure_file)},
              {"last_lines", texts_of(value.last_lines)},
              {"at", millis(value.at)},
              {"has_model", value.has_model},
              {"has_output", value.has_output},
              {"leaving", value.is_leaving},
              {"overdue", value.is_overdue}};
  if (value.global_rank) {
    out["global_rank"] = *value.global_rank;
  }
  if (!value.host.empty()) {
    out["host"] = text_of(value.host);
  }
  if (!value.model_files.empty()) {
    out["model_files"] = texts_of(value.model_files);
  }
  if (!value.output_files.empty()) {
    out["output_files"] = texts_of(value.output_files);
  }
  return out;
}

json json_of(const Error& value) {
  return {{"code", std::string(name_of(value.code))},
          {"message", text_of(value.message)},
          {"subject", text_of(value.subject)}};
}

json json_of(const CheckpointLag& value) {
  return {{"files", value.files},
          {"bytes", value.bytes},
          {"removals", value.removals},
          {"oldest_ms", value.oldest.count()},
          {"flushing", value.is_flushing}};
}

json json_of(const ArtifactUpload& value) {
  json out = {{"s3_uri", text_of(value.s3_uri)}, {"form", text_of(value.form)}};
  if (!value.note.empty()) {
    out["note"] = text_of(value.note);
  }
  return out;
}

json json_of(const std::vector<LogLine>& lines) {
  json list = json::array();
  for (const LogLine& line : lines) {
    list.push_back({{"at", millis(line.at)}, {"text", text_of(line.text)}});
  }
  return list;
}

// JSON has no infinities and no not-a-number.
json json_of(double value) {
  if (std::isfinite(value)) {
    return value;
  }
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

json json_of(const std::vector<MetricPoint>& points) {
  json list = json::array();
  for (const MetricPoint& point : points) {
    list.push_back({{"metric", text_of(point.metric)},
                    {"at", millis(point.at)},
                    {"value", json_of(point.value)}});
  }
  return list;
}

}  // namespace

// What Fields looks up beside the types.
static bool from_name(std::string_view name, Phase& out) {
  return value_in(kPhases, name, out);
}

static bool from_name(std::string_view name, Command::Kind& out) {
  return value_in(kKinds, name, out);
}

static bool from_name(std::string_view name, UserSignal& out) {
  return value_in(kSignals, name, out);
}

static void read_members(Fields& in, Host& out) {
  in.read("name", out.name);
  in.read("address", out.address);
}

static void read_members(Fields& in, LogLine& out) {
  in.read("at", out.at);
  in.read("text", out.text);
}

static void read_members(Fields& in, MetricPoint& out) {
  in.read("metric", out.metric);
  in.read("at", out.at);
  in.read("value", out.value);
}

static void read_members(Fields& in, ArtifactUpload& out) {
  in.read("s3_uri", out.s3_uri);
  in.read_if("form", out.form);
  in.read_if("note", out.note);
}

static void read_members(Fields& in, CheckpointLag& out) {
  in.read("files", out.files);
  in.read("bytes", out.bytes);
  in.read_if("removals", out.removals);
  in.read("oldest_ms", out.oldest);
  in.read_if("flushing", out.is_flushing);
}

static void read_members(Fields& in, Exit& out) {
  in.read("code", out.code);
  in.read("signal", out.signal);
  in.read_if("global_rank", out.global_rank);
  in.read_if("host", out.host);
  in.read_if("stopped", out.stopped);
  in.read_if("out_of_memory", out.out_of_memory);
  in.read_if("failure_file", out.failure_file);
  in.read_if("last_lines", out.last_lines);
  in.read("at", out.at);
  in.read_if("has_model", out.has_model);
  in.read_if("has_output", out.has_output);
  in.read_if("leaving", out.is_leaving);
  in.read_if("overdue", out.is_overdue);
  in.read_if("model_files", out.model_files);
  in.read_if("output_files", out.output_files);
}

std::string_view name_of(UserSignal signal) {
  return name_in(kSignals, signal);
}

std::optional<UserSignal> user_signal(std::string_view name) {
  UserSignal signal = UserSignal::kUsr1;
  return from_name(name, signal) ? std::optional(signal) : std::nullopt;
}

std::string_view name_of(Phase phase) {
  return name_in(kPhases, phase);
}

json to_json(const Assignment& value) {
  json hosts = json::array();
  for (const Host& host : value.hosts) {
    hosts.push_back({{"name", text_of(host.name)}, {"address", text_of(host.address)}});
  }
  return {{"protocol", value.protocol},
          {"job_name", text_of(value.job_name)},
          {"job_arn", text_of(value.job_arn)},
          {"region", text_of(value.region)},
          {"account", text_of(value.account)},
          {"epoch", value.epoch},
          {"host", text_of(value.host)},
          {"hosts", std::move(hosts)},
          {"network_interface", text_of(value.network_interface)},
          {"request", value.request},
          {"python_environment", text_of(value.python_environment)},
          {"server", text_of(value.server)},
          {"num_cpus", value.num_cpus},
          {"gpus", texts_of(value.gpus)},
          {"log_stream", text_of(value.log_stream)},
          {"stop_grace_ms", value.stop_grace.count()},
          {"orphan_limit_ms", value.orphan_limit.count()},
          {"gang_secret", text_of(value.gang_secret)},
          {"gpu_nodes", texts_of(value.gpu_nodes)},
          {"notes", texts_of(value.notes)}};
}

Result<Assignment> assignment_from_json(const json& value) {
  Assignment out;
  Fields in(value, "assignment");
  in.read("protocol", out.protocol);
  in.read("job_name", out.job_name);
  in.read("job_arn", out.job_arn);
  in.read("region", out.region);
  in.read("account", out.account);
  in.read("epoch", out.epoch);
  in.read("host", out.host);
  in.read("hosts", out.hosts);
  in.read("network_interface", out.network_interface);
  in.read("request", out.request);
  in.read("python_environment", out.python_environment);
  in.read("server", out.server);
  in.read_if("num_cpus", out.num_cpus);
  in.read_if("gpus", out.gpus);
  in.read("log_stream", out.log_stream);
  in.read_if("stop_grace_ms", out.stop_grace);
  in.read_if("orphan_limit_ms", out.orphan_limit);
  in.read_if("gang_secret", out.gang_secret);
  in.read_if("gpu_nodes", out.gpu_nodes);
  in.read_if("notes", out.notes);
  return in.finish(std::move(out));
}

json to_json(const Credentials& value) {
  return {{"role_arn", text_of(value.role_arn)},
          {"access_key_id", text_of(value.access_key_id)},
          {"secret_access_key", text_of(value.secret_access_key)},
          {"session_token", text_of(value.session_token)},
          {"expires", millis(value.expires)}};
}

Result<Credentials> credentials_from_json(const json& value) {
  Credentials out;
  Fields in(value, "credentials");
  in.read("role_arn", out.role_arn);
  in.read("access_key_id", out.access_key_id);
  in.read("secret_access_key", out.secret_access_key);
  in.read("session_token", out.session_token);
  in.read("expires", out.expires);
  return in.finish(std::move(out));
}

json to_json(const Report& value) {
  json out = {{"seq", value.seq}};
  if (value.phase) {
    out["phase"] = std::string(name_of(*value.phase));
  }
  if (value.exit) {
    out["exit"] = json_of(*value.exit);
  }
  if (value.error) {
    out["error"] = json_of(*value.error);
  }
  if (!value.lines.empty()) {
    out["lines"] = json_of(value.lines);
  }
  if (!value.points.empty()) {
    out["points"] = json_of(value.points);
  }
  if (!value.message.empty()) {
    out["message"] = text_of(value.message);
  }
  if (value.checkpoints) {
    out["checkpoints"] = json_of(*value.checkpoints);
  }
  return out;
}

Result<Report> report_from_json(const json& value) {
  Report out;
  Fields in(value, "report");
  in.read("seq", out.seq);
  in.read_if("phase", out.phase);
  in.read_if("exit", out.exit);
  in.read_if("error", out.error);
  in.read_if("lines", out.lines);
  in.read_if("points", out.points);
  in.read_if("message", out.message);
  in.read_if("checkpoints", out.checkpoints);
  return in.finish(std::move(out));
}

// A signal travels as a "go" with one member more. Instances that were started by a server which
// knew no signals still run after an upgrade: another go changes nothing there, while a kind that
// they do not know would keep all later commands from them.
json to_json(const Command& value) {
  const bool is_signal = value.kind == Command::Kind::kSignal;
  const Command::Kind kind = is_signal ? Command::Kind::kGo : value.kind;
  json out = {{"seq", value.seq}, {"kind", std::string(name_in(kKinds, kind))}};
  if (is_signal && value.signal) {
    out["signal"] = std::string(name_of(*value.signal));
  }
  if (value.model) {
    out["model"] = json_of(*value.model);
  }
  if (value.output) {
    out["output"] = json_of(*value.output);
  }
  return out;
}

Result<Command> command_from_json(const json& value) {
  Command out;
  Fields in(value, "command");
  in.read("seq", out.seq);
  in.read("kind", out.kind);
  in.read_if("model", out.model);
  in.read_if("output", out.output);
  in.read_if("signal", out.signal);
  if (out.signal) {
    out.kind = Command::Kind::kSignal;
  }
  return in.finish(std::move(out));
}

Result<int> check_protocol(std::string_view header, Peer peer, int ours) {
  const std::int64_t theirs = parse_int(header).value_or(0);
  const std::int64_t instance = peer == Peer::kInstance ? theirs : ours;
  const std::int64_t server = peer == Peer::kInstance ? ours : theirs;
  if (instance >= 1 && instance <= server && server - instance <= kVersionsBefore) {
    return static_cast<int>(instance);
  }
  const std::string who = peer == Peer::kInstance ? "instance" : "server";
  const std::string said = header.empty() ? "none" : "\"" + to_valid_utf8(header) + "\"";
  return Error{Code::kInvalidArgument,
               "the " + who + " speaks protocol version " + said + ", this side version " +
                   std::to_string(ours) +
                   "; a server serves instances of its own version and of "
                   "the two before",
               "protocol"};
}

}  // namespace wire
}  // namespace trainyard
