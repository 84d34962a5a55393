// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/inlet.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>
#include <sys/socket.h>

namespace trainyard::comm {
namespace {

// Bytes read, 0 when there is nothing at the moment.
Result<std::size_t> receive(int fd, std::span<std::byte> out) {
  while (true) {
    const ssize_t count = ::recv(fd, out.data(), out.size(), MSG_DONTWAIT);
    if (count > 0) {
      return static_cast<std::size_t>(count);
    }
    if (count == 0) {
      return Error{Code::kUnavailable, "the other side has closed the connection"};
    }
    if (errno == EAGAIN) {
      return std::size_t{0};
    }
    if (errno != EINTR) {
      Error error = errno_error("receive", errno);
      error.code = Code::kUnavailable;
      return error;
    }
  }
}

}  // namespace

void Inlet::add(std::uint32_t index, std::uint32_t count, PrivateFd fd) {
  lines_.resize(std::max<std::size_t>(lines_.size(), count));
  lines_[index] = std::move(fd);
}

int Inlet::fd() const {
  return lines_.empty() ? -1 : lines_[turn_ % lines_.size()].get();
}

Result<bool> Inlet::read_header() {
  while (header_read_ < kHeaderBytes) {
    YARD_TRY(const std::size_t count, receive(fd(), std::span(header_).subspan(header_read_)));
    if (count == 0) {
      return false;
    }
    header_read_ += count;
  }
  return true;
}

Result<bool> Inlet::read(std::span<std::byte> into) {
  if (is_whole_) {
    return true;
  }
  if (fd() < 0) {
    return false;
  }
  if (target_.data() == nullptr) {
    YARD_TRY(const bool is_there, read_header());
    if (!is_there) {
      return false;
    }
    const auto header = decode_header(header_);
    if (!header || header->bytes > max_message_) {
      return Error{Code::kCorrupt, "what came over the data connection is no message"};
    }
    inbound_.label = header->label;
    if (into.data() != nullptr && into.size() == header->bytes) {
      target_ = into;
    } else {
      buffer_.resize(std::max<std::size_t>({buffer_.size(), header->bytes, 1}));
      target_ = std::span(buffer_).first(header->bytes);
    }
    payload_read_ = 0;
  }
  while (payload_read_ < target_.size()) {
    YARD_TRY(const std::size_t count, receive(fd(), target_.subspan(payload_read_)));
    if (count == 0) {
      return false;
    }
    payload_read_ += count;
  }
  inbound_.bytes = target_;
  is_whole_ = true;
  return true;
}

void Inlet::release() {
  is_whole_ = false;
  target_ = {};
  header_read_ = 0;
  ++turn_;
}

}  // namespace trainyard::comm
