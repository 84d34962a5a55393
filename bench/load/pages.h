// SPDX-License-Identifier: Apache-2.0
// The work of reading sequences page by page, one on each connection: a listing of objects, or the
// log of a program that is still writing it. Each item must be the one that follows the item
// before, so that none can be lost, doubled or out of order without being noticed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/work.h"

namespace trainyard::load {

class Pages final : public Work {
 public:
  Pages(const Plan& plan, const Clock& clock);

  Result<std::optional<Next>> next(std::size_t connection) override;
  Result<void> check(std::size_t connection, const Next& asked, const Answer& answer) override;
  bool looks_into_bodies() const override { return true; }
  std::uint64_t items() const override { return items_; }
  const Histogram* lags() const override { return &lags_; }

 private:
  struct Sequence {
    std::uint64_t items = 0;
    std::string token = {};
    bool was_empty = false;  // the last page
    bool has_ended = false;  // no token leads further
  };

  Result<std::uint64_t> read_items(std::size_t connection, std::string_view text);
  Result<void> check_item(std::string_view item, std::uint64_t number, std::string_view word);
  std::string_view word_of(std::size_t connection) const;

  const Plan plan_;
  const PagesPlan pages_;
  const Clock& clock_;
  std::vector<Sequence> sequences_;
  std::uint64_t items_ = 0;
  Histogram lags_;
};

}  // namespace trainyard::load
