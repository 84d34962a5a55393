// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/store_client.h"

#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAnswerTime = std::chrono::seconds(30);  // of what needs no waiting

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::connect(const Endpoint& endpoint,
                                                          milliseconds time) {
  auto fd = connect_tcp(endpoint, time, true);
  if (!fd) {
    return fd.error().in("reaching the rendezvous store");
  }
  YARD_TRY(tune_tcp(fd->get()));
  return std::unique_ptr<StoreClient>(new StoreClient(endpoint, std::move(*fd)));
}

// The server counts it (OwnStore::linger); nobody waits until it has heard.
StoreClient::~StoreClient() {
  if (fd_.is_open()) {
    const std::string frame = encode_frame({"leave"});
    static_cast<void>(::send(fd_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }
}

// A connection that still owes an answer is given up for a new one.
Result<void> StoreClient::reconnect() {
  fd_.reset();
  reader_ = FrameReader();
  YARD_TRY(fd_, connect_tcp(endpoint_, kAnswerTime, false));
  return tune_tcp(fd_.get());
}

Result<Fields> StoreClient::ask(const Fields& request, milliseconds time) {
  const auto end = steady_clock::now() + time;
  if (!fd_.is_open()) {
    YARD_TRY(reconnect());
  }
  const auto lost = [&](const Error& error) {
    fd_.reset();
    return error.in("asking the rendezvous store " + where());
  };
  const std::string frame = encode_frame(request);
  for (std::size_t sent = 0; sent < frame.size();) {
    const ssize_t count = ::send(fd_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      return lost(errno_error("send", errno));
    }
    sent += count > 0 ? static_cast<std::size_t>(count) : 0;
    if (count < 0) {
      YARD_TRY(wait_ready(fd_.get(), Ready::kWrite, milliseconds(100)));
    }
  }
  std::array<char, 16384> buffer;
  while (true) {
    auto answer = reader_.next();
    if (!answer) {
      return lost(answer.error());
    }
    if (answer->has_value()) {
      return std::move(**answer);
    }
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    YARD_TRY(const bool is_ready,
             wait_ready(fd_.get(), Ready::kRead, std::max(milliseconds(0), left)));
    if (!is_ready) {
      fd_.reset();
      return Error{Code::kDeadline, "not every key was set in time"};
    }
    const ssize_t count = ::read(fd_.get(), buffer.data(), buffer.size());
    if (count == 0) {
      return lost({Code::kUnavailable, "it closed the connection: its process has ended"});
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      return lost(errno_error("read", errno));
    }
    reader_.feed({buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0});
  }
}

Result<std::string> StoreClient::claim(const std::string& key, const std::string& value) {
  YARD_TRY(const Fields answer, ask({"claim", key, value}, kAnswerTime));
  if (answer.size() == 2 && answer[0] == "error") {
    return Error{Code::kExhausted,
                 fmt::format("the rendezvous store {} says: {}", where(), answer[1])};
  }
  if (answer.size() != 2 || answer[0] != "value") {
    return Error{Code::kCorrupt, "the rendezvous store gave no value"};
  }
  return answer[1];
}

Result<std::vector<std::string>> StoreClient::wait_for(const std::vector<std::string>& keys,
                                                       milliseconds time) {
  Fields request = {"wait"};
  request.insert(request.end(), keys.begin(), keys.end());
  YARD_TRY(Fields answer, ask(request, time));
  if (answer.size() != keys.size() + 1 || answer[0] != "values") {
    return Error{Code::kCorrupt, "the rendezvous store gave other values than asked for"};
  }
  answer.erase(answer.begin());
  return answer;
}

Result<bool> StoreClient::has(const std::string& key) {
  YARD_TRY(const Fields answer, ask({"has", key}, kAnswerTime));
  return answer.size() == 2 && answer[1] == "1";
}

}  // namespace trainyard::comm
