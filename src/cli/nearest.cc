// SPDX-License-Identifier: Apache-2.0
#include "cli/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/text.h"

namespace trainyard::cli {
namespace {

constexpr std::size_t kLong = 8;  // of a longer name less may differ

// Levenshtein's.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view written, std::span<const std::string_view> names) {
  const std::string word = lower(written);
  std::string_view nearest;
  std::size_t fewest = 0;
  for (const std::string_view name : names) {
    const std::size_t changes = distance(word, lower(name));
    if (nearest.empty() || changes < fewest) {
      nearest = name;
      fewest = changes;
    }
  }
  const std::size_t size = nearest.size();
  const std::size_t most = size < kLong ? size / 2 : size * 2 / 5;
  return fewest <= std::max<std::size_t>(1, most) ? nearest : std::string_view();
}

std::string did_you_mean(std::string_view written, std::span<const std::string_view> names) {
  const std::string_view nearest = nearest_name(written, names);
  return nearest.empty() ? std::string() : "; did you mean '" + std::string(nearest) + "'?";
}

}  // namespace trainyard::cli
