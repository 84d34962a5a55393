// SPDX-License-Identifier: Apache-2.0
#include "cli/views.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/members.h"
#include "cli/terminal.h"

namespace trainyard::cli {
namespace {

using Json = nlohmann::json;

// How much of a hyperparameter or an environment value is shown.
constexpr std::size_t kShownValue = 200;

std::string safe(std::string_view text) {
  return printable(text, false);
}

std::string time_text(const Json& object, std::string_view member) {
  const auto time = time_of(object, member);
  return time.has_value() ? show_time(*time) : std::string();
}

// The reason with its line ends shown as " / ": tracebacks stay readable in one field.
std::string reason_of(const Json& job) {
  std::string reason;
  for (const char c : text_of(job, "FailureReason")) {
    reason += c == '\n' ? std::string(" / ") : std::string(1, c);
  }
  return reason;
}

// What has no end of its own ended with the job.
WallTime ended_at(const Json& job, WallTime now) {
  return has_ended(job) ? time_of(job, "TrainingEndTime").value_or(now) : now;
}

std::string instances_text(const Json& job) {
  const Json& resources = object_of(job, "ResourceConfig");
  const auto count = number_of(resources, "InstanceCount");
  return count.has_value() ? std::to_string(*count) + " x " + text_of(resources, "InstanceType")
                           : std::string();
}

// "Name   value" lines; those without a value are left out.
class Fields {
 public:
  explicit Fields(bool color) : color_(color) {}

  void add(const std::string& name, const std::string& value, Color tone = Color::kPlain) {
    if (!value.empty()) {
      rows_.push_back({{.text = name, .color = Color::kDim}, {.text = safe(value), .color = tone}});
    }
  }

  std::string text() const {
    const std::string table = render_table({"", ""}, rows_, color_);
    return table.substr(table.find('\n') + 1);
  }

