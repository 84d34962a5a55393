// SPDX-License-Identifier: Apache-2.0
// Which blocks of the loopback (loopback_plan.h) are free. A block is taken while any program of
// the machine listens on one of its ports: the server's own listener on the gateway, above all,
// keeps servers of all users apart. Whoever finds a block free must therefore listen there at once,
// and look for another one where that fails.
#pragma once

#include <functional>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "sandbox/loopback_plan.h"

namespace trainyard::sandbox {

// Whether some program listens on one of these ports, at whatever address.
bool any_in_use(const PortRange& ports);

// The blocks of one server. Thread-safe.
class LoopbackBlocks {
 public:
  using InUse = std::function<bool(const PortRange&)>;
  explicit LoopbackBlocks(InUse in_use = any_in_use) : in_use_(std::move(in_use)) {}

  // The first block from `start` on, round and round, that neither this server nor any program
  // uses; it counts as used from then on. kExhausted when there is none.
  Result<Ipv4Prefix> take(int start);
  // One that a server before us has left to us; other subnets are none of ours.
  void adopt(const Ipv4Prefix& subnet);
  void give_back(const Ipv4Prefix& subnet);

 private:
  const InUse in_use_;
  Mutex mutex_;
  std::set<int> used_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::sandbox
