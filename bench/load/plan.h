// SPDX-License-Identifier: Apache-2.0
// One run of the load client as a value, and its JSON form: the benches write it, main.cc reads it.
// In `path`, `query`, `body` and `pages.item`, {n} stands for the number of the request or item in
// nine digits, {s} for the connection's word of `words`, and {token} for where the next page
// begins.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "http/sigv4.h"

namespace trainyard::load {

struct RequestPlan {
  std::string method = "GET";
  std::string path = "/";  // percent-encoded
  std::string query = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::uint64_t first = 0;   // the number of the first request
  std::uint64_t modulo = 0;  // numbers go round after so many; 0: never, and none comes twice
};

// Objects: request n sends, or expects, content n modulo `distinct`.
struct ContentPlan {
  std::size_t bytes = 0;
  std::size_t distinct = 1;
  bool is_sent = false;  // else it is what the answer must hold
};

struct ExpectPlan {
  int status = 200;
  std::vector<std::string> contains = {};  // all of them occur in the answer's body
  bool same = false;                       // all answers have the body of the first
};

// Each connection reads a sequence of items to its end, page by page: a listing, or a log that is
// still being written. Item n must be `item`, or begin with it when `is_timed`.
struct PagesPlan {
  std::string item_begin;   // "<Key>"
  std::string item_end;     // "</Key>"
  std::string item;         // "key-{n}"
  std::string token_begin;  // "<NextContinuationToken>"
  std::string token_end;
  std::string token_prefix = {};  // "&continuation-token="
  std::string token_suffix =
      {};                   // {token} is prefix, token and suffix, or nothing on the first page
  std::uint64_t items = 0;  // so many, then it is done; more or fewer is a failure
  std::uint64_t first = 0;  // the number of the first item
  bool is_timed = false;    // seconds since 1970 follow `item`: how late it is seen is measured
  std::chrono::milliseconds pause{0};  // after a page without items; 0: such a page is a failure
};

struct Plan {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::size_t connections = 1;
  std::size_t idle = 0;  // more of them, which ask once before the run and once after it
  std::optional<std::uint64_t> requests = {};
  std::optional<std::chrono::milliseconds> time = {};
  std::optional<std::chrono::milliseconds> every = {};  // each connection starts a request so often
  std::chrono::milliseconds answer_timeout{60'000};
  bool may_break = false;  // a connection that ends is no failure: the server is killed meanwhile
  std::optional<http::Credentials> credentials = {};  // none: requests are sent unsigned
  http::SigningScope scope = {.region = "us-east-1", .service = "s3"};
  std::vector<std::string> words = {};
  RequestPlan request = {};
  std::optional<ContentPlan> content = {};
  ExpectPlan expect = {};
  std::optional<PagesPlan> pages = {};
  // A PUT counts as answered when <sync_root>/<path> and its directory have been synced by this
  // program: gives a server that does not sync the durability that others have.
  std::string sync_root = {};
  bool lists_acknowledged = false;  // the report names the number of each request that succeeded
};

// kInvalidArgument names the member that is wrong, missing or unknown.
Result<Plan> parse_plan(std::string_view json);

// `text` with its {n}, {s} and {token} filled in.
struct Filling {
  std::uint64_t number = 0;
  std::string_view word = {};
  std::string_view token = {};
};
std::string fill(std::string_view text, const Filling& filling);

}  // namespace trainyard::load
