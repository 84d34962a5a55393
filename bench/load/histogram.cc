// SPDX-License-Identifier: Apache-2.0
#include "bench/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trainyard::load {

using std::chrono::nanoseconds;

// Values below 2^(kBits + 1) have a bucket each; above, the bits after the leading one choose.
std::size_t Histogram::bucket_of(std::uint64_t value) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kBits - 1);
  return (static_cast<std::size_t>(shift) << kBits) + static_cast<std::size_t>(value >> shift);
}

std::uint64_t Histogram::end_of(std::size_t bucket) {
  const std::size_t shift = bucket < (std::size_t{2} << kBits) ? 0 : (bucket >> kBits) - 1;
  const std::uint64_t first = (bucket - (shift << kBits)) << shift;
  return first + (std::uint64_t{1} << shift) - 1;
}

void Histogram::add(nanoseconds value) {
  value = std::max(value, nanoseconds(0));
  ++buckets_[bucket_of(static_cast<std::uint64_t>(value.count()))];
  ++count_;
  sum_ += value;
  largest_ = std::max(largest_, value);
}

nanoseconds Histogram::mean() const {
  return count_ == 0 ? nanoseconds(0) : sum_ / static_cast<std::int64_t>(count_);
}

nanoseconds Histogram::percentile(double share) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets && count_ > 0; ++i) {
    seen += buckets_[i];
    if (seen >= std::max<std::uint64_t>(wanted, 1)) {
      return std::min(nanoseconds(static_cast<std::int64_t>(end_of(i))), largest_);
    }
  }
  return nanoseconds(0);
}

}  // namespace trainyard::load
