// SPDX-License-Identifier: Apache-2.0
// How ranks find each other: a small key-value store that all can reach, seen through one
// interface. Implementations: PyTorch's store (python/), our own server (store_server.h), memory
// (tests, threads of one process).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace trainyard::comm {

class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual Result<void> set(const std::string& key, const std::string& value) = 0;
  // The values of all keys, in order, once all are there. kDeadline when the time is over:
  // `missing` of the error's message are found by the caller with has().
  virtual Result<std::vector<std::string>> wait_for(const std::vector<std::string>& keys,
                                                    std::chrono::milliseconds time) = 0;
  virtual Result<bool> has(const std::string& key) = 0;
};

}  // namespace trainyard::comm
