// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/opener.h"

#include <utility>

#include <fmt/format.h>

#include "base/thread.h"

namespace trainyard::comm {
namespace {

Result<std::vector<PrivateFd>> open_all(const DataAddress& address, Greeting greeting,
                                        const std::stop_token& stop) {
  std::vector<PrivateFd> connections;
  for (greeting.index = 0; greeting.index < greeting.count; ++greeting.index) {
    YARD_TRY(PrivateFd fd, open_data_connection(address.addresses, address.port, greeting, stop));
    connections.push_back(std::move(fd));
  }
  return connections;
}

}  // namespace

Opener::~Opener() {
  for (auto& [rank, thread] : threads_) {
    thread.request_stop();
  }
}

void Opener::open(const DataAddress& address, const Greeting& greeting) {
  threads_[greeting.to] = start_thread(
      fmt::format("comm-open-{}", greeting.to),
      [this, address, greeting](const std::stop_token& stop) {
        Opened opened{.rank = greeting.to, .connections = open_all(address, greeting, stop)};
        {
          const MutexLock lock(mutex_);
          opened_.push_back(std::move(opened));
        }
        told_();
      });
}

std::vector<Opener::Opened> Opener::take() {
  std::vector<Opened> taken;
  {
    const MutexLock lock(mutex_);
    taken.swap(opened_);
  }
  for (const Opened& one : taken) {
    threads_.erase(one.rank);
  }
  return taken;
}

}  // namespace trainyard::comm
