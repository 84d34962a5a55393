// SPDX-License-Identifier: Apache-2.0
#include "sandbox/loopback.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace trainyard::sandbox {
namespace {

// With SO_REUSEADDR the remains of closed connections are no obstacle; a listener is, even one at
// a single address, because we ask for all of them.
bool is_in_use(std::uint16_t port) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;
}

}  // namespace

bool any_in_use(const PortRange& ports) {
  for (int port = ports.first; port <= ports.last; ++port) {
    if (is_in_use(static_cast<std::uint16_t>(port))) {
      return true;
    }
  }
  return false;
}

Result<Ipv4Prefix> LoopbackBlocks::take(int start) {
  for (int i = 0; i < kBlocks; ++i) {
    const int block = (start + i) % kBlocks;
    const Ipv4Prefix subnet = subnet_of_block(block);
    {
      const MutexLock lock(mutex_);
      if (!used_.insert(block).second) {
        continue;
      }
    }
    if (!in_use_(ports_of(subnet))) {
      return subnet;
    }
    give_back(subnet);
  }
  return Error{Code::kExhausted,
               fmt::format("no free range of ports for a job: some program listens in each of the "
                           "{} ranges from {} to {}",
                           kBlocks, ports_of(subnet_of_block(0)).first,
                           ports_of(subnet_of_block(kBlocks - 1)).last)};
}

void LoopbackBlocks::adopt(const Ipv4Prefix& subnet) {
  if (!is_loopback(subnet)) {
    return;
  }
  const MutexLock lock(mutex_);
  used_.insert(block_of(subnet));
}

void LoopbackBlocks::give_back(const Ipv4Prefix& subnet) {
  const MutexLock lock(mutex_);
  used_.erase(block_of(subnet));
}

}  // namespace trainyard::sandbox
