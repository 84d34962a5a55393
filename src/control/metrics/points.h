// SPDX-License-Identifier: Apache-2.0
// Points of one metric of one job, as values: how they are packed to be stored, and what is said of
// many of them. The metric table stores them, metric_operations.h answers from them; nothing here
// does I/O. A value may be infinite or not a number: such points are kept, and left out of
// statistics.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::control {

struct Point {
  WallTime at{};
  double value = 0;
};

// What is stored together: pieces of at most kMostPacked points that lie within kMostSpan, so that
// whoever looks for a time knows how far back to begin.
inline constexpr std::size_t kMostPacked = 4096;
inline constexpr Duration kMostSpan{60'000};
std::vector<std::span<const Point>> cut(std::span<const Point> points);

// 16 bytes a point, little-endian: milliseconds since 1970, then the bits of an IEEE double.
std::string pack(std::span<const Point> points);
Result<std::vector<Point>> unpack(std::string_view bytes);  // kCorrupt

// Of finite values only.
struct Aggregate {
  std::int64_t count = 0;
  double sum = 0;
  double least = 0;
  double most = 0;

  void add(double value);
  void merge(const Aggregate& other);
  bool operator==(const Aggregate&) const = default;
};

// The start of the period that a time lies in; periods begin at multiples of their length.
WallTime start_of(WallTime at, Duration period);

// Aggregates by the start of their period; periods without values are absent.
using Buckets = std::map<WallTime, Aggregate>;
void add(std::span<const Point> points, Duration period, Buckets& buckets);

}  // namespace trainyard::control
