// SPDX-License-Identifier: Apache-2.0
// Opens the data connections to other ranks, to each on a thread that ends when they are open, so
// that an operation never waits for one without looking at its deadline and at the fault: a rank
// that is stopped takes connections, but does not answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/rendezvous/join.h"
#include "comm/transport/tcp/acceptor.h"

namespace trainyard::comm {

class Opener {
 public:
  struct Opened {
    std::int32_t rank = 0;
    Result<std::vector<PrivateFd>> connections;
  };

  // `told` is called whenever take() has something to give, on the threads that open.
  explicit Opener(std::function<void()> told) : told_(std::move(told)) {}
  ~Opener();  // gives up what is not open

  // As many connections as the greeting counts, to its rank, which is asked for once only.
  void open(const DataAddress& address, const Greeting& greeting);
  std::vector<Opened> take();

 private:
  std::function<void()> told_;
  Mutex mutex_;
  std::vector<Opened> opened_ GUARDED_BY(mutex_);
  std::map<std::int32_t, std::jthread> threads_;  // by rank; of the caller's thread
};

}  // namespace trainyard::comm
