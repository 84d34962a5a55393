// SPDX-License-Identifier: Apache-2.0
// Reads the members of one JSON object into a value of ours, strictly and without throwing. The
// first member that is missing or has the wrong type is kept as the error, named by its path, and
// everything after it is skipped: a message is read as a plain list of members, and the one check
// stands at the end. Used by messages.cc only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::wire {

class Fields {
 public:
  // `path` names the object in errors. `json` must outlive this.
  Fields(const nlohmann::json& json, std::string path);

  // A member that must be there.
  template <typename T>
  void read(std::string_view name, T& out) {
    if (const nlohmann::json* member = find(name, true)) {
      convert(*member, member_path(name), out);
    }
  }
  // A member that may be absent (or null): `out` then keeps its value.
  template <typename T>
  void read_if(std::string_view name, T& out) {
    if (const nlohmann::json* member = find(name, false)) {
      convert(*member, member_path(name), out);
    }
  }

  template <typename T>
  Result<T> finish(T value) {
    if (error_) {
      return std::move(*error_);
    }
    return value;
  }

 private:
  const nlohmann::json* find(std::string_view name, bool required);
  std::string member_path(std::string_view name) const;
  void fail(const std::string& path, std::string_view must_be);

  void convert(const nlohmann::json& from, const std::string& path, std::string& out);
  void convert(const nlohmann::json& from, const std::string& path, std::int64_t& out);
  void convert(const nlohmann::json& from, const std::string& path, int& out);
  void convert(const nlohmann::json& from, const std::string& path, bool& out);
  // A number, or one of the strings "nan", "inf" and "-inf", for which JSON has no number.
  void convert(const nlohmann::json& from, const std::string& path, double& out);
  void convert(const nlohmann::json& from, const std::string& path, WallTime& out);
  void convert(const nlohmann::json& from, const std::string& path, std::chrono::milliseconds& out);
  void convert(const nlohmann::json& from, const std::string& path, Code& out);
  void convert(const nlohmann::json& from, const std::string& path, nlohmann::json& out);

  template <typename T>
  void convert(const nlohmann::json& from, const std::string& path, std::optional<T>& out) {
    T value{};
    convert(from, path, value);
    out = std::move(value);
  }

  template <typename T>
  void convert(const nlohmann::json& from, const std::string& path, std::vector<T>& out) {
    if (!from.is_array()) {
      fail(path, "an array");
      return;
    }
    out.clear();
    out.reserve(from.size());
    for (std::size_t i = 0; i < from.size() && !error_; ++i) {
      convert(from[i], path + "[" + std::to_string(i) + "]", out.emplace_back());
    }
  }

  // Every other type has a function read_members(Fields&, T&) or from_name(string_view, T&) beside
  // it.
  template <typename T>
  void convert(const nlohmann::json& from, const std::string& path, T& out) {
    if constexpr (std::is_enum_v<T>) {
      std::string name;
      convert(from, path, name);
      if (!error_ && !from_name(name, out)) {
        fail(path, "one of the known names, not \"" + name + "\"");
      }
    } else {
      Fields inner(from, path);
      if (!inner.error_) {
        read_members(inner, out);
      }
      if (inner.error_ && !error_) {
        error_ = std::move(inner.error_);
      }
    }
  }

  const nlohmann::json& json_;
  std::string path_;
  std::optional<Error> error_;
};

}  // namespace trainyard::wire
