// SPDX-License-Identifier: Apache-2.0
// What the shared-memory transport costs: two threads on a core each, with a mapping of the segment
// each as two processes would have, and a transport each. One JSON object a line: microseconds of
// one message, the median of the runs, the median deviation from it, and the best; and the latency
// between the two cores alone, as it was then. Baseline: memcpy. A case is reported only after what
// was received was right.
//
//     shm_bench [--runs N]
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "base/check.h"
#include "comm/combine/combine.h"
#include "comm/transport/shm/shm_transport.h"

namespace trainyard::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kFar = 64 << 20;  // larger than the caches
constexpr int kRepeats = 200;           // of a case in a run

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Rank {
  std::unique_ptr<ShmTransport> transport;
  Fault fault;
  HeapRegistry heaps;
  std::int32_t peer = 0;
  Bytes source = Bytes(kFar, std::byte{1});
  Bytes sink = Bytes(kFar, std::byte{0});

  void send(const std::byte* from, std::size_t bytes, Store store) {
    std::span<std::byte> place;
    while ((place = transport->try_reserve({&peer, 1}, bytes)).data() == nullptr) {
      transport->wait(Patience::kSpin, std::chrono::seconds(1));
    }
    if (store == Store::kCached) {
      std::memcpy(place.data(), from, bytes);
    } else {
      copy(place.data(), from, bytes, store);
    }
    transport->publish({&peer, 1}, {});
  }

  void receive(std::byte* to) {
    const Inbound* got = nullptr;
    while ((got = transport->try_receive(peer, {})) == nullptr) {
      transport->wait(Patience::kSpin, std::chrono::seconds(1));
    }
    std::memcpy(to, got->bytes.data(), got->bytes.size());
    transport->release(peer);
  }
};

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  YARD_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0, "cannot pin a thread");
}

struct Case {
  std::string name;
  std::size_t bytes = 0;
  double messages = 1;  // one after the other in what is timed
};

class Bench {
 public:
  explicit Bench(int runs) : runs_(runs), meet_(2) {}

  void run() {
    Result<Segment> made = Segment::create(default_shape(2));
    YARD_CHECK(made.has_value(), "no segment");
    const std::jthread one([&] { run_rank(1, Fd(dup(made->fd()))); });
    run_rank(0, Fd(dup(made->fd())));
  }

 private:
  void run_rank(std::uint32_t index, Fd fd) {
    pin_to(static_cast<int>(index));
    auto segment = std::make_shared<const Segment>(*Segment::map(std::move(fd)));
    Rank& rank = ranks_[index];
    rank.peer = static_cast<std::int32_t>(1 - index);
    rank.transport =
        *ShmTransport::create(segment, {.index = index, .ranks = {0, 1}}, rank.fault, rank.heaps);
    meet_.arrive_and_wait();
    rank.transport->calibrate(std::chrono::milliseconds(20));
    for (const std::size_t bytes : {0, 24, 64, 4096, 8192, 32768}) {
      ping_pong(index, bytes);
      exchange(index, bytes, Store::kCached);
    }
    for (const std::size_t bytes : {4096, 16384, 32768, 65536, 131072}) {
      exchange(index, bytes, Store::kCached);
      exchange(index, bytes, Store::kNonTemporal);
    }
    for (const std::size_t bytes : {32U << 10, 128U << 10}) {
      stream(index, bytes, 512 << 10, Store::kCached);
      stream(index, bytes, 512 << 10, Store::kNonTemporal);
      stream(index, bytes, kFar, Store::kCached);
      stream(index, bytes, kFar, Store::kNonTemporal);
    }
    if (index == 0) {
      raw_copy(4096, 4096);
      raw_copy(128 << 10, 512 << 10);
      raw_copy(128 << 10, kFar);
    }
  }

