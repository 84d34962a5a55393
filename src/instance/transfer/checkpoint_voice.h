// SPDX-License-Identifier: Apache-2.0
// What a person hears of the mirror: one note for each file that is left out, how far S3 is behind
// once that is worth a word, and in the end what did not get there. One owner; time comes in.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "instance/transfer/checkpoint_plan.h"
#include "instance/transfer/downloads.h"
#include "wire/messages.h"

namespace trainyard::instance {

struct MirrorSinks {
  ProgressSinks progress;
  std::function<void(const wire::CheckpointLag&)> lag;
};

class CheckpointVoice {
 public:
  CheckpointVoice(std::string uri, std::string inside, MirrorSinks sinks)
      : uri_(std::move(uri)), inside_(std::move(inside)), sinks_(std::move(sinks)) {}

  // Once for each path and reason.
  void left_out(const std::string& path, const std::string& why);
  // A file that never rests was sent although it is open for writing. Once for each path.
  void sent_open(const std::string& path);
  void note(const std::string& text) { sinks_.progress.note(text); }
  void trouble(const std::string& why) { trouble_ = why; }
  // Call it every second or so.
  void lag(const MirrorLag& lag, bool is_flushing, SteadyTime now);
  // `missing` names some of the files that are not in S3.
  void given_up(const MirrorLag& lag, const std::vector<std::string>& missing);

  // When lag() has something to say next, if nothing changes.
  static constexpr Duration kInterval{1'000};

 private:
  std::string sentence(const MirrorLag& lag) const;
  void tell_server(const MirrorLag& lag, bool is_flushing, SteadyTime now);
  void tell_people(const MirrorLag& lag, bool is_flushing, SteadyTime now);

  std::string uri_;
  std::string inside_;
  MirrorSinks sinks_;
  std::string trouble_;
  std::set<std::string> named_;
  bool is_reported_ = false;   // the server knows of a lag
  bool is_announced_ = false;  // so does the StatusMessage
  bool is_noted_ = false;      // so does the log
  bool was_flushing_ = false;
  std::optional<SteadyTime> flush_began_ = {};
  SteadyTime next_report_ = {};
  SteadyTime next_message_ = {};
  SteadyTime next_note_ = {};
};

}  // namespace trainyard::instance
