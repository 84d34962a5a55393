// SPDX-License-Identifier: Apache-2.0
#include "instance/run/log_pump.h"

#include <algorithm>
#include <array>

#include <poll.h>

#include "base/log.h"
#include "base/thread.h"

namespace trainyard::instance {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr int kTickMilliseconds = 250;  // for progress bars that stand still

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

void LastLines::add(std::string_view line) {
  std::size_t end = line.size();
  if (end > kLongest) {
    end = kLongest;
    while (end > 0 && continues_character(line[end])) {
      --end;
    }
  }
  lines_.emplace_back(line.substr(0, end));
  if (lines_.size() > kMost) {
    lines_.pop_front();
  }
}

LogPump::LogPump(PumpInput input, PumpSinks sinks, Clock& clock)
    : sinks_(std::move(sinks)), clock_(clock), outputs_(input.outputs.size()) {
  for (std::size_t i = 0; i < outputs_; ++i) {
    streams_.push_back({std::move(input.outputs[i]), LineSplitter(input.prefixes[i]), {}});
  }
  streams_.push_back({std::move(input.status), LineSplitter(), {}});
  streams_.push_back({std::move(input.diagnostics), LineSplitter(), {}});
  thread_ = start_thread("log pump", [this](const std::stop_token&) { run(); });
}

const std::deque<std::string>& LogPump::tail(int process) const {
  return streams_[static_cast<std::size_t>(process)].tail.all();
}

void LogPump::run() {
  while (wait_and_read()) {
  }
  give_up();
  sinks_.closed();
}

bool LogPump::is_over() {
  if (std::none_of(streams_.begin(), streams_.end(),
                   [](const Stream& stream) { return stream.fd.is_open(); })) {
    return true;
  }
  if (!streams_[outputs_].fd.is_open() && !quiet_since_) {
    quiet_since_ = clock_.steady_now();
  }
  is_stuck_ = quiet_since_ && clock_.steady_now() - *quiet_since_ >= kPatience;
  return is_stuck_;
}

bool LogPump::wait_and_read() {
  if (is_over()) {
    return false;
  }
  std::vector<pollfd> ready;
  ready.reserve(streams_.size());
  for (const Stream& stream : streams_) {
    ready.push_back({stream.fd.is_open() ? stream.fd.get() : -1, POLLIN, 0});
  }
  poll(ready.data(), ready.size(), kTickMilliseconds);
  std::vector<wire::LogLine> output;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    std::vector<std::string> lines;
    if (ready[i].revents != 0) {
      read(i, lines);
    } else {
      streams_[i].splitter.tick(clock_.steady_now(), lines);
    }
    if (!lines.empty()) {
      deliver(i, std::move(lines), output);
    }
  }
  if (!output.empty()) {
    sinks_.lines(std::move(output));
  }
  return true;
}

// What has come of a last line, from those who still hold their pipes.
void LogPump::give_up() {
  std::vector<wire::LogLine> output;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    std::vector<std::string> lines;
    streams_[i].splitter.flush(lines);
    streams_[i].fd.reset();
    deliver(i, std::move(lines), output);
  }
  if (!output.empty()) {
    sinks_.lines(std::move(output));
  }
}

void LogPump::read(std::size_t index, std::vector<std::string>& lines) {
  Stream& stream = streams_[index];
  std::array<std::byte, kChunk> chunk;
  const Result<std::size_t> got = read_some(stream.fd.get(), chunk);
  if (!got || *got == 0) {
    stream.splitter.flush(lines);
    stream.fd.reset();
    return;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(chunk.data()), *got);
  if (sinks_.raw && index < outputs_) {
    sinks_.raw(static_cast<int>(index), bytes);
  }
  quiet_since_.reset();
  stream.splitter.push(bytes, clock_.steady_now(), lines);
}

void LogPump::deliver(std::size_t index, std::vector<std::string> lines,
                      std::vector<wire::LogLine>& output) {
  const WallTime now = clock_.now();
  Stream& stream = streams_[index];
  for (std::string& line : lines) {
    if (index == outputs_) {
      if (Result<ProcessEnd> end = process_end_from_line(line)) {
        sinks_.ended(std::move(*end));
      }
      continue;
    }
    stream.tail.add(line);
    if (index > outputs_) {
      log_warning("container: " + line);
    } else {
      output.push_back({.at = now, .text = std::move(line)});
    }
  }
}

}  // namespace trainyard::instance
