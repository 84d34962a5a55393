// SPDX-License-Identifier: Apache-2.0
#include "instance/metrics/metric_matcher.h"

#include <algorithm>
#include <ctime>
#include <numeric>

#include "base/encoding.h"
#include "base/log.h"
#include "instance/launch/request.h"
#include "instance/metrics/python_float.h"

namespace trainyard::instance {
namespace {

constexpr std::size_t kShownText = 60;

std::string switched_off(std::string_view name, std::string_view why) {
  return "Metric \"" + std::string(name) + "\" is switched off: " + std::string(why);
}

}  // namespace

std::vector<MetricDefinition> metric_definitions(const nlohmann::json& request) {
  std::vector<MetricDefinition> definitions;
  const nlohmann::json& list = member(request, "AlgorithmSpecification", "MetricDefinitions");
  if (list.is_array()) {
    for (const nlohmann::json& item : list) {
      definitions.push_back({.name = text_at(item, "Name"), .regex = text_at(item, "Regex")});
    }
  }
  return definitions;
}

MetricMatcher::Cost processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

MetricMatcher::MetricMatcher(const std::vector<MetricDefinition>& definitions,
                             std::function<Cost()> spent)
    : spent_(std::move(spent)) {
  for (const MetricDefinition& definition : definitions) {
    Result<PythonRegex> regex = PythonRegex::compile(definition.regex);
    if (regex) {
      metrics_.push_back({.name = definition.name, .regex = std::move(*regex)});
    } else {  // the server has checked it when the job was created
      log_warning("metric " + definition.name + ": " + regex.error().message);
    }
  }
}

MetricFindings MetricMatcher::search(std::span<const LineView> lines) {
  MetricFindings findings;
  Cost before = spent_();
  for (Tracked& metric : metrics_) {
    if (metric.is_on) {
      search_one(metric, lines, findings);
      const Cost after = spent_();
      metric.cost += after - before;
      before = after;
    }
  }
  return findings;
}

void MetricMatcher::search_one(Tracked& metric, std::span<const LineView> lines,
                               MetricFindings& findings) {
  for (const LineView& line : lines) {
    const PythonRegex::Match match = metric.regex.search(line.text);
    ++metric.searches;
    if (match.outcome == PythonRegex::Outcome::kFound && match.has_group) {
      take(metric, line, match.group, findings);
    }
    count(metric, match.outcome == PythonRegex::Outcome::kLimit, findings);
    if (!metric.is_on) {
      return;
    }
  }
}

void MetricMatcher::take(Tracked& metric, const LineView& line, std::string_view text,
                         MetricFindings& findings) {
  if (const std::optional<double> value = python_float(text)) {
    findings.points.push_back({.metric = metric.name, .at = line.at, .value = *value});
  } else if (!std::exchange(metric.has_warned, true)) {
    const std::string_view shown = utf8_prefix(text, kShownText);
    findings.notes.push_back("Metric \"" + metric.name + "\": \"" + std::string(shown) +
                             (shown.size() < text.size() ? "..." : "") +
                             "\" is no number; where that stands there is no value.");
  }
}

void MetricMatcher::count(Tracked& metric, bool hit_limit, MetricFindings& findings) {
  if (hit_limit) {
    ++metric.overruns;
    metric.clean = 0;
  } else if (metric.overruns > 0 && ++metric.clean == kCleanSearches) {
    --metric.overruns;
    metric.clean = 0;
  }
  if (metric.overruns == kMostOverruns) {
    metric.is_on = false;
    findings.notes.push_back(
        switched_off(metric.name,
                     "its regular expression needs too many steps to see that a line has no "
                     "value (catastrophic backtracking)."));
  }
}

std::string MetricMatcher::lines_were_lost() {
  const Cost all =
      std::accumulate(metrics_.begin(), metrics_.end(), Cost(0),
                      [](Cost sum, const Tracked& metric) { return sum + metric.cost; });
  std::string note;
  for (Tracked& metric : metrics_) {
    const bool is_dear = metric.cost > kDearSearch * metric.searches && metric.cost > all / 2;
    metric.blames = is_dear ? metric.blames + 1 : 0;
    metric.cost = Cost(0);
    metric.searches = 0;
    if (metric.is_on && metric.blames == kMostBlames) {
      metric.is_on = false;
      note = switched_off(metric.name,
                          "its regular expression is so slow that lines are lost to "
                          "the other metrics.");
    }
  }
  return note;
}

}  // namespace trainyard::instance
