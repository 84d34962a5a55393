// SPDX-License-Identifier: Apache-2.0
// An HTTP request head and an answer as plain values, shared by the server, the client and SigV4.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace trainyard::http {

// In order of arrival, names as sent; looked up without regard to case. Names may repeat.
class Headers {
 public:
  void add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  // Replaces every field of that name.
  void set(std::string_view name, std::string value);
  void remove(std::string_view name);
  // The first field of that name, or nullptr.
  const std::string* find(std::string_view name) const;
  std::string_view get(std::string_view name, std::string_view otherwise = {}) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const& { return fields_; }
  // Of a temporary: a loop over it would read what is gone.
  std::vector<std::pair<std::string, std::string>> fields() && { return std::move(fields_); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct Request {
  std::string method;      // upper case
  std::string path;        // as on the wire: percent-encoded, before the first '?'
  std::string query = {};  // as on the wire: after the first '?', without it
  Headers headers = {};
  std::string peer = {};      // "127.0.0.1:41234"; empty for a request that we send
  std::string listener = {};  // the tag of the listener that it came in by
};

// The query's pairs, decoded, in order. "a" and "a=" both give {"a", ""}; "+" stays "+".
Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

struct Response {
  int status = 200;
  Headers headers = {};  // Content-Length, Date, Connection are the server's
  std::string body = {};
};

}  // namespace trainyard::http
