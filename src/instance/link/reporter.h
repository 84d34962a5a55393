// SPDX-License-Identifier: Apache-2.0
// Sends what happens on this instance to the server, in order, at least once, from a thread of its
// own: every fact gets a sequence number and is sent until it is acknowledged. A beat goes out when
// there is nothing else to say. The server may be away for long: outbox.h keeps what waits. No call
// here ever waits for the server except drain().
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "instance/link/outbox.h"
#include "instance/link/server_link.h"
#include "wire/messages.h"

namespace trainyard::instance {

class Reporter {
 public:
  // `on_denied` is called once, from the reporter's thread, when the server no longer knows this
  // attempt. Nothing is sent after that.
  Reporter(ServerLink& link, Clock& clock, Path spool, std::function<void()> on_denied);
  ~Reporter();

  void phase(wire::Phase phase);
  void exit(const wire::Exit& exit);
  void ended(wire::Exit exit);  // with phase kEnded
  void error(Error error);
  void message(std::string text);  // the job's StatusMessage
  void checkpoints(const wire::CheckpointLag& lag);
  void lines(std::vector<wire::LogLine> lines);
  void points(std::vector<wire::MetricPoint> points);
  void note(std::string text);  // one line of the platform's own in the job's log

  // Waits until the server has everything. False when the time is over or the server has denied.
  bool drain(Duration time);
  // When the server has taken something last; before that, when this was made.
  SteadyTime heard() const;

 private:
  void run(const std::stop_token& stop);
  void add(wire::Report report);
  void seal();
  bool nothing_is_pending() const { return pending_.empty() && pending_points_.empty(); }
  void seal_lines();
  void seal_points();
  bool send(const std::stop_token& stop);

  ServerLink& link_;
  Clock& clock_;
  std::function<void()> on_denied_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  Outbox outbox_ GUARDED_BY(mutex_);
  std::vector<wire::LogLine> pending_ GUARDED_BY(mutex_);  // become one report when it is sent
  std::size_t pending_bytes_ GUARDED_BY(mutex_) = 0;
  std::size_t lost_lines_ GUARDED_BY(mutex_) = 0;
  std::vector<wire::MetricPoint> pending_points_ GUARDED_BY(mutex_);
  std::int64_t next_seq_ GUARDED_BY(mutex_) = 1;
  bool urgent_ GUARDED_BY(mutex_) = false;  // something other than lines waits
  bool denied_ GUARDED_BY(mutex_) = false;
  SteadyTime heard_ GUARDED_BY(mutex_){};
  std::string trouble_
      GUARDED_BY(mutex_);  // why nothing was sent last, as the log says; empty: sent

  std::jthread thread_;
};

}  // namespace trainyard::instance
