// SPDX-License-Identifier: Apache-2.0
// How ranks find each other: a small key-value store that all of them reach, seen through one
// interface. Implementations: PyTorch's store (python/), our own (store_server.h, store_client.h),
// and memory_store.h for ranks that are threads of one process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace trainyard::comm {

class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;

  // Sets a key that is not set yet. Gives the value that the key has now: another one than `value`
  // when somebody else was first.
  virtual Result<std::string> claim(const std::string& key, const std::string& value) = 0;
  // The values of all keys, in order, once all are set; kDeadline when that takes longer.
  virtual Result<std::vector<std::string>> wait_for(const std::vector<std::string>& keys,
                                                    std::chrono::milliseconds time) = 0;
  virtual Result<bool> has(const std::string& key) = 0;
  // Where it is, for errors: "10.0.0.5:29500".
  virtual std::string where() const = 0;
};

}  // namespace trainyard::comm
