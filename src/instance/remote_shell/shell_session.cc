// SPDX-License-Identifier: Apache-2.0
#include "instance/remote_shell/shell_session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "base/text.h"
#include "instance/launch/request.h"
#include "instance/remote_shell/remote_command.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;

constexpr std::size_t kChunk = std::size_t{32} << 10;
// Above this much input that the command does not read, the peer is not read either.
constexpr std::size_t kMostInput = std::size_t{256} << 10;
constexpr int kInterval = 100;  // milliseconds between looks at the stop
constexpr int kNotStarted = 127;

std::string finished(ExitStatus status) {
  return json{{"code", status.code}, {"signal", status.signal}}.dump();
}

void refuse(Connection& peer, const Error& error) {
  static_cast<void>(peer.send(FrameKind::kErrors, error.message + "\n"));
  static_cast<void>(peer.send(FrameKind::kFinished, finished({.code = kNotStarted, .signal = 0})));
}

struct Streams {
  Fd input;
  Fd output;
  Fd errors;
};

class Session {
 public:
  Session(Connection& peer, Child child, Streams streams)
      : peer_(peer), child_(std::move(child)), streams_(std::move(streams)) {}

  ~Session() {
    if (!has_ended_) {
      kill(-child_.pid(), SIGKILL);
      static_cast<void>(child_.wait());
    }
  }

  void run(const std::stop_token& stop) {
    // What has come together with the command is no news to poll().
    if (!take_frames()) {
      return;
    }
    while (!stop.stop_requested()) {
      const Result<bool> going = step();
      if (!going || !*going) {
        return;
      }
    }
  }

 private:
  // False when there is nothing more to do; an error when the peer has gone.
  Result<bool> step() {
    std::array<pollfd, 5> ready = {{{input_.size() < kMostInput ? peer_.fd() : -1, POLLIN, 0},
                                    {streams_.output.get(), POLLIN, 0},
                                    {streams_.errors.get(), POLLIN, 0},
                                    {input_.empty() ? -1 : streams_.input.get(), POLLOUT, 0},
                                    {child_.pidfd(), POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), kInterval) < 0 && errno != EINTR) {
      return errno_error("poll", errno);
    }
    if (ready[0].revents != 0) {
      YARD_TRY(const bool open, peer_.fill());
      if (!open) {
        return Error{Code::kUnavailable, "the peer has gone"};
      }
      YARD_TRY(take_frames());
    }
    if (ready[1].revents != 0) {
      YARD_TRY(pass_on(streams_.output, FrameKind::kOutput));
    }
    if (ready[2].revents != 0) {
      YARD_TRY(pass_on(streams_.errors, FrameKind::kErrors));
    }
    if (ready[3].revents != 0) {
      give_input();
    }
    return ready[4].revents == 0 ? Result<bool>(true) : finish();
  }

  Result<void> take_frames() {
    while (true) {
      YARD_TRY(const std::optional<Frame> frame, peer_.take());
      if (!frame) {
        return {};
      }
      take(*frame);
    }
  }

  void take(const Frame& frame) {
    if (frame.kind == FrameKind::kInput && frame.payload.empty()) {
      input_ended_ = true;
      give_input();
    } else if (frame.kind == FrameKind::kInput && streams_.input.is_open()) {
      input_ += frame.payload;
    } else if (frame.kind == FrameKind::kSignal) {
      if (const auto number = parse_int(frame.payload)) {
        kill(-child_.pid(), static_cast<int>(*number));
      }
    }
  }

  void give_input() {
    if (!input_.empty() && streams_.input.is_open()) {
      const ssize_t put = write(streams_.input.get(), input_.data(), input_.size());
      if (put >= 0) {
        input_.erase(0, static_cast<std::size_t>(put));
      } else if (errno != EAGAIN && errno != EINTR) {
        input_.clear();  // it has closed its end: what it does not want is dropped
        streams_.input.reset();
      }
    }
    if (input_.empty() && input_ended_) {
      streams_.input.reset();
    }
  }

  Result<void> pass_on(Fd& from, FrameKind kind) {
    std::array<std::byte, kChunk> chunk;
    const Result<std::size_t> got = read_some(from.get(), chunk);
    if (!got || *got == 0) {
      from.reset();
      return {};
    }
    return peer_.send(kind, {reinterpret_cast<const char*>(chunk.data()), *got});
  }

  // What is in the pipes is passed on; what a daemon of the command may write later is not.
  Result<bool> finish() {
    for (auto [stream, kind] : {std::pair(&streams_.output, FrameKind::kOutput),
                                std::pair(&streams_.errors, FrameKind::kErrors)}) {
      pollfd ready = {stream->get(), POLLIN, 0};
      while (stream->is_open() && poll(&ready, 1, 0) > 0) {
        YARD_TRY(pass_on(*stream, kind));
      }
    }
    YARD_TRY(const ExitStatus status, child_.wait());
    has_ended_ = true;
    YARD_TRY(peer_.send(FrameKind::kFinished, finished(status)));
    return false;
  }

  Connection& peer_;
  Child child_;
  Streams streams_;
  std::string input_;
  bool input_ended_ = false;
  bool has_ended_ = false;
};

Result<void> serve(Connection& peer, const std::string& text, const ShellPlace& place,
                   const std::stop_token& stop) {
  YARD_TRY(const RemoteCommand command,
           remote_command(strings_in(json::parse(text, nullptr, false)), place.environment));
  std::vector<std::string> argv = place.prefix;
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  YARD_TRY(Pipe input, make_pipe());
  YARD_TRY(Pipe output, make_pipe());
  YARD_TRY(Pipe errors, make_pipe());
  YARD_TRY(Child child, spawn({.argv = std::move(argv),
                               .env = command.environment,
                               .directory = place.directory,
                               .fds = {{input.read_end.get(), STDIN_FILENO},
                                       {output.write_end.get(), STDOUT_FILENO},
                                       {errors.write_end.get(), STDERR_FILENO}},
                               .new_session = true}));
  for (Fd* given : {&input.read_end, &output.write_end, &errors.write_end}) {
    given->reset();
  }
  fcntl(input.write_end.get(), F_SETFL, O_NONBLOCK);
  Session(peer, std::move(child),
          {std::move(input.write_end), std::move(output.read_end), std::move(errors.read_end)})
      .run(stop);
  return {};
}

}  // namespace

void run_shell_session(Connection& peer, const std::string& words, const ShellPlace& place,
                       const std::stop_token& stop) {
  if (const Result<void> served = serve(peer, words, place, stop); !served) {
    refuse(peer, served.error());
  }
}

}  // namespace trainyard::instance
