// SPDX-License-Identifier: Apache-2.0
#include "http/internal/exchange.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/fd.h"
#include "base/text.h"
#include "http/internal/connection.h"
#include "http/internal/response_head.h"

namespace trainyard::http {
namespace {

// A file of this size is read and sent with its head in one call.
constexpr std::size_t kSmallFile = std::size_t{32} << 10;
// How much of a file is in memory where it has to pass through there.
constexpr std::size_t kFilePiece = std::size_t{64} << 10;

Error ended() {
  return {Code::kConflict, "the exchange has been answered"};
}

class ServerExchange final : public Exchange {
 public:
  ServerExchange(std::shared_ptr<Connection> connection, Request request)
      : connection_(std::move(connection)),
        request_(std::move(request)),
        body_length_(connection_->framing().content_length),
        is_http10_(connection_->framing().is_http10) {}

  ~ServerExchange() override {
    if (connection_ != nullptr && !has_started_) {
      respond(Response{.status = 500, .headers = {}, .body = {}});
    } else if (connection_ != nullptr) {
      take_connection()->fail();
    }
  }

  const Request& request() const override { return request_; }
  std::optional<std::uint64_t> body_length() const override { return body_length_; }

  Result<std::size_t> read_body(std::span<std::byte> out) override {
    return connection_ == nullptr ? Result<std::size_t>(ended()) : connection_->read_body(out);
  }

  void limit_body_time(std::chrono::milliseconds most) override {
    if (connection_ != nullptr) {
      connection_->limit_body_time(most);
    }
  }

  void respond(Response response) override;
  Result<void> start(Response head, std::optional<std::uint64_t> length) override;
  Result<void> write(std::span<const std::byte> bytes) override;
  Result<void> send_file(int fd, std::uint64_t offset, std::uint64_t length) override;
  Result<void> finish() override;

  bool is_closed() const override { return connection_ == nullptr || connection_->is_peer_gone(); }

 private:
  Result<void> take_from_length(std::uint64_t count);
  std::string chunk_head(std::uint64_t count);
  Result<void> send_part(const FilePart& part);
  bool is_head() const { return request_.method == "HEAD"; }
  std::shared_ptr<Connection> take_connection() { return std::exchange(connection_, nullptr); }

  // Null once the answer is complete: the connection serves the next request then.
  std::shared_ptr<Connection> connection_;
  const Request request_;
  const std::optional<std::uint64_t> body_length_;
  const bool is_http10_;

