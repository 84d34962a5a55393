// SPDX-License-Identifier: Apache-2.0
// What memory allows an all-reduce of two ranks in shared buffers: two threads, bound to two cores,
// each read one half of both buffers and write the sum to both; no rank waits for another.
//   comm_bound BYTES RUNS
#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include "comm/combine/combine.h"

namespace {

using std::chrono::steady_clock;

void sum_half(std::vector<float>& a, std::vector<float>& b, std::size_t half) {
  const std::size_t count = a.size() / 2;
  auto* first = reinterpret_cast<std::byte*>(a.data() + half * count);
  auto* second = reinterpret_cast<std::byte*>(b.data() + half * count);
  const std::byte* operands[] = {first, second};
  std::byte* outs[] = {first, second};
  trainyard::comm::combine({}, outs, operands, count);
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    fmt::print(stderr, "usage: comm_bound BYTES RUNS\n");
    return 2;
  }
  const std::size_t floats = std::strtoull(words[1], nullptr, 10) / sizeof(float);
  const std::size_t runs = std::strtoull(words[2], nullptr, 10);
  std::vector<float> a(floats, 0.5F);
  std::vector<float> b(floats, 0.25F);
  std::vector<double> seconds;
  for (std::size_t run = 0; run <= runs; ++run) {
    std::barrier together(2);
    std::array<steady_clock::time_point, 2> begins;
    std::array<steady_clock::time_point, 2> ends;
    std::vector<std::jthread> threads;
    for (std::size_t half = 0; half < 2; ++half) {
      threads.emplace_back([&, half] {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(half % std::thread::hardware_concurrency(), &set);
        ::sched_setaffinity(0, sizeof(set), &set);
        together.arrive_and_wait();
        begins[half] = steady_clock::now();
        sum_half(a, b, half);
        ends[half] = steady_clock::now();
      });
    }
    threads.clear();
    const std::chrono::duration<double> took =
        std::max(ends[0], ends[1]) - std::min(begins[0], begins[1]);
    if (a != b) {
      fmt::print(stderr, "comm_bound: wrong result\n");
      return 1;
    }
    if (run > 0) {
      seconds.push_back(took.count());
    }
  }
  fmt::print("{{\"seconds\": [{}]}}\n", fmt::join(seconds, ", "));
  return 0;
}
