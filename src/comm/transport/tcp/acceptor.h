// SPDX-License-Identifier: Apache-2.0
// Takes the data connections of a communicator: one thread accepts them, checks their greeting (the
// secret of the world, who it is, for which transport) and answers it, so that a rank that connects
// waits for nobody's computation, and knows that it has reached the right process. One byte from it
// says that it has seen the answer, and has not given up: then transports may fetch what came for
// them. Strangers wait at a doorstep (rendezvous/doorstep.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/rendezvous/forks.h"
#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {

struct Greeting {
  std::string secret;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::uint32_t channel = 0;  // of the transport: a communicator has several
  std::uint32_t index = 0;    // of the connection, of the `count` from the same rank
  std::uint32_t count = 1;

  bool operator==(const Greeting&) const = default;
};

struct Arrival {
  Greeting greeting;
  PrivateFd fd;
};

class Acceptor {
 public:
  // `own` is what greetings must name: secret and this rank as `to`.
  Acceptor(TcpListener listener, std::string secret, std::int32_t rank);
  ~Acceptor();

  std::uint16_t port() const;
  // Called on the acceptor's thread after each arrival for the channel, until it is replaced by an
  // empty one; not after that. Must not block, nor call the acceptor.
  void on_arrival(std::uint32_t channel, std::function<void()> told);
  std::vector<Arrival> take(std::uint32_t channel);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The other side: tries the addresses in order until one answers as rank `greeting.to`. A process
// that takes connections but does not answer is stopped, or busy with others: it is asked again,
// until `stop`; a host that is out of reach for kSilence, as after a cut. kUnavailable lists what
// was tried.
Result<PrivateFd> open_data_connection(const std::vector<std::string>& addresses,
                                       std::uint16_t port, const Greeting& greeting,
                                       const std::stop_token& stop);

}  // namespace trainyard::comm
