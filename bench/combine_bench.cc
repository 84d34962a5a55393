// SPDX-License-Identifier: Apache-2.0
// How fast operands are combined: each kernel of each instruction set, for 4 KiB (first-level
// cache), 256 KiB (second level) and 64 MiB (memory), beside memcpy and a plain a[i] += b[i] loop.
// One JSON object a line: bytes per second count every byte read and every byte written once; the
// median of the runs, and the median deviation from it. Cases take turns within a run, so that a
// slow minute is slow for all of them. A case is timed only after its result was right.
//
//     combine_bench [--runs N]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "comm/combine/internal/kernels.h"
#include "comm/combine/reference.h"

namespace trainyard::comm {
namespace {

using reference::Bytes;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {4 << 10, 256 << 10, 64 << 20};
constexpr std::size_t kBytesARun = 64 << 20;  // small cases are repeated up to this
constexpr std::size_t kOperands = 4;
constexpr std::size_t kOuts = 2;

struct Buffers {
  std::vector<Bytes> operands;
  std::vector<Bytes> outs;
};

struct Case {
  std::string name;
  std::string level;
  std::size_t streams = 2;  // buffers read or written
  std::function<void(Buffers&, std::size_t)> run;
  std::function<bool(const Buffers&, std::size_t)> is_right;
  std::vector<double> seconds = {};
};

// Small whole numbers, exact in every dtype.
Bytes ordinary(DType dtype, std::size_t bytes, std::size_t seed) {
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes / size_of(dtype); ++i) {
    const auto number = static_cast<float>((i * 7 + seed) % 13);
    const std::uint16_t small =
        dtype == DType::kF16 ? reference::Half::narrow(number) : reference::Brain::narrow(number);
    std::memcpy(all.data() + i * size_of(dtype),
                dtype == DType::kF32 ? static_cast<const void*>(&number) : &small, size_of(dtype));
  }
  return all;
}

Bytes first(const Bytes& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

// Only the beginning is compared: every block is made by the same code.
bool is_sum(const Buffers& buffers, const Combine& how, std::size_t operands, std::size_t outs) {
  constexpr std::size_t kLooked = 4 << 10;
  std::vector<Bytes> terms;
  for (std::size_t k = 0; k < operands; ++k) {
    terms.push_back(first(buffers.operands[k], kLooked));
  }
  const Bytes expected = reference::combine(how, terms);
  return std::all_of(buffers.outs.begin(), buffers.outs.begin() + static_cast<std::ptrdiff_t>(outs),
                     [&](const Bytes& out) { return first(out, kLooked) == expected; });
}

Case combine_case(Level level, const Combine& how, std::size_t operands, std::size_t outs) {
  static constexpr const char* kNames[] = {"plain", "avx2", "avx512"};
  return {
      .name = fmt::format("{} of {} {} into {}{}", name_of(how.op), operands, name_of(how.dtype),
                          outs, how.store == Store::kCached ? "" : ", around the caches"),
      .level = kNames[static_cast<std::size_t>(level)],
      .streams = operands + outs,
      .run =
          [=](Buffers& buffers, std::size_t bytes) {
            const std::byte* in[kOperands];
            std::byte* out[kOuts];
            std::transform(buffers.operands.begin(), buffers.operands.end(), in,
                           [](const Bytes& b) { return b.data(); });
            std::transform(buffers.outs.begin(), buffers.outs.end(), out,
                           [](Bytes& b) { return b.data(); });
            combine_by(kernels_of(level), how, {out, outs}, {in, operands},
                       bytes / size_of(how.dtype));
          },
      .is_right = [=](const Buffers& buffers,
                      std::size_t) { return is_sum(buffers, how, operands, outs); }};
}

bool is_copied(const Buffers& buffers, std::size_t bytes) {
  return std::memcmp(buffers.outs[0].data(), buffers.operands[0].data(), bytes) == 0;
}

Case copy_case(Store store) {
  return {.name = store == Store::kCached ? "copy" : "copy, around the caches",
          .level = "best",
          .run =
              [store](Buffers& buffers, std::size_t bytes) {
                copy(buffers.outs[0].data(), buffers.operands[0].data(), bytes, store);
              },
          .is_right = is_copied};
}

Case memcpy_case() {
  return {.name = "memcpy",
          .level = "baseline",
          .run =
              [](Buffers& buffers, std::size_t bytes) {
                std::memcpy(buffers.outs[0].data(), buffers.operands[0].data(), bytes);
              },
          .is_right = is_copied};
}

// Reads two and writes one; integers, so that running it again and again stays harmless.
Case loop_case() {
  return {.name = "a[i] += b[i]",
          .level = "baseline",
          .streams = 3,
          .run =
              [](Buffers& buffers, std::size_t bytes) {
                auto* a = reinterpret_cast<std::uint32_t*>(buffers.outs[0].data());
                const auto* b = reinterpret_cast<const std::uint32_t*>(buffers.operands[0].data());
                for (std::size_t i = 0; i < bytes / sizeof(*a); ++i) {
                  a[i] += b[i];
                }
              },
          .is_right = [](const Buffers&, std::size_t) { return true; }};
}

std::vector<Case> cases_of(DType dtype) {
  std::vector<Case> all = {memcpy_case(), loop_case(), copy_case(Store::kCached),
                           copy_case(Store::kNonTemporal)};
  for (const Level level : levels()) {
    for (const Store store : {Store::kCached, Store::kNonTemporal}) {
      const Combine how{.dtype = dtype, .store = store};
      all.push_back(combine_case(level, how, 2, 1));
      all.push_back(combine_case(level, how, 2, 2));
      all.push_back(combine_case(level, how, 4, 2));
    }
    all.push_back(combine_case(level, {.op = ReduceOp::kMax, .dtype = dtype}, 2, 1));
  }
  return all;
}

double seconds_of(const Case& one, Buffers& buffers, std::size_t bytes) {
  const std::size_t times = kBytesARun / bytes;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < times; ++i) {
    one.run(buffers, bytes);
  }
  return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(times);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print(const Case& one, DType dtype, std::size_t bytes) {
  const double typical = median(one.seconds);
  std::vector<double> deviations;
  for (const double seconds : one.seconds) {
    deviations.push_back(std::abs(seconds - typical));
  }
  fmt::print(R"({{"case": "{}", "dtype": "{}", "level": "{}", "bytes": {}, "median_us": {:.3f}, )"
             R"("mad_us": {:.3f}, "gbytes_per_s": {:.2f}}})"
             "\n",
             one.name, name_of(dtype), one.level, bytes, typical * 1e6, median(deviations) * 1e6,
             static_cast<double>(one.streams * bytes) / typical / 1e9);
}

// False when a result is wrong; it says which.
bool measure(DType dtype, std::size_t bytes, int runs) {
  Buffers buffers;
  for (std::size_t k = 0; k < kOperands; ++k) {
    buffers.operands.push_back(ordinary(dtype, bytes, k));
  }
  buffers.outs.assign(kOuts, Bytes(bytes));
  std::vector<Case> cases = cases_of(dtype);
  for (const Case& one : cases) {
    one.run(buffers, bytes);
    if (!one.is_right(buffers, bytes)) {
      fmt::print(stderr, "{} ({}): wrong result\n", one.name, one.level);
      return false;
    }
  }
  for (int run = 0; run < runs; ++run) {
    for (Case& one : cases) {
      one.seconds.push_back(seconds_of(one, buffers, bytes));
    }
  }
  for (const Case& one : cases) {
    print(one, dtype, bytes);
  }
  return true;
}

}  // namespace
}  // namespace trainyard::comm

int main(int argc, char** argv) {
  using trainyard::comm::DType;
  const bool has_runs = argc == 3 && std::string_view(argv[1]) == "--runs";
  const int runs = has_runs ? std::atoi(argv[2]) : 7;
  if ((argc != 1 && !has_runs) || runs < 5) {
    fmt::print(stderr, "usage: combine_bench [--runs N], N at least 5\n");
    return 2;
  }
  for (const std::size_t bytes : trainyard::comm::kSizes) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (!trainyard::comm::measure(dtype, bytes, runs)) {
        return 1;
      }
    }
  }
  return 0;
}
