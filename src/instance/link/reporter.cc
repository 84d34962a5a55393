// SPDX-License-Identifier: Apache-2.0
#include "instance/link/reporter.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/thread.h"

namespace trainyard::instance {
namespace {

constexpr std::size_t kMemory = std::size_t{8} << 20;
constexpr std::size_t kReportBytes = std::size_t{512} << 10;  // of log lines in one report
constexpr std::size_t kReportPoints = 5'000;
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
// Lines that come together travel together.
constexpr Duration kGather{20};
constexpr Duration kFirstRetry{100};
constexpr Duration kLastRetry{2000};

std::string text_of(const wire::Report& report) {
  return wire::to_json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Reporter::Reporter(ServerLink& link, Clock& clock, Path spool, std::function<void()> on_denied)
    : link_(link),
      clock_(clock),
      on_denied_(std::move(on_denied)),
      outbox_(std::move(spool), kMemory),
      heard_(clock.steady_now()) {
  thread_ = start_thread("reporter", [this](const std::stop_token& stop) { run(stop); });
}

Reporter::~Reporter() {
  thread_.request_stop();
  changed_.notify_all();
  thread_.join();
}

void Reporter::phase(wire::Phase phase) {
  add({.phase = phase});
}

void Reporter::exit(const wire::Exit& exit) {
  add({.exit = exit});
}

void Reporter::ended(wire::Exit exit) {
  add({.phase = wire::Phase::kEnded, .exit = std::move(exit)});
}

void Reporter::error(Error error) {
  add({.error = std::move(error)});
}

void Reporter::message(std::string text) {
  add({.message = std::move(text)});
}

void Reporter::checkpoints(const wire::CheckpointLag& lag) {
  add({.checkpoints = lag});
}

void Reporter::note(std::string text) {
  lines({{.at = clock_.now(), .text = std::move(text)}});
}

void Reporter::add(wire::Report report) {
  const MutexLock lock(mutex_);
  seal();
  report.seq = next_seq_++;
  outbox_.push(report.seq, text_of(report), /*must_keep=*/true);
  urgent_ = true;
  changed_.notify_all();
}

void Reporter::points(std::vector<wire::MetricPoint> points) {
  const MutexLock lock(mutex_);
  for (wire::MetricPoint& point : points) {
    pending_points_.push_back(std::move(point));
    if (pending_points_.size() >= kReportPoints) {
      seal_points();
    }
  }
  changed_.notify_all();
}

void Reporter::lines(std::vector<wire::LogLine> lines) {
  const MutexLock lock(mutex_);
  for (wire::LogLine& line : lines) {
    pending_bytes_ += line.text.size() + 32;
    pending_.push_back(std::move(line));
    if (pending_bytes_ >= kReportBytes) {
      seal_lines();
    }
  }
  changed_.notify_all();
}

// What is pending becomes reports. The caller holds the lock, here and in the next two.
void Reporter::seal() {
  seal_lines();
  seal_points();
}

void Reporter::seal_points() {
  if (pending_points_.empty()) {
    return;
  }
  wire::Report report{.seq = next_seq_, .points = std::exchange(pending_points_, {})};
  if (outbox_.push(report.seq, text_of(report), /*must_keep=*/false)) {
    ++next_seq_;
  } else {
    log_warning(std::to_string(report.points.size()) +
                " points of metrics are lost: the server is away and there is no room for them");
  }
}

void Reporter::seal_lines() {
  if (pending_.empty()) {
    return;
  }
  const std::size_t count = pending_.size();
  if (lost_lines_ > 0) {
    pending_.insert(
        pending_.begin(),
        {.at = clock_.now(),
         .text = std::to_string(lost_lines_) +
                 " log lines are lost: the server is away and there was no room for them."});
  }
  wire::Report report{.seq = next_seq_, .lines = std::move(pending_)};
  pending_.clear();
  pending_bytes_ = 0;
  if (outbox_.push(report.seq, text_of(report), /*must_keep=*/false)) {
    ++next_seq_;
    lost_lines_ = 0;
  } else {
    lost_lines_ += count;
  }
}

bool Reporter::drain(Duration time) {
  std::unique_lock lock(mutex_);
  seal();
  urgent_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, time,
                    [&] { return denied_ || (outbox_.is_empty() && nothing_is_pending()); });
  return outbox_.is_empty() && nothing_is_pending();
}

SteadyTime Reporter::heard() const {
  const MutexLock lock(mutex_);
  return heard_;
}

// One request: what waits, or a beat. False when the server has taken nothing of what waits: it may
// be away, or still be storing what was sent before.
bool Reporter::send(const std::stop_token& stop) {
  std::string body;
  bool is_beat = false;
  {
    const MutexLock lock(mutex_);
    seal();
    urgent_ = false;
    is_beat = outbox_.is_empty();
    body = is_beat ? "[" + text_of({}) + "]" : outbox_.batch(kBatchBytes);
  }
  const Result<std::int64_t> acknowledged = link_.report(std::move(body), stop);
  const MutexLock lock(mutex_);
  if (acknowledged) {
    heard_ = clock_.steady_now();
    if (!std::exchange(trouble_, {}).empty()) {
      log_info("reports are sent again");
    }
    const bool is_news = outbox_.acknowledge(*acknowledged);
    changed_.notify_all();
    return is_beat || is_news;
  }
  denied_ = acknowledged.error().code == Code::kDenied;
  if (denied_) {
    changed_.notify_all();
  } else if (!stop.stop_requested() && !is_unproven(acknowledged.error())) {
    const std::string& why = acknowledged.error().message;
    if (std::exchange(trouble_, why) != why) {
      log_warning("reports are not sent, which goes on until they are: " + why);
    }
  }
  return false;
}

void Reporter::run(const std::stop_token& stop) {
  Duration retry = kFirstRetry;
  SteadyTime next_beat = clock_.steady_now();
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      const auto until_beat = std::chrono::ceil<Duration>(next_beat - clock_.steady_now());
      changed_.wait_for(lock, stop, std::max(until_beat, Duration(0)),
                        [&] { return !outbox_.is_empty() || !nothing_is_pending(); });
      if (outbox_.is_empty() && !nothing_is_pending()) {
        changed_.wait_for(lock, stop, kGather, [&] { return urgent_; });
      }
    }
    if (stop.stop_requested()) {
      return;
    }
    if (send(stop)) {
      retry = kFirstRetry;
      next_beat = clock_.steady_now() + wire::kBeat;
      continue;
    }
    std::unique_lock lock(mutex_);
    if (denied_) {
      break;
    }
    changed_.wait_for(lock, stop, retry, [] { return false; });
    retry = std::min(retry * 2, kLastRetry);
  }
  if (!stop.stop_requested()) {
    on_denied_();
  }
}

}  // namespace trainyard::instance
