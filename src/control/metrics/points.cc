// SPDX-License-Identifier: Apache-2.0
#include "control/metrics/points.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trainyard::control {
namespace {

constexpr std::size_t kHalf = 8;

void put(std::uint64_t bits, std::string& out) {
  for (std::size_t i = 0; i < kHalf; ++i) {
    out.push_back(static_cast<char>(bits >> (8 * i)));
  }
}

std::uint64_t get(std::string_view bytes) {
  std::uint64_t bits = 0;
  for (std::size_t i = kHalf; i > 0; --i) {
    bits = bits << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return bits;
}

}  // namespace

std::vector<std::span<const Point>> cut(std::span<const Point> points) {
  std::vector<std::span<const Point>> pieces;
  while (!points.empty()) {
    WallTime first = points[0].at;
    WallTime last = first;
    std::size_t count = 0;
    while (count < std::min(points.size(), kMostPacked)) {
      first = std::min(first, points[count].at);
      last = std::max(last, points[count].at);
      if (last - first > kMostSpan) {
        break;
      }
      ++count;
    }
    pieces.push_back(points.first(count));
    points = points.subspan(count);
  }
  return pieces;
}

std::string pack(std::span<const Point> points) {
  std::string out;
  out.reserve(points.size() * 2 * kHalf);
  for (const Point& point : points) {
    put(static_cast<std::uint64_t>(point.at.time_since_epoch().count()), out);
    put(std::bit_cast<std::uint64_t>(point.value), out);
  }
  return out;
}

Result<std::vector<Point>> unpack(std::string_view bytes) {
  if (bytes.size() % (2 * kHalf) != 0) {
    return Error{Code::kCorrupt, "stored points of a metric are cut off"};
  }
  std::vector<Point> points;
  points.reserve(bytes.size() / (2 * kHalf));
  for (std::size_t at = 0; at < bytes.size(); at += 2 * kHalf) {
    points.push_back(
        {.at = WallTime(Duration(static_cast<std::int64_t>(get(bytes.substr(at, kHalf))))),
         .value = std::bit_cast<double>(get(bytes.substr(at + kHalf, kHalf)))});
  }
  return points;
}

void Aggregate::add(double value) {
  if (std::isfinite(value)) {
    merge({.count = 1, .sum = value, .least = value, .most = value});
  }
}

void Aggregate::merge(const Aggregate& other) {
  if (other.count == 0) {
    return;
  }
  least = count == 0 ? other.least : std::min(least, other.least);
  most = count == 0 ? other.most : std::max(most, other.most);
  sum += other.sum;
  count += other.count;
}

WallTime start_of(WallTime at, Duration period) {
  const Duration since = at.time_since_epoch();
  const Duration rest = since % period;
  return WallTime(since - rest - (rest < Duration(0) ? period : Duration(0)));
}

void add(std::span<const Point> points, Duration period, Buckets& buckets) {
  for (const Point& point : points) {
    if (std::isfinite(point.value)) {
      buckets[start_of(point.at, period)].add(point.value);
    }
  }
}

}  // namespace trainyard::control
