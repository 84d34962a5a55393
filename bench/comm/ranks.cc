// SPDX-License-Identifier: Apache-2.0
// One collective between processes, timed: what ./yard bench collectives runs beside Open MPI.
//
//   comm_ranks --ranks N --kind all_reduce --bytes B --repeats K --runs M [--registered]
//              [--in-place] [--unbound] [--transports tcp] [--store HOST:PORT --rank R]
//   comm_ranks --ranks N --setup              how long it takes until all have met in a barrier
//
// Starts N processes of itself (bound to a core each when there are enough), prints one JSON
// object: the seconds of one operation in each run, as rank 0 sees it, after a barrier. Every run's
// result is compared, element by element, on every rank.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include "base/file.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "comm/communicator.h"
#include "comm/rendezvous/store_client.h"
#include "comm/rendezvous/store_server.h"

namespace trainyard {
namespace {

using comm::Communicator;
using comm::Operation;
using comm::OpKind;
using std::chrono::steady_clock;

struct Arguments {
  std::int32_t ranks = 2;
  std::int32_t rank = -1;  // of a child
  std::uint16_t port = 0;  // of the store, for a child
  std::string kind = "all_reduce";
  std::size_t bytes = 4096;
  std::size_t repeats = 1;
  std::size_t runs = 5;
  bool registered = false;
  bool unbound = false;   // to no processor
  bool in_place = false;  // all-reduce only: the sums of one run grow with each repetition
  std::string store;      // where others meet, for a rank that was not started by this program
  bool setup = false;
  std::string transports;
  double began = 0;  // of the parent's start, for --setup
};

[[noreturn]] void die(const std::string& what) {
  fmt::print(stderr, "comm_ranks: {}\n", what);
  std::exit(1);
}

double now() {
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string name = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= count) {
        die(name + " needs a value");
      }
      return words[++i];
    };
    const auto number = [&] {
      const auto parsed = parse_int(value());
      if (!parsed) {
        die(name + ": " + parsed.error().message);
      }
      return *parsed;
    };
    if (name == "--ranks") {
      arguments.ranks = static_cast<std::int32_t>(number());
    } else if (name == "--rank") {
      arguments.rank = static_cast<std::int32_t>(number());
    } else if (name == "--port") {
      arguments.port = static_cast<std::uint16_t>(number());
    } else if (name == "--kind") {
      arguments.kind = value();
    } else if (name == "--bytes") {
      arguments.bytes = static_cast<std::size_t>(number());
    } else if (name == "--repeats") {
      arguments.repeats = static_cast<std::size_t>(number());
    } else if (name == "--runs") {
      arguments.runs = static_cast<std::size_t>(number());
    } else if (name == "--registered") {
      arguments.registered = true;
    } else if (name == "--unbound") {
      arguments.unbound = true;
    } else if (name == "--in-place") {
      arguments.in_place = true;
    } else if (name == "--store") {
      arguments.store = value();
    } else if (name == "--setup") {
      arguments.setup = true;
    } else if (name == "--transports") {
      arguments.transports = value();
    } else if (name == "--began") {
      arguments.began = std::stod(value());
    } else {
      die("no such argument: " + name);
    }
  }
  return arguments;
}

OpKind kind_of(const std::string& name) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                            OpKind::kAllToAll, OpKind::kBroadcast}) {
    if (name == comm::name_of(kind)) {
      return kind;
    }
  }
  die("no such kind: " + name);
}

// Element i of rank r's input: small whole numbers, so that sums are exact.
float input_at(std::size_t i, std::int32_t rank) {
  return static_cast<float>(i % 13) + static_cast<float>(rank);
}

// One rank's buffers and what must come out of them. `bytes` is the whole buffer: what all ranks
// hold together of all-gather and reduce-scatter, what one rank sends of all-to-all.
class Case {
 public:
  Case(const Arguments& arguments, Communicator& communicator)
      : kind_(kind_of(arguments.kind)), rank_(communicator.rank()), size_(communicator.size()) {
    const auto ranks = static_cast<std::size_t>(size_);
    whole_ = arguments.bytes / sizeof(float) / ranks * ranks;
    const std::size_t part = whole_ / ranks;
    const std::size_t in = kind_ == OpKind::kAllGather ? part : whole_;
    const std::size_t out = kind_ == OpKind::kReduceScatter ? part : whole_;
    in_place_ = arguments.in_place;
    output_ = acquire(arguments, communicator, out);
    input_ = in_place_ ? output_ : acquire(arguments, communicator, in);
    is_broadcast_ = kind_ == OpKind::kBroadcast;
    for (std::size_t i = 1; i < arguments.repeats && in_place_; ++i) {
      growth_ *= static_cast<float>(size_);
    }
    std::ranges::fill(output_, -1.0F);
    prepare();
  }

  // Before each run.
  void prepare() {
    for (std::size_t i = 0; i < input_.size(); ++i) {
      input_[i] = input_at(i, rank_);
    }
  }

  Operation operation() {
    Operation operation;
    operation.kind = kind_;
    if (kind_ == OpKind::kAllReduce || kind_ == OpKind::kReduceScatter) {
      operation.reduce = comm::ReduceOp::kSum;
    }
    operation.output = std::as_writable_bytes(output_);
    operation.input = std::as_bytes(std::span<const float>(input_));
    if (is_broadcast_) {
      operation.root = 0;
      if (rank_ == 0) {
        std::ranges::copy(input_, output_.begin());
      }
    }
    if (is_broadcast_ || in_place_) {
      operation.input = {};
    }
    return operation;
  }

  void verify() {
    for (std::size_t i = 0; i < output_.size(); ++i) {
      if (output_[i] != expected(i)) {
        die(fmt::format("rank {} has {} instead of {} at {}", rank_, output_[i], expected(i), i));
      }
    }
    if (!is_broadcast_ || rank_ != 0) {
      std::ranges::fill(output_, -1.0F);
    }
  }

