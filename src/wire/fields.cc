// SPDX-License-Identifier: Apache-2.0
#include "wire/fields.h"

#include <array>
#include <limits>

namespace trainyard::wire {
namespace {

constexpr std::array kCodes = {Code::kInvalidArgument, Code::kNotFound,      Code::kAlreadyExists,
                               Code::kConflict,        Code::kDenied,        Code::kExhausted,
                               Code::kUnavailable,     Code::kDeadline,      Code::kCancelled,
                               Code::kCorrupt,         Code::kUnimplemented, Code::kInternal};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<std::pair<std::string_view, double>, 3> kNonFinite = {
    {{"nan", std::numeric_limits<double>::quiet_NaN()}, {"inf", kInfinity}, {"-inf", -kInfinity}}};

}  // namespace

Fields::Fields(const nlohmann::json& json, std::string path) : json_(json), path_(std::move(path)) {
  if (!json_.is_object()) {
    fail(path_, "an object");
  }
}

const nlohmann::json* Fields::find(std::string_view name, bool required) {
  if (error_) {
    return nullptr;
  }
  const auto found = json_.find(name);
  if (found != json_.end() && (required || !found->is_null())) {
    return &*found;
  }
  if (required) {
    fail(member_path(name), "present");
  }
  return nullptr;
}

std::string Fields::member_path(std::string_view name) const {
  return path_ + "." + std::string(name);
}

void Fields::fail(const std::string& path, std::string_view must_be) {
  if (!error_) {
    error_ = Error{Code::kInvalidArgument, path + " must be " + std::string(must_be), "message"};
  }
}

void Fields::convert(const nlohmann::json& from, const std::string& path, std::string& out) {
  if (!from.is_string()) {
    fail(path, "a string");
    return;
  }
  out = from.get_ref<const std::string&>();
}

void Fields::convert(const nlohmann::json& from, const std::string& path, std::int64_t& out) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!from.is_number_integer() ||
      (from.is_number_unsigned() && from.get<std::uint64_t>() > kMax)) {
    fail(path, "a 64-bit integer");
    return;
  }
  out = from.get<std::int64_t>();
}

void Fields::convert(const nlohmann::json& from, const std::string& path, int& out) {
  std::int64_t wide = 0;
  convert(from, path, wide);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    fail(path, "a 32-bit integer");
    return;
  }
  out = static_cast<int>(wide);
}

void Fields::convert(const nlohmann::json& from, const std::string& path, bool& out) {
  if (!from.is_boolean()) {
    fail(path, "true or false");
    return;
  }
  out = from.get<bool>();
}

void Fields::convert(const nlohmann::json& from, const std::string& path, double& out) {
  if (from.is_number()) {
    out = from.get<double>();
    return;
  }
  for (const auto& [name, value] : kNonFinite) {
    if (from == name) {
      out = value;
      return;
    }
  }
  fail(path, "a number, \"nan\", \"inf\" or \"-inf\"");
}

void Fields::convert(const nlohmann::json& from, const std::string& path, WallTime& out) {
  std::int64_t since_epoch = 0;
  convert(from, path, since_epoch);
  out = WallTime{std::chrono::milliseconds{since_epoch}};
}

void Fields::convert(const nlohmann::json& from, const std::string& path,
                     std::chrono::milliseconds& out) {
  std::int64_t count = 0;
  convert(from, path, count);
  out = std::chrono::milliseconds{count};
}

void Fields::convert(const nlohmann::json& from, const std::string& path, Code& out) {
  std::string name;
  convert(from, path, name);
  if (error_) {
    return;
  }
  for (const Code code : kCodes) {
    if (name == name_of(code)) {
      out = code;
      return;
    }
  }
  // A newer peer may know more codes; what it means is still a failure on its side.
  out = Code::kInternal;
}

void Fields::convert(const nlohmann::json& from, const std::string& path, nlohmann::json& out) {
  if (!from.is_object()) {
    fail(path, "an object");
    return;
  }
  out = from;
}

}  // namespace trainyard::wire
