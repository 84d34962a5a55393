// SPDX-License-Identifier: Apache-2.0
// The only file that includes Beast: its parser does the work, this adds the checks that it leaves
// to its user.
#include "http/internal/request_reader.h"

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>

#include "base/text.h"

namespace trainyard::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Parser = beast::http::request_parser<beast::http::buffer_body>;

std::string_view plain(beast::string_view text) {
  return {text.data(), text.size()};
}

Error bad(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

// RFC 9112, 5.2: some readers join such lines, others do not. The parser, which takes a head as a
// whole, joins them.
bool has_folded_line(std::string_view head) {
  return head.find("\r\n ") != std::string_view::npos ||
         head.find("\r\n\t") != std::string_view::npos;
}

// Splits "/path?query"; an absolute target ("http://host/path") loses what precedes its path.
Result<void> read_target(std::string_view target, Request& request) {
  const std::size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != std::string_view::npos) {
    const std::size_t slash = target.find_first_of("/?", scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  const std::size_t mark = std::min(target.find('?'), target.size());
  request.path = target.substr(0, mark);
  request.query = target.substr(std::min(mark + 1, target.size()));
  if (request.path.empty()) {
    request.path = "/";
  }
  if (!request.path.starts_with('/') && request.path != "*") {
    return bad("the request target is not a path");
  }
  return {};
}

}  // namespace

struct RequestReader::State {
  Parser parser;
  Framing framing;
  Request request;
  bool has_started = false;
  bool is_broken = false;  // Beast's parser must not be asked again after an error

  Result<void> take_head();
  Result<void> check_framing();
};

RequestReader::RequestReader() : state_(std::make_unique<State>()) {
  state_->parser.header_limit(kMaxHead);
  state_->parser.body_limit(boost::none);
}

RequestReader::~RequestReader() = default;

Result<std::size_t> RequestReader::read_head(std::string_view wire) {
  State& s = *state_;
  std::size_t skipped = 0;
  // RFC 9112, 2.2: an empty line before the request line is ignored.
  while (!s.has_started && wire.substr(skipped).starts_with("\r\n") && skipped < 4) {
    skipped += 2;
  }
  const std::string_view rest = wire.substr(skipped);
  if (rest.empty() || (!s.has_started && rest == "\r")) {
    return skipped;
  }
  s.has_started = true;
  beast::error_code ec;
  const std::size_t consumed = s.parser.put(asio::const_buffer(rest.data(), rest.size()), ec);
  if (ec == beast::http::error::header_limit) {
    return Error{Code::kExhausted, "the request head is longer than 64 KiB"};
  }
  if (ec && ec != beast::http::error::need_more) {
    return bad(ec.message());
  }
  if (s.parser.is_header_done()) {
    if (has_folded_line(rest.substr(0, consumed))) {
      return bad("a header field goes on in the next line");
    }
    YARD_TRY(s.take_head());
  } else if (rest.size() - consumed >= kMaxHead) {
    return Error{Code::kExhausted, "the request head is longer than 64 KiB"};
  }
  return skipped + consumed;
}

Result<void> RequestReader::State::check_framing() {
  const auto& fields = parser.get();
  if (fields.count(beast::http::field::host) > 1 ||
      (fields.count(beast::http::field::host) == 0 && !framing.is_http10)) {
    return bad("a request needs exactly one Host header");
  }
  const std::size_t codings = fields.count(beast::http::field::transfer_encoding);
  if (codings == 0) {
    return {};
  }
  if (framing.is_http10) {
    return bad("HTTP/1.0 has no Transfer-Encoding");
  }
  const std::string_view coding = plain(fields[beast::http::field::transfer_encoding]);
  if (codings > 1 || !equal_ignoring_case(trim(coding), "chunked") || !parser.chunked()) {
    return Error{Code::kUnimplemented, "the only Transfer-Encoding served is chunked"};
  }
  if (fields.count(beast::http::field::content_length) > 0) {
    return bad("a request has a Content-Length or a Transfer-Encoding, never both");
  }
  return {};
}

Result<void> RequestReader::State::take_head() {
  const auto& message = parser.get();
  if (message.version() != 10 && message.version() != 11) {
    return bad("the HTTP version is not 1.0 or 1.1");
  }
  framing.is_http10 = message.version() == 10;
  YARD_TRY(check_framing());
  framing.keeps_alive = parser.keep_alive();
  if (parser.chunked()) {
    framing.content_length.reset();
  } else if (const auto length = parser.content_length()) {
    framing.content_length = *length;
  }
  framing.expects_continue =
      !framing.is_http10 &&
      equal_ignoring_case(plain(message[beast::http::field::expect]), "100-continue");
  request.method = plain(message.method_string());
  YARD_TRY(read_target(plain(message.target()), request));
  for (const auto& field : message) {
    request.headers.add(std::string(plain(field.name_string())), std::string(plain(field.value())));
  }
  return {};
}

bool RequestReader::is_head_done() const {
  return state_->parser.is_header_done();
}

Request RequestReader::take_request() {
  return std::move(state_->request);
}

const Framing& RequestReader::framing() const {
  return state_->framing;
}

Result<RequestReader::Step> RequestReader::read_chunked(std::string_view wire,
                                                        std::span<std::byte> out) {
  if (state_->is_broken) {
    return Error{Code::kCorrupt, "chunked body: broken before"};
  }
  Parser& parser = state_->parser;
  auto& body = parser.get().body();
  body.data = out.data();
  body.size = out.size();
  body.more = true;
  Step step;
  while (!parser.is_done() && step.consumed < wire.size()) {
    beast::error_code ec;
    const std::string_view rest = wire.substr(step.consumed);
    const std::size_t used = parser.put(asio::const_buffer(rest.data(), rest.size()), ec);
    step.consumed += used;
    if (ec == beast::http::error::need_buffer || ec == beast::http::error::need_more) {
      break;
    }
    if (ec) {
      state_->is_broken = true;
      return Error{Code::kCorrupt, "chunked body: " + ec.message()};
    }
    if (used == 0 && !parser.is_done()) {
      break;
    }
  }
  step.produced = out.size() - body.size;
  return step;
}

bool RequestReader::is_chunked_done() const {
  return state_->parser.is_done();
}

int status_of(const Error& error) {
  switch (error.code) {
    case Code::kExhausted:
      return 431;
    case Code::kUnimplemented:
      return 501;
    default:
      return 400;
  }
}

}  // namespace trainyard::http
