// SPDX-License-Identifier: Apache-2.0
// Finds the values of a job's metrics in lines of its output: each line is searched once with each
// expression, and the text of the expression's first group is the value. Expressions come from
// users, so each has a budget: one that goes beyond the limits of a search again and again, or
// alone keeps the others from following the lines, is switched off, and a note says so. No thread,
// no clock but the one for costs: metric_watch.h feeds it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "formats/python_regex.h"
#include "wire/messages.h"

namespace trainyard::instance {

struct MetricDefinition {
  std::string name;
  std::string regex;
};

// AlgorithmSpecification.MetricDefinitions of an accepted request.
std::vector<MetricDefinition> metric_definitions(const nlohmann::json& request);

struct LineView {
  WallTime at{};
  std::string_view text;  // valid UTF-8
};

struct MetricFindings {
  std::vector<wire::MetricPoint> points;  // those of one metric in the order of the lines
  std::vector<std::string> notes;         // for the job's log
};

class MetricMatcher {
 public:
  using Cost = std::chrono::nanoseconds;
  static constexpr int kMostOverruns = 10;  // searches that hit a limit; clean ones make up for it
  static constexpr int kCleanSearches = 1'000;  // ... one for each so many
  static constexpr int kMostBlames = 3;
  static constexpr Cost kDearSearch{20'000};  // on average: 50,000 lines a second

  // `spent` is the processor time of the thread that searches.
  MetricMatcher(const std::vector<MetricDefinition>& definitions, std::function<Cost()> spent);

  MetricFindings search(std::span<const LineView> lines);

  // Lines had to be left out since the last call. Blames the definition that took most of the time,
  // if it was dear; the third time it is switched off. Gives the note about that, or nothing.
  std::string lines_were_lost();

 private:
  struct Tracked {
    std::string name;
    PythonRegex regex;
    bool is_on = true;
    bool has_warned = false;  // of text that is no number
    int overruns = 0;
    int clean = 0;
    int blames = 0;
    Cost cost{};  // since the last call of lines_were_lost()
    std::int64_t searches = 0;
  };

  void search_one(Tracked& metric, std::span<const LineView> lines, MetricFindings& findings);
  static void take(Tracked& metric, const LineView& line, std::string_view text,
                   MetricFindings& findings);
  static void count(Tracked& metric, bool hit_limit, MetricFindings& findings);

  std::function<Cost()> spent_;
  std::vector<Tracked> metrics_;
};

// Of the calling thread.
MetricMatcher::Cost processor_time();

}  // namespace trainyard::instance