  // One message there, one back: half of it.
  void ping_pong(std::uint32_t index, std::size_t bytes) {
    Rank& rank = ranks_[index];
    measure(index, {"one-way", bytes, 2}, [&] {
      if (index == 0) {
        rank.send(rank.source.data(), bytes, Store::kCached);
      }
      rank.receive(rank.sink.data());
      if (index == 1) {
        rank.send(rank.source.data(), bytes, Store::kCached);
      }
    });
  }

  // Both at once: write, notice, read.
  void exchange(std::uint32_t index, std::size_t bytes, Store store) {
    Rank& rank = ranks_[index];
    const std::string name = store == Store::kCached ? "exchange" : "exchange-non-temporal";
    measure(index, {name, bytes}, [&] {
      rank.send(rank.source.data(), bytes, store);
      rank.receive(rank.sink.data());
    });
  }

  // Rank 0 sends out of `working` bytes, rank 1 copies into as many.
  void stream(std::uint32_t index, std::size_t bytes, std::size_t working, Store store) {
    Rank& rank = ranks_[index];
    std::size_t at = 0;
    const std::string name = fmt::format("stream-{}-{}", working == kFar ? "memory" : "cache",
                                         store == Store::kCached ? "cached" : "non-temporal");
    measure(index, {name, bytes}, [&] {
      if (index == 0) {
        rank.send(rank.source.data() + at, bytes, store);
      } else {
        rank.receive(rank.sink.data() + at);
      }
      at = (at + bytes) % working;
    });
  }

  void raw_copy(std::size_t bytes, std::size_t working) {
    Rank& rank = ranks_[0];
    std::size_t at = 0;
    std::vector<double> times;
    for (int run = 0; run < runs_; ++run) {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < kRepeats; ++i) {
        std::memcpy(rank.sink.data() + at, rank.source.data() + at, bytes);
        at = (at + bytes) % working;
      }
      times.push_back(microseconds_since(start) / kRepeats);
    }
    print({working == kFar ? "memcpy-memory" : "memcpy-cache", bytes}, times);
  }

  void measure(std::uint32_t index, const Case& what, const std::function<void()>& once) {
    std::vector<double> times;
    const auto end = static_cast<std::ptrdiff_t>(what.bytes);
    const Bytes& source = ranks_[1 - index].source;
    Bytes& sink = ranks_[index].sink;
    std::fill(sink.begin(), sink.begin() + end, std::byte{0});
    for (int run = -1; run < runs_; ++run) {
      meet_.arrive_and_wait();
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < kRepeats; ++i) {
        once();
      }
      if (run >= 0) {
        times.push_back(microseconds_since(start) / what.messages / kRepeats);
      }
    }
    if (index == 1) {
      YARD_CHECK(std::equal(sink.begin(), sink.begin() + end, source.begin()),
                 "what was received is not what was sent");
      print(what, times);
    }
  }

  void print(const Case& what, std::vector<double> times) const {
    const double best = *std::min_element(times.begin(), times.end());
    const double median = median_of(times);
    for (double& time : times) {
      time = std::abs(time - median);
    }
    fmt::print(R"({{"case": "{}", "bytes": {}, "runs": {}, "median_us": {:.3f}, "mad_us": {:.3f}, )"
               R"("best_us": {:.3f}, "best_gb_s": {:.2f}, "core_to_core_ns": {}, "streams": {}}})"
               "\n",
               what.name, what.bytes, runs_, median, median_of(times), best,
               static_cast<double>(what.bytes) / best / 1000,
               ranks_[0].transport->one_way_latency().count(),
               ranks_[0].transport->prefers_non_temporal(1 << 20));
  }

  int runs_;
  std::barrier<> meet_;
  Rank ranks_[2];
};

}  // namespace
}  // namespace trainyard::comm

int main(int argc, char** argv) {
  const bool has_runs = argc == 3 && std::string_view(argv[1]) == "--runs";
  trainyard::comm::Bench(has_runs ? std::max(std::atoi(argv[2]), 1) : 21).run();
}
