// SPDX-License-Identifier: Apache-2.0
#include "instance/testing/metrics_rate.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <iostream>
#include <latch>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "instance/metrics/metric_matcher.h"
#include "instance/metrics/metric_watch.h"
#include "instance/run/log_pump.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kTogether = 256;  // as MetricWatch does
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr Duration kLong{60'000};

std::vector<MetricDefinition> definitions_in(const std::string& path) {
  const Result<std::string> text = read_file(path, kMostBytes);
  const json list = json::parse(text ? *text : "[]", nullptr, false);
  return metric_definitions({{"AlgorithmSpecification", {{"MetricDefinitions", list}}}});
}

struct Found {
  std::size_t points = 0;
  double sum = 0;
  std::size_t notes = 0;
};

Found search_all(MetricMatcher& matcher, std::span<const LineView> lines) {
  Found found;
  while (!lines.empty()) {
    const std::size_t count = std::min(kTogether, lines.size());
    const MetricFindings some = matcher.search(lines.first(count));
    lines = lines.subspan(count);
    found.points += some.points.size();
    found.notes += some.notes.size();
    for (const wire::MetricPoint& point : some.points) {
      found.sum += std::isfinite(point.value) ? point.value : 0;
    }
  }
  return found;
}

}  // namespace

int metrics_rate(const std::vector<std::string>& arguments) {
  const Result<std::string> text = read_file(arguments.at(1), kMostBytes);
  if (!text) {
    std::cerr << text.error().message << "\n";
    return 1;
  }
  std::vector<LineView> lines;
  for (const std::string_view line : split(trim(*text), '\n')) {
    lines.push_back({.at = {}, .text = line});
  }
  MetricMatcher matcher(definitions_in(arguments.at(0)), processor_time);
  search_all(matcher, std::span(lines).first(std::min(lines.size(), kTogether)));  // compiles
  const MetricMatcher::Cost before = processor_time();
  const Found found = search_all(matcher, lines);
  const Seconds spent = processor_time() - before;
  std::cout << json{{"lines", lines.size()},
                    {"points", found.points},
                    {"sum", found.sum},
                    {"notes", found.notes},
                    {"processor_seconds", spent.count()}}
            << "\n";
  return 0;
}

int log_rate(const std::vector<std::string>& arguments) {
  const std::vector<MetricDefinition> definitions = definitions_in(arguments.at(0));
  Result<Fd> output = open_file(arguments.at(1), O_RDONLY, 0);
  Result<Pipe> status = make_pipe();
  Result<Pipe> diagnostics = make_pipe();
  if (!output || !status || !diagnostics) {
    std::cerr << "cannot open " << arguments.at(1) << "\n";
    return 1;
  }
  std::atomic<std::size_t> points = 0;
  std::atomic<std::size_t> notes = 0;
  MetricWatch watch(definitions, {.points = [&](const auto& found) { points += found.size(); },
                                  .note = [&](const std::string&) { ++notes; }});
  std::size_t count = 0;
  std::latch closed(1);
  PumpSinks sinks{.lines =
                      [&](std::vector<wire::LogLine> lines) {
                        if (!definitions.empty()) {
                          watch.offer(lines);
                        }
                        count += lines.size();
                      },
                  .ended = [](const ProcessEnd&) {},
                  .closed = [&] { closed.count_down(); }};
  PumpInput input{.outputs = {},
                  .prefixes = {""},
                  .status = std::move(status->read_end),
                  .diagnostics = std::move(diagnostics->read_end)};
  input.outputs.push_back(std::move(*output));
  status->write_end.reset();
  diagnostics->write_end.reset();
  SystemClock clock;
  const auto start = std::chrono::steady_clock::now();
  const LogPump pump(std::move(input), std::move(sinks), clock);
  closed.wait();
  const Seconds spent = std::chrono::steady_clock::now() - start;
  watch.finish(kLong);
  std::cout << json{{"lines", count},
                    {"points", points.load()},
                    {"notes", notes.load()},
                    {"seconds", spent.count()}}
            << "\n";
  return 0;
}

}  // namespace trainyard::instance
