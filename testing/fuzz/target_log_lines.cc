// SPDX-License-Identifier: Apache-2.0
// What a process prints becomes the same lines however it is cut into pieces; every line is valid
// UTF-8 of at most an event's length, and nothing is invented.
#include <string>
#include <vector>

#include "base/encoding.h"
#include "instance/run/line_splitter.h"
#include "testing/fuzz/fuzz.h"

namespace {

using trainyard::instance::LineSplitter;
using Lines = std::vector<std::string>;

constexpr std::string_view kPrefix = "[1] ";

Lines split_in_pieces(std::string_view text, std::size_t step) {
  LineSplitter splitter{std::string(kPrefix)};
  Lines lines;
  const trainyard::SteadyTime now{};
  for (std::size_t at = 0; at < text.size(); at += step) {
    splitter.push(text.substr(at, step), now, lines);
  }
  splitter.flush(lines);
  return lines;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text = trainyard::fuzz::as_text(data, size);
  std::size_t step = trainyard::fuzz::take_byte(text) % 31 + 1;
  // The first two bytes make a line long enough to be cut, which no fuzzer would find by itself;
  // seldom, for it takes its time.
  const bool is_long = trainyard::fuzz::take_byte(text) == 255 && step % 8 == 7 && !text.empty();
  std::string repeated(text);
  if (is_long) {
    step *= 997;
    while (repeated.size() <= LineSplitter::kMaxEvent) {
      repeated += std::string(repeated);
    }
  }
  const Lines whole = split_in_pieces(repeated, repeated.size() + 1);
  YARD_CHECK(whole == split_in_pieces(repeated, step), "the lines depend on the pieces");
  for (const std::string& line : whole) {
    YARD_CHECK(line.size() <= LineSplitter::kMaxEvent, "a line longer than an event");
    YARD_CHECK(line.starts_with(kPrefix), "a line without its prefix");
    YARD_CHECK(trainyard::to_valid_utf8(line) == line, "a line that is not UTF-8");
    YARD_CHECK(line.find('\n') == std::string::npos, "a line end inside a line");
  }
  return 0;
}
