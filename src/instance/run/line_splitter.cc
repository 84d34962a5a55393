// SPDX-License-Identifier: Apache-2.0
#include "instance/run/line_splitter.h"

#include <algorithm>

#include "base/encoding.h"

namespace trainyard::instance {
namespace {

constexpr char kEscape = '\x1b';
constexpr char kBell = '\x07';

// Where to cut `text` at or before `limit` so that no character is divided.
std::size_t character_boundary(std::string_view text, std::size_t limit) {
  std::size_t cut = limit;
  for (int back = 0; back < 3 && cut > 0; ++back) {
    if ((static_cast<unsigned char>(text[cut]) & 0xC0) != 0x80) {
      return cut;
    }
    --cut;
  }
  return (static_cast<unsigned char>(text[cut]) & 0xC0) != 0x80 ? cut : limit;
}

bool is_plain(char c) {
  return c != '\n' && c != '\r' && c != kEscape;
}

}  // namespace

void LineSplitter::push(std::string_view bytes, SteadyTime now, std::vector<std::string>& lines) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    // Whole runs of ordinary bytes at a time: this is where a chatty job spends our time.
    if (escape_ == Escape::kNone && !carriage_) {
      const auto* const end = std::find_if_not(bytes.begin() + at, bytes.end(), is_plain);
      const auto run = static_cast<std::size_t>(end - (bytes.begin() + at));
      take_text(bytes.substr(at, run), lines);
      at += run;
      if (at == bytes.size()) {
        return;
      }
    }
    take(bytes[at++], now, lines);
  }
}

void LineSplitter::take_text(std::string_view text, std::vector<std::string>& lines) {
  while (!text.empty()) {
    // A few bytes more than an event, so that the cut sees whether it divides a character.
    const std::size_t room = kMaxEvent + 4 - std::min(line_.size(), kMaxEvent + 3);
    line_.append(text.substr(0, room));
    text.remove_prefix(std::min(room, text.size()));
    cut(lines);
  }
}

void LineSplitter::take(char c, SteadyTime now, std::vector<std::string>& lines) {
  if (swallow(c)) {
    return;
  }
  if (carriage_) {
    carriage_ = false;
    if (c == '\n') {
      end_line(lines);
      return;
    }
    if (c != '\r' && !line_.empty()) {
      is_bar_ = true;
      bar_ = std::move(line_);
      line_.clear();
      show_bar(bar_, now, lines);
    }
  }
  if (c == '\n') {
    end_line(lines);
  } else if (c == '\r') {
    carriage_ = true;
  } else {
    take_text(std::string_view(&c, 1), lines);
  }
}

// ECMA-48: ESC [ ... final byte; ESC ] ... (BEL or ESC \): a title; ESC and one more byte.
bool LineSplitter::swallow(char c) {
  const auto byte = static_cast<unsigned char>(c);
  switch (escape_) {
    case Escape::kNone:
      if (c == kEscape) {
        escape_ = Escape::kStarted;
        return true;
      }
      return false;
    case Escape::kStarted:
      escape_ = c == '[' ? Escape::kSequence : c == ']' ? Escape::kTitle : Escape::kNone;
      // ESC before a line end or a non-ASCII byte was no sequence.
      return escape_ != Escape::kNone || (byte >= 0x20 && byte < 0x7F);
    case Escape::kSequence:
      if (byte < 0x20 || byte > 0x7E) {
        escape_ = Escape::kNone;
        return false;
      }
      if (byte >= 0x40) {
        escape_ = Escape::kNone;
      }
      return true;
    case Escape::kTitle:
    case Escape::kTitleEnding:
      if (c == '\n') {
        escape_ = Escape::kNone;
        return false;
      }
      if (c == kBell || escape_ == Escape::kTitleEnding) {
        escape_ = Escape::kNone;
      } else if (c == kEscape) {
        escape_ = Escape::kTitleEnding;
      }
      return true;
  }
  return false;
}

void LineSplitter::show_bar(std::string& state, SteadyTime now, std::vector<std::string>& lines) {
  if (state == shown_ || now - last_shown_ < kBarInterval) {
    return;
  }
  emit(state, lines);
  shown_ = state;
  last_shown_ = now;
}

void LineSplitter::tick(SteadyTime now, std::vector<std::string>& lines) {
  if (is_bar_) {
    show_bar(line_.empty() ? bar_ : line_, now, lines);
  }
}

void LineSplitter::end_line(std::vector<std::string>& lines) {
  const std::string& final_state = line_.empty() && is_bar_ ? bar_ : line_;
  const bool out_already = (is_bar_ && final_state == shown_) || (was_cut_ && final_state.empty());
  if (!out_already) {
    emit(final_state, lines);
  }
  line_.clear();
  bar_.clear();
  shown_.clear();
  is_bar_ = false;
  was_cut_ = false;
}

void LineSplitter::flush(std::vector<std::string>& lines) {
  carriage_ = false;
  escape_ = Escape::kNone;
  if (!line_.empty() || !bar_.empty()) {
    end_line(lines);
  }
}

void LineSplitter::cut(std::vector<std::string>& lines) {
  const std::size_t limit = kMaxEvent - std::min(prefix_.size(), kMaxEvent / 2);
  while (line_.size() > limit) {
    const std::size_t at = character_boundary(line_, limit);
    emit(std::string_view(line_).substr(0, at), lines);
    line_.erase(0, at);
    was_cut_ = true;
  }
}

void LineSplitter::emit(std::string_view text, std::vector<std::string>& lines) {
  std::string valid = to_valid_utf8(text);
  // Replacement characters are longer than what they replace.
  const std::size_t limit = kMaxEvent - std::min(prefix_.size(), kMaxEvent / 2);
  std::string_view rest = valid;
  while (rest.size() > limit) {
    const std::size_t at = character_boundary(rest, limit);
    lines.push_back(prefix_ + std::string(rest.substr(0, at)));
    rest.remove_prefix(at);
  }
  lines.push_back(prefix_ + std::string(rest));
}

}  // namespace trainyard::instance
