// SPDX-License-Identifier: Apache-2.0
#include "bench/load/pages.h"

#include <utility>

#include <fmt/format.h>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/text.h"

namespace trainyard::load {
namespace {

// What stands between `begin` and `end` from `at` on; `at` moves behind it. Nothing: no more.
std::optional<std::string_view> find_between(std::string_view text, std::size_t& at,
                                             std::string_view begin, std::string_view end) {
  const std::size_t found = text.find(begin, at);
  const std::size_t from = found + begin.size();
  const std::size_t to = found == std::string_view::npos ? found : text.find(end, from);
  if (to == std::string_view::npos) {
    return std::nullopt;
  }
  at = to + end.size();
  return text.substr(from, to - from);
}

}  // namespace

Pages::Pages(const Plan& plan, const Clock& clock)
    : plan_(plan),
      pages_(plan.pages.value_or(PagesPlan())),
      clock_(clock),
      sequences_(plan.connections) {}

std::string_view Pages::word_of(std::size_t connection) const {
  return plan_.words.empty() ? std::string_view() : plan_.words[connection];
}

Result<std::optional<Next>> Pages::next(std::size_t connection) {
  const Sequence& sequence = sequences_[connection];
  if (sequence.has_ended || (pages_.pause.count() > 0 && sequence.items == pages_.items)) {
    return std::optional<Next>();
  }
  const bool is_body = !plan_.request.body.empty();
  const std::string token = sequence.token.empty()
                                ? ""
                                : pages_.token_prefix +
                                      (is_body ? sequence.token : uri_encode(sequence.token)) +
                                      pages_.token_suffix;
  const Filling filling{.number = sequence.items, .word = word_of(connection), .token = token};
  Prepared made{.head = "", .own_body = fill(plan_.request.body, filling)};
  made.head = make_head(plan_, filling,
                        {.length = made.own_body.size(), .sha256 = sha256_hex(made.own_body)},
                        clock_.now());
  return std::optional(Next{.number = sequence.items,
                            .path = plan_.request.path,
                            .request = std::make_shared<const Prepared>(std::move(made)),
                            .after = sequence.was_empty ? pages_.pause : Duration(0)});
}

Result<void> Pages::check(std::size_t connection, const Next& /*asked*/, const Answer& answer) {
  Sequence& sequence = sequences_[connection];
  if (answer.status != plan_.expect.status) {
    sequence.has_ended = true;
    return Error{Code::kCorrupt,
                 fmt::format("status {} {}", answer.status, answer.text.substr(0, 500))};
  }
  auto read = read_items(connection, answer.text);
  if (!read) {
    sequence.has_ended = true;
    return std::move(read).error();
  }
  sequence.was_empty = *read == 0;
  std::size_t at = 0;
  const auto token = find_between(answer.text, at, pages_.token_begin, pages_.token_end);
  sequence.has_ended = !token;
  sequence.token = token ? std::string(*token) : "";
  if (sequence.items > pages_.items || (!token && sequence.items < pages_.items)) {
    sequence.has_ended = true;
    return Error{Code::kCorrupt, fmt::format("{} items, not {}", sequence.items, pages_.items)};
  }
  if (token && *read == 0 && pages_.pause.count() == 0) {
    sequence.has_ended = true;
    return Error{Code::kCorrupt, "an empty page that is not the last"};
  }
  return {};
}

// How many items the page has.
Result<std::uint64_t> Pages::read_items(std::size_t connection, std::string_view text) {
  Sequence& sequence = sequences_[connection];
  std::uint64_t count = 0;
  std::size_t at = 0;
  while (const auto item = find_between(text, at, pages_.item_begin, pages_.item_end)) {
    YARD_TRY(check_item(*item, pages_.first + sequence.items, word_of(connection)));
    ++sequence.items;
    ++items_;
    ++count;
  }
  return count;
}

Result<void> Pages::check_item(std::string_view item, std::uint64_t number, std::string_view word) {
  const std::string expected = fill(pages_.item, {.number = number, .word = word});
  const auto wrong = [&] {
    return Error{Code::kCorrupt,
                 fmt::format("'{}' where '{}' belongs", item.substr(0, 200), expected)};
  };
  if (!item.starts_with(expected)) {
    return wrong();
  }
  const std::string_view rest = item.substr(expected.size());
  if (!pages_.is_timed) {
    return rest.empty() ? Result<void>() : wrong();
  }
  const Result<double> seconds = parse_double(rest.substr(0, rest.find(' ')));
  if (!seconds) {
    return wrong();
  }
  lags_.add(clock_.now() - from_epoch_seconds(*seconds));
  return {};
}

}  // namespace trainyard::load
