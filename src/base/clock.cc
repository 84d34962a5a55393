// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace trainyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// The calendar fields of one instant, as text formats carry them.
struct Fields {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int millisecond = 0;
  unsigned weekday = 0;
};

Fields fields_of(WallTime time) {
  const auto midnight = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(midnight);
  const std::chrono::hh_mm_ss clock(time - midnight);
  return {.year = static_cast<int>(date.year()),
          .month = static_cast<int>(static_cast<unsigned>(date.month())),
          .day = static_cast<int>(static_cast<unsigned>(date.day())),
          .hour = static_cast<int>(clock.hours().count()),
          .minute = static_cast<int>(clock.minutes().count()),
          .second = static_cast<int>(clock.seconds().count()),
          .millisecond = static_cast<int>(clock.subseconds().count()),
          .weekday = std::chrono::weekday(midnight).c_encoding()};
}

// Second 60 is a leap second: it becomes the first second of the next minute.
std::optional<WallTime> time_of(const Fields& f) {
  const std::chrono::year_month_day date(std::chrono::year(f.year),
                                         std::chrono::month(static_cast<unsigned>(f.month)),
                                         std::chrono::day(static_cast<unsigned>(f.day)));
  if (!date.ok() || f.hour > 23 || f.minute > 59 || f.second > 60) {
    return std::nullopt;
  }
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(f.hour) + minutes(f.minute) +
         seconds(f.second) + milliseconds(f.millisecond);
}

// Reads fixed forms from the front of a text; each call says whether it matched.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool literal(std::string_view wanted) {
    if (!rest_.starts_with(wanted)) {
      return false;
    }
    rest_.remove_prefix(wanted.size());
    return true;
  }

  bool digits(std::size_t count, int& out) {
    if (rest_.size() < count) {
      return false;
    }
    out = 0;
    for (const char c : rest_.substr(0, count)) {
      if (c < '0' || c > '9') {
        return false;
      }
      out = out * 10 + (c - '0');
    }
    rest_.remove_prefix(count);
    return true;
  }

  template <std::size_t kCount>
  bool one_of(const std::array<std::string_view, kCount>& names, int& index) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (literal(names[i])) {
        index = static_cast<int>(i);
        return true;
      }
    }
    return false;
  }

  // ".123456" of any length; digits after the third are dropped.
  bool fraction(int& out_ms) {
    if (!literal(".")) {
      return true;
    }
    int scale = 100;
    std::size_t used = 0;
    for (; used < rest_.size() && rest_[used] >= '0' && rest_[used] <= '9'; ++used) {
      out_ms += (rest_[used] - '0') * scale;
      scale /= 10;
    }
    rest_.remove_prefix(used);
    return used > 0;
  }

  // "Z", "+hh:mm" or "+hhmm"; what must be taken off to reach UTC.
  bool zone(minutes& offset) {
    if (literal("Z")) {
      return true;
    }
    const bool west = rest_.starts_with('-');
    int h = 0;
    int m = 0;
    if (!(literal("+") || literal("-")) || !digits(2, h)) {
      return false;
    }
    literal(":");
    if (!digits(2, m) || h > 23 || m > 59) {
      return false;
    }
    offset = (west ? -1 : 1) * minutes(h * 60 + m);
    return true;
  }

  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

Error not_a(std::string_view form, std::string_view text) {
  return {Code::kInvalidArgument,
          fmt::format("\"{}\" is not a time like {}", text.substr(0, 64), form)};
}

}  // namespace

WallTime SystemClock::now() const {
  return std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
}

SteadyTime SystemClock::steady_now() const {
  return std::chrono::steady_clock::now();
}

double to_epoch_seconds(WallTime time) {
  return static_cast<double>(time.time_since_epoch().count()) / 1000.0;
}

WallTime from_epoch_seconds(double seconds) {
  // Year 9999, the last that the text forms can show; not-a-number becomes the epoch.
  constexpr double kMostSeconds = 253402300799.0;
  if (std::isnan(seconds)) {
    return WallTime{};
  }
  const double bounded = std::fmin(std::fmax(seconds, -kMostSeconds), kMostSeconds);
  return WallTime(milliseconds(std::llround(bounded * 1000.0)));
}

std::string to_iso8601(WallTime time) {
  const Fields f = fields_of(time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", f.year, f.month, f.day, f.hour,
                     f.minute, f.second, f.millisecond);
}

std::string to_basic_iso8601(WallTime time) {
  const Fields f = fields_of(time);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", f.year, f.month, f.day, f.hour, f.minute,
                     f.second);
}

std::string to_http_date(WallTime time) {
  const Fields f = fields_of(time);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[f.weekday], f.day,
                     kMonths[static_cast<std::size_t>(f.month - 1)], f.year, f.hour, f.minute,
                     f.second);
}

Result<WallTime> parse_iso8601(std::string_view text) {
  Scanner s(text);
  Fields f;
  minutes offset{0};
  const bool matched = s.digits(4, f.year) && s.literal("-") && s.digits(2, f.month) &&
                       s.literal("-") && s.digits(2, f.day) && s.literal("T") &&
                       s.digits(2, f.hour) && s.literal(":") && s.digits(2, f.minute) &&
                       s.literal(":") && s.digits(2, f.second) && s.fraction(f.millisecond) &&
                       s.zone(offset) && s.at_end();
  const auto time = matched ? time_of(f) : std::nullopt;
  if (!time) {
    return not_a("2026-11-29T20:12:05.123Z", text);
  }
  return *time - offset;
}

Result<WallTime> parse_basic_iso8601(std::string_view text) {
  Scanner s(text);
  Fields f;
  const bool matched = s.digits(4, f.year) && s.digits(2, f.month) && s.digits(2, f.day) &&
                       s.literal("T") && s.digits(2, f.hour) && s.digits(2, f.minute) &&
                       s.digits(2, f.second) && s.literal("Z") && s.at_end();
  const auto time = matched ? time_of(f) : std::nullopt;
  if (!time) {
    return not_a("20261129T201205Z", text);
  }
  return *time;
}

// The one form that HTTP/1.1 senders may produce (RFC 9110 §5.6.7); the name of the day is not
// compared with the date.
Result<WallTime> parse_http_date(std::string_view text) {
  Scanner s(text);
  Fields f;
  int day_name = 0;
  const bool matched = s.one_of(kDays, day_name) && s.literal(", ") && s.digits(2, f.day) &&
                       s.literal(" ") && s.one_of(kMonths, f.month) && s.literal(" ") &&
                       s.digits(4, f.year) && s.literal(" ") && s.digits(2, f.hour) &&
                       s.literal(":") && s.digits(2, f.minute) && s.literal(":") &&
                       s.digits(2, f.second) && s.literal(" GMT") && s.at_end();
  f.month += 1;
  const auto time = matched ? time_of(f) : std::nullopt;
  if (!time) {
    return not_a("Sun, 29 Nov 2026 20:12:05 GMT", text);
  }
  return *time;
}

}  // namespace trainyard
