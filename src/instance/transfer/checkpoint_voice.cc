// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_voice.h"

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::instance {
namespace {

constexpr std::size_t kNamed = 200;  // files with a note of their own
constexpr Duration kReportAfter{2'000};
constexpr Duration kReportInterval{2'000};
constexpr Duration kMessageAfter{10'000};
constexpr Duration kFlushMessageAfter{3'000};
constexpr Duration kMessageInterval{10'000};
constexpr Duration kNoteAfter{30'000};
constexpr Duration kNoteInterval{300'000};

}  // namespace

void CheckpointVoice::left_out(const std::string& path, const std::string& why) {
  if (named_.size() > kNamed || !named_.insert(path + '\0' + why).second) {
    return;
  }
  note(named_.size() > kNamed
           ? "More files of " + inside_ + " are not mirrored; they are not named any more."
           : inside_ + "/" + to_valid_utf8(path) + " is not mirrored to S3: " + to_valid_utf8(why) +
                 ".");
}

void CheckpointVoice::sent_open(const std::string& path) {
  if (named_.size() <= kNamed && named_.insert(path).second) {
    note(inside_ + "/" + to_valid_utf8(path) +
         " stays open for writing: it is sent to S3 as it is, every 5 minutes.");
  }
}

std::string CheckpointVoice::sentence(const MirrorLag& lag) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(lag.oldest).count();
  std::string text = std::to_string(lag.files) + (lag.files == 1 ? " file (" : " files (") +
                     human_bytes(lag.bytes) + ") ";
  if (lag.files == 0) {
    text =
        std::to_string(lag.removals) + (lag.removals == 1 ? " removed file " : " removed files ");
  }
  text += "of " + inside_ + " not yet in " + uri_ + ", the oldest change " +
          std::to_string(seconds) + " s ago";
  return trouble_.empty() ? text : text + ": " + to_valid_utf8(trouble_);
}

void CheckpointVoice::lag(const MirrorLag& lag, bool is_flushing, SteadyTime now) {
  tell_server(lag, is_flushing, now);
  tell_people(lag, is_flushing, now);
}

void CheckpointVoice::tell_server(const MirrorLag& lag, bool is_flushing, SteadyTime now) {
  const bool is_behind = lag.files + lag.removals > 0;
  const bool is_worth_it = is_behind && (is_flushing || lag.oldest >= kReportAfter);
  const bool is_over = !is_behind && is_reported_;
  if (!is_over && (!is_worth_it || (now < next_report_ && is_flushing == was_flushing_))) {
    return;
  }
  sinks_.lag({.files = static_cast<std::int64_t>(lag.files),
              .bytes = static_cast<std::int64_t>(lag.bytes),
              .removals = static_cast<std::int64_t>(lag.removals),
              .oldest = lag.oldest,
              .is_flushing = is_flushing});
  is_reported_ = is_behind;
  was_flushing_ = is_flushing;
  next_report_ = now + kReportInterval;
}

void CheckpointVoice::tell_people(const MirrorLag& lag, bool is_flushing, SteadyTime now) {
  if (lag.files + lag.removals == 0) {
    if (is_announced_) {
      sinks_.progress.message((is_flushing ? "" : "Training in progress. ") +
                              ("Checkpoints are up to date in " + uri_ + "."));
    }
    if (is_noted_) {
      note("Checkpoints are up to date again in " + uri_ + ".");
    }
    is_announced_ = is_noted_ = false;
    trouble_.clear();
    return;
  }
  if (is_flushing && !flush_began_) {
    flush_began_ = now;
  }
  const bool is_long_flush = flush_began_ && now - *flush_began_ >= kFlushMessageAfter;
  if ((lag.oldest >= kMessageAfter || is_long_flush) && now >= next_message_) {
    sinks_.progress.message((is_flushing ? "Uploading checkpoints: " : "Checkpoints lag behind: ") +
                            sentence(lag));
    is_announced_ = true;
    next_message_ = now + kMessageInterval;
  }
  if (lag.oldest >= kNoteAfter && now >= next_note_) {
    note("Checkpoints lag behind: " + sentence(lag));
    is_noted_ = true;
    next_note_ = now + kNoteInterval;
  }
}

void CheckpointVoice::given_up(const MirrorLag& lag, const std::vector<std::string>& missing) {
  std::vector<std::string> names;
  names.reserve(missing.size());
  for (const std::string& path : missing) {
    names.push_back(to_valid_utf8(path));
  }
  note("Checkpoints are not complete in S3: " + sentence(lag) + "; given up" +
       (names.empty()
            ? "."
            : ". Missing: " + join(names, ", ") + (lag.files > names.size() ? ", ..." : ".")));
}

}  // namespace trainyard::instance
