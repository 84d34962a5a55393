// SPDX-License-Identifier: Apache-2.0
// How a function of ours says that it failed: Result<T> is a value or an Error. Every module uses
// it; nothing of ours throws. Member names follow std::expected, so that the type can be swapped
// for it one day. An Error is either handled or returned, and logged once, where it is handled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace trainyard {

enum class Code {
  kInvalidArgument,
  kNotFound,
  kAlreadyExists,
  kConflict,
  kDenied,
  kExhausted,
  kUnavailable,
  kDeadline,
  kCancelled,
  kCorrupt,
  kUnimplemented,
  kInternal,
};

// "kNotFound" without the k, for messages and logs.
std::string_view name_of(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;
  // What the error is about, as one stable word that api/errors.cc may map to a wire name:
  // "bucket", "key", "upload", "signature", ... Empty when the code says enough.
  std::string subject = {};

  // The same error with "while <doing>" put before the message.
  [[nodiscard]] Error in(std::string_view doing) const;
};

// Error{kUnavailable or the fitting code, "<what>: <strerror(errno)>"}: ENOENT is kNotFound, EEXIST
// kAlreadyExists, EACCES and EPERM kDenied, ENOSPC, EDQUOT, EMFILE and ENOMEM kExhausted.
Error errno_error(std::string_view what, int errno_value);

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  // NOLINTBEGIN(google-explicit-constructor): a result is built from what it holds.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }

  Error& error() & { return *std::get_if<1>(&state_); }
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

  T value_or(T other) && { return has_value() ? std::move(*this).value() : std::move(other); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a result is built from what it holds.
  Result(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void operator*() const {}

  // NOLINTBEGIN(bugprone-unchecked-optional-access): the caller has asked has_value().
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }
  // NOLINTEND(bugprone-unchecked-optional-access)

 private:
  std::optional<Error> error_;
};

}  // namespace trainyard

// YARD_TRY(auto x, expr) declares x as the value of expr, or returns its error from this function.
// YARD_TRY(expr) does the same for a Result<void>.
#define YARD_TRY(...) YARD_TRY_PICK(__VA_ARGS__, YARD_TRY_DECLARE, YARD_TRY_ONLY, )(__VA_ARGS__)
#define YARD_TRY_PICK(a, b, chosen, ...) YARD_TRY_PICK2(chosen)
#define YARD_TRY_PICK2(chosen) chosen
#define YARD_TRY_JOIN2(a, b) a##b
#define YARD_TRY_JOIN(a, b) YARD_TRY_JOIN2(a, b)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration has none.
#define YARD_TRY_DECLARE(declaration, expression)                 \
  auto YARD_TRY_JOIN(yard_try_, __LINE__) = (expression);         \
  if (!YARD_TRY_JOIN(yard_try_, __LINE__)) {                      \
    return std::move(YARD_TRY_JOIN(yard_try_, __LINE__)).error(); \
  }                                                               \
  declaration = *std::move(YARD_TRY_JOIN(yard_try_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)
#define YARD_TRY_ONLY(expression)                                            \
  do {                                                                       \
    if (auto yard_try_result = (expression); !yard_try_result.has_value()) { \
      return std::move(yard_try_result).error();                             \
    }                                                                        \
  } while (false)
