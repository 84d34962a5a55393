// SPDX-License-Identifier: Apache-2.0
// What a run sends next, and whether an answer is the right one. Pure but for the time that
// signatures need: run.cc asks it for each request of each connection and tells it each answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "bench/load/answer.h"
#include "bench/load/histogram.h"
#include "bench/load/plan.h"

namespace trainyard::load {

// The bytes of a request.
struct Prepared {
  std::string head;
  std::string own_body = {};
  const std::string* content = nullptr;  // sent instead of `own_body`; lives as long as the work

  const std::string& body() const { return content != nullptr ? *content : own_body; }
};

struct Next {
  std::uint64_t number = 0;
  std::string path = {};
  std::shared_ptr<const Prepared> request = {};  // shared: sent again by later requests
  Duration after{0};                             // not sooner
};

class Work {
 public:
  virtual ~Work() = default;

  // Nothing: that connection has done its part.
  virtual Result<std::optional<Next>> next(std::size_t connection) = 0;
  // The answer to what next() gave last on that connection. An error says what is wrong with it.
  virtual Result<void> check(std::size_t connection, const Next& asked, const Answer& answer) = 0;
  virtual bool looks_into_bodies() const = 0;
  // Of followed items: how many there were, and how long after its own time each was seen.
  virtual std::uint64_t items() const { return 0; }
  virtual const Histogram* lags() const { return nullptr; }
};

// `plan` is copied; `clock` is borrowed.
std::unique_ptr<Work> make_work(const Plan& plan, const Clock& clock);

// The request of `plan` with its placeholders filled in, signed if the plan says so. `body_hash` is
// the hex SHA-256 of the body where it is known; `length` the body's.
struct BodyFacts {
  std::size_t length = 0;
  std::string sha256 = {};
};
std::string make_head(const Plan& plan, const Filling& filling, const BodyFacts& body,
                      WallTime now);

}  // namespace trainyard::load
