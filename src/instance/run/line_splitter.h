// SPDX-License-Identifier: Apache-2.0
// Turns the bytes that a process prints into log lines. A push parser without I/O or clock: bytes
// and the time go in, lines come out, the same ones however the bytes were cut into pieces.
//
//   - a line ends at \n or \r\n; flush() gives what is left when the process has ended
//   - a progress bar (text, \r, text, \r, ...) is one line that changes: its latest state comes out
//     at most once a second, its final state always
//   - text is valid UTF-8: bytes that are not, and NUL, become U+FFFD
//   - terminal control sequences (colours, cursor moves, titles) are left out, so that metric
//     patterns match; other control characters stay
//   - a line longer than kMaxEvent bytes is cut between characters into several
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace trainyard::instance {

class LineSplitter {
 public:
  // The longest event that CloudWatch Logs takes.
  static constexpr std::size_t kMaxEvent = std::size_t{256} << 10;
  static constexpr Duration kBarInterval{1000};

  // Every line begins with `prefix`, which counts towards its length.
  explicit LineSplitter(std::string prefix = {}) : prefix_(std::move(prefix)) {}

  void push(std::string_view bytes, SteadyTime now, std::vector<std::string>& lines);
  // Gives a progress bar's latest state when it is due. Call it now and then.
  void tick(SteadyTime now, std::vector<std::string>& lines);
  void flush(std::vector<std::string>& lines);

 private:
  enum class Escape { kNone, kStarted, kSequence, kTitle, kTitleEnding };

  void take(char c, SteadyTime now, std::vector<std::string>& lines);
  void take_text(std::string_view text, std::vector<std::string>& lines);
  bool swallow(char c);
  void end_line(std::vector<std::string>& lines);
  void show_bar(std::string& state, SteadyTime now, std::vector<std::string>& lines);
  void cut(std::vector<std::string>& lines);
  void emit(std::string_view text, std::vector<std::string>& lines);

  std::string prefix_;
  std::string line_;       // bytes since the last \r or \n
  std::string bar_;        // the state that the last \r ended
  std::string shown_;      // the state of this bar that came out last
  bool is_bar_ = false;    // the current line has seen a \r
  bool was_cut_ = false;   // a part of the current line is out: an empty rest is no line
  bool carriage_ = false;  // the last byte was \r: the next one says what it meant
  Escape escape_ = Escape::kNone;
  SteadyTime last_shown_{};
};

}  // namespace trainyard::instance