 private:
  std::span<float> acquire(const Arguments& arguments, Communicator& communicator,
                           std::size_t count) {
    if (arguments.registered) {
      auto memory = communicator.allocate(std::max<std::size_t>(count, 1) * sizeof(float));
      if (!memory) {
        die(memory.error().message);
      }
      shared_.push_back(*memory);
      return {reinterpret_cast<float*>(memory->get()), count};
    }
    private_.emplace_back(count);
    return private_.back();
  }

  float expected(std::size_t i) const {
    const auto ranks = static_cast<std::size_t>(size_);
    const std::size_t part = whole_ / ranks;
    const auto sum = [&](std::size_t at) {
      return static_cast<float>(size_) * input_at(at, 0) +
             static_cast<float>(size_ * (size_ - 1)) / 2.0F;
    };
    switch (kind_) {
      case OpKind::kAllReduce:
        return sum(i) * growth_;
      case OpKind::kReduceScatter:
        return sum(static_cast<std::size_t>(rank_) * part + i);
      case OpKind::kAllGather:
        return input_at(i % part, static_cast<std::int32_t>(i / part));
      case OpKind::kAllToAll:
        return input_at(static_cast<std::size_t>(rank_) * part + i % part,
                        static_cast<std::int32_t>(i / part));
      default:
        return input_at(i, 0);
    }
  }

  OpKind kind_;
  std::int32_t rank_;
  std::int32_t size_;
  std::size_t whole_ = 0;
  bool is_broadcast_ = false;
  bool in_place_ = false;
  float growth_ = 1;
  std::vector<std::shared_ptr<std::byte[]>> shared_;
  std::vector<std::vector<float>> private_ = reserved();
  std::span<float> input_;
  std::span<float> output_;

  static std::vector<std::vector<float>> reserved() {
    std::vector<std::vector<float>> buffers;
    buffers.reserve(2);  // spans refer into them
    return buffers;
  }
};

void must(const Result<void>& done) {
  if (!done) {
    die(done.error().message);
  }
}

void bind(std::int32_t rank, std::int32_t ranks) {
  const auto cores = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  if (ranks <= cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(rank), &set);
    ::sched_setaffinity(0, sizeof(set), &set);
  }
}

int run_rank(const Arguments& arguments) {
  if (!arguments.unbound) {
    bind(arguments.rank, arguments.ranks);
  }
  comm::Endpoint meeting{"127.0.0.1", arguments.port};
  std::unique_ptr<comm::StoreServer> server;
  if (!arguments.store.empty()) {
    const auto given = comm::parse_endpoint(arguments.store);
    if (!given) {
      die(given.error().message);
    }
    meeting = *given;
    if (arguments.rank == 0) {
      auto listening = comm::StoreServer::listen({"", meeting.port});
      if (!listening) {
        die(listening.error().message);
      }
      server = std::move(*listening);
    }
  }
  auto store = comm::StoreClient::connect(meeting, std::chrono::seconds(20));
  if (!store) {
    die(store.error().message);
  }
  comm::CommunicatorOptions options;
  options.rank = arguments.rank;
  options.size = arguments.ranks;
  if (!arguments.transports.empty()) {
    options.transports = {arguments.transports};
  }
  auto created = Communicator::create(options, **store);
  if (!created) {
    die(created.error().message);
  }
  Communicator& communicator = **created;
  const Operation barrier;
  std::vector<double> seconds;
  if (arguments.setup) {
    must(communicator.run(barrier));
    seconds.push_back(now() - arguments.began);
  } else {
    Case one(arguments, communicator);
    const Operation operation = one.operation();
    for (std::size_t run = 0; run <= arguments.runs; ++run) {  // the first one warms up
      one.prepare();
      must(communicator.run(barrier));
      const double start = now();
      for (std::size_t i = 0; i < arguments.repeats; ++i) {
        must(communicator.run(operation));
      }
      const double took = (now() - start) / static_cast<double>(arguments.repeats);
      one.verify();
      if (run > 0) {
        seconds.push_back(took);
      }
    }
    must(communicator.run(barrier));
  }
  if (arguments.rank == 0) {
    fmt::print("{{\"seconds\": [{}]}}\n", fmt::join(seconds, ", "));
  }
  return 0;
}

int run_all(const Arguments& arguments, int count, char** words) {
  const double began = now();
  auto server = comm::StoreServer::listen({"127.0.0.1", 0});
  if (!server) {
    die(server.error().message);
  }
  std::vector<Child> children;
  for (std::int32_t rank = 0; rank < arguments.ranks; ++rank) {
    SpawnOptions options{.argv = {words, words + count}, .inherit_env = true};
    options.argv[0] = "/proc/self/exe";
    for (const std::string& word : {std::string("--rank"), std::to_string(rank),
                                    std::string("--port"), std::to_string((*server)->port()),
                                    std::string("--began"), fmt::format("{:.9f}", began)}) {
      options.argv.push_back(word);
    }
    options.fds = {{1, 1}, {2, 2}};
    auto child = spawn(options);
    if (!child) {
      die(child.error().message);
    }
    children.push_back(std::move(*child));
  }
  bool is_fine = true;
  for (Child& child : children) {
    const auto status = child.wait();
    is_fine = is_fine && status && status->ok();
  }
  return is_fine ? 0 : 1;
}

}  // namespace
}  // namespace trainyard

int main(int count, char** words) {
  const trainyard::Arguments arguments = trainyard::parse(count, words);
  return arguments.rank < 0 ? trainyard::run_all(arguments, count, words)
                            : trainyard::run_rank(arguments);
}
