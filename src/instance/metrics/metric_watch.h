// SPDX-License-Identifier: Apache-2.0
// Searches the lines of a job for its metrics on a thread of its own, so that no expression can
// hold up the log: lines wait in a bounded buffer, and when it is full they are left out of the
// search (never of the log) and counted. Lines come from the log pump; points and notes go to the
// reporter.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "instance/metrics/metric_matcher.h"
#include "wire/messages.h"

namespace trainyard::instance {

// Called from the watch's thread.
struct MetricSinks {
  std::function<void(std::vector<wire::MetricPoint>)> points;
  std::function<void(std::string)> note;
};

class MetricWatch {
 public:
  static constexpr std::size_t kMostWaiting = std::size_t{16} << 20;  // bytes

  MetricWatch(const std::vector<MetricDefinition>& definitions, MetricSinks sinks);
  ~MetricWatch();  // what still waits is not searched

  // Never waits for a search.
  void offer(std::span<const wire::LogLine> lines);

  // Waits until all that was offered is searched, or the time is over; what is left then is left
  // out. No lines may be offered after it.
  void finish(Duration time);

 private:
  // Lines end to end in one string: one allocation for many.
  struct Buffer {
    struct Line {
      WallTime at{};
      std::size_t size = 0;
    };
    std::string bytes;
    std::vector<Line> lines;

    std::size_t size() const { return bytes.size() + lines.size() * sizeof(Line); }
  };

  void run(const std::stop_token& stop);
  void search(const Buffer& buffer, const std::stop_token& stop);
  void report(MetricFindings findings);
  void tell_of_loss();
  std::int64_t count_lost();
  void end();

  MetricSinks sinks_;
  MetricMatcher matcher_;  // of the watch's thread
  std::int64_t told_ = 0;  // lost lines that the matcher has heard of; of the watch's thread

  Mutex mutex_;
  ConditionVariable changed_;
  Buffer waiting_ GUARDED_BY(mutex_);
  bool is_searching_ GUARDED_BY(mutex_) = false;
  std::int64_t lost_ GUARDED_BY(mutex_) = 0;

  std::jthread thread_;
};

}  // namespace trainyard::instance
