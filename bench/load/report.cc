// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "bench/load/run.h"
#include "formats/json.h"

namespace trainyard::load {
namespace {

using nlohmann::json;

double milliseconds_of(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

json times_of(const Histogram& histogram) {
  return {{"count", histogram.count()},
          {"mean", milliseconds_of(histogram.mean())},
          {"p50", milliseconds_of(histogram.percentile(0.5))},
          {"p90", milliseconds_of(histogram.percentile(0.9))},
          {"p99", milliseconds_of(histogram.percentile(0.99))},
          {"p999", milliseconds_of(histogram.percentile(0.999))},
          {"max", milliseconds_of(histogram.largest())}};
}

}  // namespace

std::string to_json_text(const Report& report) {
  const double seconds = static_cast<double>(report.elapsed.count()) / 1e9;
  const auto rate = [&](std::uint64_t count) { return static_cast<double>(count) / seconds; };
  json out = {{"requests", report.requests},
              {"failed", report.failed},
              {"failures", report.failures},
              {"broken", report.broken},
              {"connects", report.connects},
              {"idle_held", report.idle_held},
              {"seconds", seconds},
              {"requests_per_second", rate(report.requests)},
              {"sent_bytes_per_second", rate(report.bytes_sent)},
              {"received_bytes_per_second", rate(report.bytes_received)},
              {"latency_ms", times_of(report.latency)}};
  if (report.items > 0) {
    out["items"] = report.items;
    out["items_per_second"] = rate(report.items);
  }
  if (report.lag.count() > 0) {
    out["lag_ms"] = times_of(report.lag);
  }
  if (!report.acknowledged.empty()) {
    out["acknowledged"] = report.acknowledged;
  }
  return dump_json(out, 1) + "\n";
}

}  // namespace trainyard::load
