// SPDX-License-Identifier: Apache-2.0
#include "instance/metrics/metric_watch.h"

#include <algorithm>
#include <array>

#include "base/thread.h"

namespace trainyard::instance {
namespace {

// Searched with one expression after the other: enough to keep each one's code at hand, few enough
// that a stop is heard soon.
constexpr std::size_t kTogether = 256;

}  // namespace

MetricWatch::MetricWatch(const std::vector<MetricDefinition>& definitions, MetricSinks sinks)
    : sinks_(std::move(sinks)), matcher_(definitions, processor_time) {
  thread_ = start_thread("metrics", [this](const std::stop_token& stop) { run(stop); });
}

MetricWatch::~MetricWatch() {
  end();
}

void MetricWatch::end() {
  if (thread_.joinable()) {
    thread_.request_stop();
    changed_.notify_all();
    thread_.join();
  }
}

void MetricWatch::offer(std::span<const wire::LogLine> lines) {
  const MutexLock lock(mutex_);
  for (const wire::LogLine& line : lines) {
    if (waiting_.size() + line.text.size() > kMostWaiting) {
      ++lost_;
      continue;
    }
    waiting_.bytes += line.text;
    waiting_.lines.push_back({.at = line.at, .size = line.text.size()});
  }
  changed_.notify_all();
}

void MetricWatch::finish(Duration time) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return waiting_.lines.empty() && !is_searching_; });
    lost_ += static_cast<std::int64_t>(waiting_.lines.size());
    waiting_ = {};
  }
  end();
  if (const std::int64_t lost = count_lost(); lost > 0) {
    sinks_.note(std::to_string(lost) +
                " lines were not searched for metrics: they came faster than that could be done.");
  }
}

void MetricWatch::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Buffer buffer;
    {
      std::unique_lock lock(mutex_);
      is_searching_ = false;
      changed_.notify_all();
      changed_.wait(lock, stop, [&] { return !waiting_.lines.empty(); });
      std::swap(buffer, waiting_);
      is_searching_ = true;
    }
    search(buffer, stop);
    tell_of_loss();
  }
}

void MetricWatch::search(const Buffer& buffer, const std::stop_token& stop) {
  std::array<LineView, kTogether> lines;
  std::string_view rest = buffer.bytes;
  std::size_t next = 0;
  while (next < buffer.lines.size() && !stop.stop_requested()) {
    const std::size_t count = std::min(kTogether, buffer.lines.size() - next);
    for (std::size_t i = 0; i < count; ++i) {
      const Buffer::Line& line = buffer.lines[next + i];
      lines[i] = {.at = line.at, .text = rest.substr(0, line.size)};
      rest.remove_prefix(line.size);
    }
    next += count;
    report(matcher_.search(std::span(lines).first(count)));
  }
  const MutexLock lock(mutex_);
  lost_ += static_cast<std::int64_t>(buffer.lines.size() - next);
}

void MetricWatch::report(MetricFindings findings) {
  for (std::string& note : findings.notes) {
    sinks_.note(std::move(note));
  }
  if (!findings.points.empty()) {
    sinks_.points(std::move(findings.points));
  }
}

std::int64_t MetricWatch::count_lost() {
  const MutexLock lock(mutex_);
  return lost_;
}

void MetricWatch::tell_of_loss() {
  const std::int64_t lost = count_lost();
  if (lost == told_) {
    return;
  }
  told_ = lost;
  if (std::string note = matcher_.lines_were_lost(); !note.empty()) {
    sinks_.note(std::move(note));
  }
}

}  // namespace trainyard::instance