  bool has_started_ = false;
  bool keeps_ = false;
  bool is_chunked_ = false;
  bool sends_body_ = true;
  std::string unsent_;                 // the head, until the first bytes of the body join it
  std::optional<std::uint64_t> left_;  // of the announced length
};

// A HEAD answer announces the length that its GET would have.
std::optional<std::uint64_t> announced_length(const Headers& headers,
                                              std::optional<std::uint64_t> otherwise) {
  const auto length = parse_int(headers.get("Content-Length"));
  return length && *length >= 0 ? static_cast<std::uint64_t>(*length) : otherwise;
}

void ServerExchange::respond(Response response) {
  if (connection_ == nullptr || has_started_) {
    return;
  }
  const bool bare = is_head() || has_no_body(response.status);
  BodyForm form{.length = response.body.size(),
                .is_chunked = false,
                .keeps_alive = connection_->can_keep(),
                .is_http10 = is_http10_};
  if (is_head()) {
    form.length = announced_length(response.headers, form.length);
  }
  std::string answer = response_head(response.status, response.headers, form, SystemClock().now());
  if (!bare) {
    answer += response.body;
  }
  has_started_ = true;
  take_connection()->finish(std::move(answer), form.keeps_alive);
}

Result<void> ServerExchange::start(Response head, std::optional<std::uint64_t> length) {
  if (connection_ == nullptr || has_started_) {
    return ended();
  }
  has_started_ = true;
  sends_body_ = !is_head() && !has_no_body(head.status);
  left_ = sends_body_ ? length : std::nullopt;
  is_chunked_ = sends_body_ && !length && !is_http10_;
  // Without a length and without chunks only the end of the connection ends the body.
  keeps_ = connection_->can_keep() && (length || is_chunked_ || !sends_body_);
  BodyForm form{.length = length,
                .is_chunked = !length && !is_http10_ && !has_no_body(head.status),
                .keeps_alive = keeps_,
                .is_http10 = is_http10_};
  if (is_head()) {
    form.length = announced_length(head.headers, length);
    form.is_chunked = form.is_chunked && !form.length;
  }
  unsent_ = response_head(head.status, head.headers, form, SystemClock().now());
  return left_ ? Result<void>() : connection_->send(std::exchange(unsent_, {}), {});
}

Result<void> ServerExchange::take_from_length(std::uint64_t count) {
  if (left_ && count > *left_) {
    return Error{Code::kInvalidArgument, "an answer is longer than it announced"};
  }
  if (left_) {
    *left_ -= count;
  }
  return {};
}

// What precedes `count` bytes of the body: the head that still waits, or the size of their chunk.
std::string ServerExchange::chunk_head(std::uint64_t count) {
  if (!is_chunked_) {
    return std::exchange(unsent_, {});
  }
  std::array<char, 20> size{};
  char* end = std::to_chars(size.data(), size.data() + 16, count, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return {size.data(), end};
}

Result<void> ServerExchange::write(std::span<const std::byte> bytes) {
  if (connection_ == nullptr || !has_started_) {
    return ended();
  }
  if (!sends_body_ || bytes.empty()) {
    return {};
  }
  YARD_TRY(take_from_length(bytes.size()));
  YARD_TRY(connection_->send(chunk_head(bytes.size()), bytes));
  return is_chunked_ ? connection_->send("\r\n", {}) : Result<void>();
}

Result<void> ServerExchange::send_part(const FilePart& part) {
  const std::string head = chunk_head(part.length);
  if (part.length > kSmallFile) {
    YARD_TRY(connection_->send_file(head, part, left_ == 0));
    return is_chunked_ ? connection_->send("\r\n", {}) : Result<void>();
  }
  // One call with the head costs less than two. The last part leaves with finish(), which waits for
  // no peer.
  std::array<std::byte, kSmallFile> bytes;
  const auto wanted = std::span(bytes).first(static_cast<std::size_t>(part.length));
  YARD_TRY(const std::size_t got, read_at(part.fd, wanted, part.offset));
  if (got < wanted.size()) {
    return Error{Code::kCorrupt, "the file ended before what was to be sent of it"};
  }
  if (left_ == 0) {
    unsent_ = head;
    unsent_.append(reinterpret_cast<const char*>(wanted.data()), wanted.size());
    return {};
  }
  YARD_TRY(connection_->send(head, wanted));
  return is_chunked_ ? connection_->send("\r\n", {}) : Result<void>();
}

Result<void> ServerExchange::send_file(int fd, std::uint64_t offset, std::uint64_t length) {
  if (connection_ == nullptr || !has_started_) {
    return ended();
  }
  if (!sends_body_ || length == 0) {
    return {};
  }
  YARD_TRY(take_from_length(length));
  Result<void> sent = send_part({.fd = fd, .offset = offset, .length = length});
  if (!sent) {
    take_connection()->fail();
  }
  return sent;
}

Result<void> ServerExchange::finish() {
  if (connection_ == nullptr || !has_started_) {
    return ended();
  }
  if (left_.value_or(0) > 0) {
    take_connection()->fail();
    return Error{Code::kInvalidArgument, "an answer is shorter than it announced"};
  }
  take_connection()->finish(is_chunked_ ? "0\r\n\r\n" : std::move(unsent_), keeps_);
  return {};
}

}  // namespace

std::unique_ptr<Exchange> make_exchange(std::shared_ptr<Connection> connection, Request request) {
  return std::make_unique<ServerExchange>(std::move(connection), std::move(request));
}

Result<void> Exchange::send_file(int fd, std::uint64_t offset, std::uint64_t length) {
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::min<std::uint64_t>(length, kFilePiece)));
  while (length > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(length, piece.size()));
    YARD_TRY(const std::size_t got, read_at(fd, std::span(piece).first(wanted), offset));
    if (got == 0) {
      return Error{Code::kCorrupt, "the file ended before what was to be sent of it"};
    }
    YARD_TRY(write(std::span(piece).first(got)));
    offset += got;
    length -= got;
  }
  return {};
}

Result<std::string> Exchange::read_all(std::size_t limit) {
  const Error too_long{Code::kExhausted, "the body is longer than " + human_bytes(limit)};
  const std::optional<std::uint64_t> length = body_length();
  if (length && *length > limit) {
    return too_long;
  }
  // The room grows with what has come: a length that is only announced takes no memory.
  constexpr std::size_t kStep = std::size_t{16} << 10;
  const std::size_t most = (length ? static_cast<std::size_t>(*length) : limit) + 1;
  std::string body;
  std::size_t filled = 0;
  while (true) {
    body.resize(std::min(most, filled + std::max(kStep, filled)));
    const std::span<char> room = std::span(body).subspan(filled);
    YARD_TRY(const std::size_t got, read_body(std::as_writable_bytes(room)));
    filled += got;
    if (filled > limit) {
      return too_long;
    }
    if (got == 0) {
      body.resize(filled);
      return body;
    }
  }
}

}  // namespace trainyard::http