 private:
  bool color_;
  std::vector<std::vector<Cell>> rows_;
};

std::string section(std::string_view title, bool color) {
  return "\n" + paint(title, Color::kBold, color) + "\n";
}

std::string map_section(const Json& job, std::string_view member, bool color) {
  const Json& values = object_of(job, member);
  if (values.empty()) {
    return {};
  }
  Fields fields(color);
  for (const auto& [key, value] : values.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const std::string_view cut = std::string_view(text).substr(0, kShownValue);
    fields.add(safe(key),
               text.empty() ? "\"\"" : std::string(cut) + (cut.size() < text.size() ? "..." : ""));
  }
  return section(member, color) + fields.text();
}

std::string channels_section(const Json& job, bool color) {
  std::vector<std::vector<Cell>> rows;
  for (const Json& channel : list_of(job, "InputDataConfig")) {
    const Json& source = object_of(object_of(channel, "DataSource"), "S3DataSource");
    rows.push_back({{.text = safe(text_of(channel, "ChannelName"))},
                    {.text = safe(text_of(source, "S3Uri"))},
                    {.text = safe(text_of(source, "S3DataDistributionType"))}});
  }
  if (rows.empty()) {
    return {};
  }
  return "\n" + render_table({"Channel", "Data", "Distribution"}, rows, color);
}

std::string lasted(const Json& span, WallTime now) {
  const auto start = time_of(span, "StartTime");
  if (!start.has_value()) {
    return {};
  }
  const WallTime end = time_of(span, "EndTime").value_or(now);
  return show_duration(std::chrono::duration_cast<std::chrono::seconds>(end - *start));
}

std::string history_section(const Json& job, WallTime now, bool color) {
  std::vector<std::vector<Cell>> rows;
  for (const Json& step : list_of(job, "SecondaryStatusTransitions")) {
    rows.push_back({{.text = time_text(step, "StartTime")},
                    {.text = safe(text_of(step, "Status"))},
                    {.text = lasted(step, now)},
                    {.text = safe(text_of(step, "StatusMessage"))}});
  }
  if (rows.empty()) {
    return {};
  }
  return "\n" + render_table({"Since", "Status", "Lasted", "Message"}, rows, color);
}

// Only a job that was restarted has something to tell here.
std::string attempts_section(const Json& job, WallTime now, bool color) {
  const Json& attempts = list_of(job, "Attempts");
  if (attempts.size() < 2) {
    return {};
  }
  std::vector<std::vector<Cell>> rows;
  for (const Json& attempt : attempts) {
    const auto number = number_of(attempt, "Epoch");
    rows.push_back({{.text = number.has_value() ? std::to_string(*number) : std::string()},
                    {.text = time_text(attempt, "StartTime")},
                    {.text = lasted(attempt, now)},
                    {.text = safe(text_of(attempt, "Cause"))}});
  }
  return "\n" + render_table({"Attempt", "Since", "Lasted", "Ended because"}, rows, color);
}

std::string metrics_section(const Json& job, bool color) {
  std::vector<std::vector<Cell>> rows;
  for (const Json& metric : list_of(job, "FinalMetricDataList")) {
    const auto value = metric.find("Value");
    rows.push_back({{.text = safe(text_of(metric, "MetricName"))},
                    {.text = value == metric.end() ? std::string() : value->dump()}});
  }
  if (rows.empty()) {
    return {};
  }
  return "\n" + render_table({"Metric", "Last value"}, rows, color);
}

std::string image_of(const Json& job) {
  return text_of(object_of(job, "AlgorithmSpecification"), "TrainingImage");
}

}  // namespace

bool has_ended(const Json& job) {
  const std::string status = text_of(job, "TrainingJobStatus");
  return status == "Completed" || status == "Failed" || status == "Stopped";
}

std::string show_status(const Json& job) {
  const std::string status = text_of(job, "TrainingJobStatus");
  const std::string detail = text_of(job, "SecondaryStatus");
  return detail.empty() || detail == status ? status : status + ", " + detail;
}

// A job that ended before its instances started has no TrainingEndTime: its last change was its
// end.
std::string show_job_time(const Json& job, WallTime now) {
  auto start = time_of(job, "TrainingStartTime");
  if (!start.has_value()) {
    start = time_of(job, "CreationTime");
  }
  if (!start.has_value()) {
    return {};
  }
  auto end = time_of(job, "TrainingEndTime");
  if (!end.has_value() && has_ended(job)) {
    end = time_of(job, "LastModifiedTime");
  }
  return show_duration(
      std::chrono::duration_cast<std::chrono::seconds>(end.value_or(now) - *start));
}

std::string show_model(const Json& job) {
  std::string uri = text_of(object_of(job, "ModelArtifacts"), "S3ModelArtifacts");
  if (uri.empty()) {
    return {};
  }
  if (!has_ended(job)) {
    return uri + " (when it has completed)";
  }
  const std::string status = text_of(job, "TrainingJobStatus");
  const auto is_there = flag_of(job, "HasModelArtifacts");
  // AWS's own service does not say it, and ours does not when an instance was lost whose model it
  // would have been.
  if (!is_there.has_value() && status != "Completed") {
    return "unknown: if it was saved, at " + uri;
  }
  if (is_there.value_or(true)) {
    return uri;
  }
  if (status == "Failed") {
    return "none: a failed job keeps no model";
  }
  const bool has_run = status == "Completed" || job.contains("TrainingStartTime");
  return has_run ? "none: /opt/ml/model was empty" : "none: its program had not started";
}

std::string show_jobs(const Json& summaries, WallTime now, bool color) {
  std::vector<std::vector<Cell>> rows;
  for (const Json& job : summaries) {
    const std::string status = text_of(job, "TrainingJobStatus");
    rows.push_back({{.text = safe(text_of(job, "TrainingJobName"))},
                    {.text = safe(show_status(job)), .color = color_of_status(status)},
                    {.text = time_text(job, "CreationTime")},
                    {.text = show_job_time(job, now)}});
  }
  return render_table({"NAME", "STATUS", "CREATED", "TIME"}, rows, color);
}

std::string show_job(const Json& job, WallTime now, bool color) {
  Fields fields(color);
  fields.add("Name", text_of(job, "TrainingJobName"), Color::kBold);
  fields.add("Status", show_status(job), color_of_status(text_of(job, "TrainingJobStatus")));
  fields.add("Reason", reason_of(job), Color::kRed);
  fields.add("ARN", text_of(job, "TrainingJobArn"));
  fields.add("Image", image_of(job));
  fields.add("Instances", instances_text(job));
  fields.add("Role", text_of(job, "RoleArn"));
  fields.add("Created", time_text(job, "CreationTime"));
  fields.add("Started", time_text(job, "TrainingStartTime"));
  fields.add("Ended", time_text(job, "TrainingEndTime"));
  fields.add("Time", show_job_time(job, now));
  fields.add("Output", text_of(object_of(job, "OutputDataConfig"), "S3OutputPath"));
  fields.add("Model", show_model(job));
  return fields.text() + map_section(job, "HyperParameters", color) +
         map_section(job, "Environment", color) + channels_section(job, color) +
         history_section(job, now, color) + attempts_section(job, ended_at(job, now), color) +
         metrics_section(job, color);
}

std::string show_end(const Json& job, bool color) {
  const std::string status = text_of(job, "TrainingJobStatus");
  std::string text = safe(text_of(job, "TrainingJobName")) + " " +
                     paint(lower(status), color_of_status(status), color);
  const auto end = time_of(job, "TrainingEndTime");
  if (end.has_value()) {
    text += " after " + show_job_time(job, *end);
  }
  if (const std::string reason = reason_of(job); !reason.empty()) {
    return text + ": " + safe(reason) + "\n";
  }
  const std::string detail = text_of(job, "SecondaryStatus");
  if (detail != status && !detail.empty()) {
    text += " (" + safe(detail) + ")";
  }
  const std::string model = show_model(job);
  return text + (model.empty() ? "" : ". Model: " + safe(model)) + "\n";
}

}  // namespace trainyard::cli
