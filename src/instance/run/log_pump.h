// SPDX-License-Identifier: Apache-2.0
// Reads everything that comes out of a container until its last pipe has closed, on one thread: the
// output of each process through a splitter of its own, so that lines never mix and keep their
// order; the status lines of init; what bubblewrap itself complains about. A pipe that a process
// holds which does not die is not waited for: some time after init has ended, all is over.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "instance/run/init.h"
#include "instance/run/line_splitter.h"
#include "wire/messages.h"

namespace trainyard::instance {

// Called from the pump's thread. They must not block for long: a full pipe stops the job.
struct PumpSinks {
  std::function<void(std::vector<wire::LogLine>)> lines;
  std::function<void(ProcessEnd)> ended;
  std::function<void()> closed;  // the last call
  // The bytes of process 0, 1, ... as they come; need not be set.
  std::function<void(int process, std::string_view bytes)> raw = {};
};

// The end of what a process has printed, for whoever asks why it ended. All of it together is below
// LineSplitter::kMaxEvent, however it is escaped: it travels as one line of JSON.
class LastLines {
 public:
  static constexpr std::size_t kMost = 20;
  static constexpr std::size_t kLongest = 2'000;  // bytes; longer ones end between characters

  void add(std::string_view line);  // valid UTF-8
  const std::deque<std::string>& all() const { return lines_; }

 private:
  std::deque<std::string> lines_;
};

struct PumpInput {
  std::vector<Fd> outputs;            // of process 0, 1, ...
  std::vector<std::string> prefixes;  // of each process's lines
  Fd status;
  Fd diagnostics;  // bubblewrap's and init's own standard error
};

class LogPump {
 public:
  static constexpr std::size_t kTail = LastLines::kMost;
  // Without a byte, once init has ended. The kernel kills what init leaves; that takes a moment for
  // much memory, or for a GPU.
  static constexpr Duration kPatience{5000};

  LogPump(PumpInput input, PumpSinks sinks, Clock& clock);
  ~LogPump() = default;  // joins; the container must have ended or be about to

  // After `closed`: the last lines of a process, and what the container's machinery said.
  const std::deque<std::string>& tail(int process) const;
  const std::deque<std::string>& diagnostics() const { return streams_.back().tail.all(); }
  // After `closed`: a process of the container is still there.
  bool is_stuck() const { return is_stuck_; }

 private:
  struct Stream {
    Fd fd;
    LineSplitter splitter;
    LastLines tail;
  };

  void run();
  bool wait_and_read();
  bool is_over();
  void give_up();
  void read(std::size_t index, std::vector<std::string>& lines);
  void deliver(std::size_t index, std::vector<std::string> lines,
               std::vector<wire::LogLine>& output);

  PumpSinks sinks_;
  Clock& clock_;
  std::vector<Stream> streams_;  // outputs, then status, then diagnostics
  std::size_t outputs_;
  std::optional<SteadyTime> quiet_since_ = {};  // of what init has left
  bool is_stuck_ = false;
  std::jthread thread_;
};

}  // namespace trainyard::instance
