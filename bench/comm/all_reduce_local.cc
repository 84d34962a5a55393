// SPDX-License-Identifier: Apache-2.0
// All-reduce of fp32 between ranks that are threads of this process, over shared memory: what the
// library itself costs, without processes, rendezvous or Python. Prints one JSON object per case;
// each result is verified before its time counts.
//
//   all_reduce_local [--ranks 2] [--runs 21] [--bytes 4096,262144,...]
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "testing/comm_world.h"

namespace trainyard {
namespace {

using comm::Communicator;

struct Arguments {
  std::int32_t ranks = 2;
  std::size_t runs = 21;
  std::vector<std::size_t> sizes = {4096, 262144, 4194304, 67108864};
};

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view name = words[i];
    if (name == "--ranks") {
      arguments.ranks = std::atoi(words[i + 1]);
    } else if (name == "--runs") {
      arguments.runs = static_cast<std::size_t>(std::atoi(words[i + 1]));
    } else if (name == "--bytes") {
      arguments.sizes.clear();
      std::string_view rest = words[i + 1];
      while (!rest.empty()) {
        arguments.sizes.push_back(std::strtoull(rest.data(), nullptr, 10));
        const std::size_t comma = rest.find(',');
        rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
      }
    }
  }
  return arguments;
}

struct Case {
  std::size_t bytes = 0;
  bool is_registered = false;
  std::size_t repeats = 1;  // operations a run
};

struct Buffer {
  std::shared_ptr<std::byte[]> memory;
  std::span<float> values;
};

Buffer make_buffer(Communicator& communicator, const Case& one) {
  auto memory = one.is_registered ? communicator.allocate(one.bytes).value()
                                  : std::make_shared<std::byte[]>(one.bytes);
  auto* values = reinterpret_cast<float*>(memory.get());
  return {memory, {values, one.bytes / sizeof(float)}};
}

// In place; sums of the rank numbers + 1 stay exact for so many repeats.
bool is_right(std::span<const float> values, float wanted) {
  return std::all_of(values.begin(), values.end(), [&](float value) { return value == wanted; });
}

// Microseconds per operation, one for each run.
std::vector<double> measure(testing::LocalWorld& world, const Case& one, std::size_t runs) {
  std::vector<double> times;
  std::barrier start(static_cast<std::ptrdiff_t>(world.ranks.size()));
  testing::on_all_ranks(world, [&](Communicator& communicator) {
    const Buffer in = make_buffer(communicator, one);
    const Buffer out = make_buffer(communicator, one);
    const auto value = static_cast<float>(communicator.rank() + 1);
    const auto n = static_cast<float>(communicator.size());
    std::fill(in.values.begin(), in.values.end(), value);
    const comm::Operation operation{.kind = comm::OpKind::kAllReduce,
                                    .dtype = comm::DType::kF32,
                                    .reduce = comm::ReduceOp::kSum,
                                    .input = std::as_bytes(in.values),
                                    .output = std::as_writable_bytes(out.values),
                                    .counts = {},
                                    .receive_counts = {},
                                    .timeout = std::nullopt,
                                    .algorithm = std::nullopt};
    for (std::size_t run = 0; run < runs + 1; ++run) {
      std::fill(out.values.begin(), out.values.end(), 0.0F);
      start.arrive_and_wait();
      const auto begin = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < one.repeats; ++i) {
        if (const auto done = communicator.run(operation); !done) {
          fmt::print(stderr, "{}\n", done.error().message);
          std::exit(1);
        }
      }
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begin;
      if (!is_right(out.values, n * (n + 1) / 2)) {
        fmt::print(stderr, "wrong sum on rank {}\n", communicator.rank());
        std::exit(1);
      }
      start.arrive_and_wait();
      if (communicator.rank() == 0 && run > 0) {
        times.push_back(took.count() / static_cast<double>(one.repeats));
      }
    }
  });
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace
}  // namespace trainyard

int main(int count, char** words) {
  using namespace trainyard;  // NOLINT(google-build-using-namespace)
  const Arguments arguments = parse(count, words);
  testing::LocalWorld world = testing::make_shared_memory_communicators(arguments.ranks);
  for (const std::size_t bytes : arguments.sizes) {
    for (const bool is_registered : {false, true}) {
      const std::size_t repeats = std::clamp<std::size_t>(8'000'000 / (bytes + 2048), 1, 1'000);
      const auto times =
          measure(world, {bytes, is_registered, repeats}, std::max<std::size_t>(arguments.runs, 1));
      fmt::print(
          R"({{"case":"all_reduce_local","ranks":{},"bytes":{},"registered":{},"median_us":{:.2f},)"
          R"("best_us":{:.2f},"worst_us":{:.2f},"runs":{},"operations_per_run":{}}})"
          "\n",
          arguments.ranks, bytes, is_registered, times[times.size() / 2], times.front(),
          times.back(), times.size(), repeats);
      std::fflush(stdout);
    }
  }
  return 0;
}
