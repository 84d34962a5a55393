// SPDX-License-Identifier: Apache-2.0
#include "instance/remote_shell/shell_client.h"

#include <array>
#include <cerrno>
#include <optional>

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "instance/launch/request.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;

// Small enough that a socket which takes anything takes it whole: a client that waited here for the
// peer, while the peer waits for it to read, would wait for ever.
constexpr std::size_t kInputChunk = 4096;

class Client {
 public:
  Client(Connection& peer, const ShellStreams& streams) : peer_(peer), streams_(streams) {}

  Result<ExitStatus> run() {
    while (true) {
      YARD_TRY(const std::optional<Frame> frame, peer_.take());
      if (!frame) {
        YARD_TRY(wait());
      } else if (frame->kind == FrameKind::kFinished) {
        return status_of(frame->payload);
      } else {
        YARD_TRY(show(*frame));
      }
    }
  }

 private:
  Result<void> wait() {
    const bool wants_to_send = !input_ended_ && has_input_;
    std::array<pollfd, 3> ready = {
        {{peer_.fd(), static_cast<short>(wants_to_send ? POLLIN | POLLOUT : POLLIN), 0},
         {input_ended_ || has_input_ ? -1 : streams_.input, POLLIN, 0},
         {streams_.signals, POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0) {
      return errno == EINTR ? Result<void>() : errno_error("poll", errno);
    }
    has_input_ = has_input_ || ready[1].revents != 0;
    if (has_input_ && (ready[0].revents & POLLOUT) != 0) {
      YARD_TRY(send_input());
    }
    if (ready[2].revents != 0) {
      YARD_TRY(send_signal());
    }
    if ((ready[0].revents & ~POLLOUT) != 0) {
      YARD_TRY(const bool open, peer_.fill());
      if (!open) {
        return Error{Code::kUnavailable, "the remote shell has gone"};
      }
    }
    return {};
  }

  Result<void> send_input() {
    std::array<std::byte, kInputChunk> chunk;
    const Result<std::size_t> got = read_some(streams_.input, chunk);
    has_input_ = false;
    input_ended_ = !got || *got == 0;
    return peer_.send(FrameKind::kInput,
                      {reinterpret_cast<const char*>(chunk.data()), input_ended_ ? 0 : *got});
  }

  Result<void> send_signal() {
    signalfd_siginfo info = {};
    if (read(streams_.signals, &info, sizeof info) != sizeof info) {
      return {};
    }
    return peer_.send(FrameKind::kSignal, std::to_string(info.ssi_signo));
  }

  Result<void> show(const Frame& frame) const {
    const int to = frame.kind == FrameKind::kErrors ? streams_.errors : streams_.output;
    return write_all(to, frame.payload);
  }

  static Result<ExitStatus> status_of(const std::string& payload) {
    const json status = json::parse(payload, nullptr, false);
    const json& code = member(status, "code");
    const json& signal = member(status, "signal");
    if (!code.is_number_integer() || !signal.is_number_integer()) {
      return Error{Code::kCorrupt, "the remote shell does not say how the command ended"};
    }
    return ExitStatus{.code = code.get<int>(), .signal = signal.get<int>()};
  }

  Connection& peer_;
  ShellStreams streams_;
  bool has_input_ = false;
  bool input_ended_ = false;
};

}  // namespace

Result<ExitStatus> run_remotely(Connection& peer, const std::vector<std::string>& words,
                                const ShellStreams& streams) {
  YARD_TRY(peer.send(FrameKind::kCommand,
                     json(words).dump(-1, ' ', false, json::error_handler_t::replace)));
  return Client(peer, streams).run();
}

}  // namespace trainyard::instance
