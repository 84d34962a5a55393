// SPDX-License-Identifier: Apache-2.0
// Messages between ranks over libfabric. A payload is combined straight out of a buffer that came
// and straight into one that goes (pool.h): memory of the user's is neither lent to a provider nor
// written by it, so that nothing of it is in use once an operation has failed. Each receiver grants
// each sender a window of messages, and opens it again as it releases them; beyond that they wait
// at the sender. What is granted may lie at the receiver before it is asked for.
//
// A peer that cannot be reached is a fault, as broken_peers.h says. A dead one may show in nothing
// else than silence: the watchdog and the time-out of the operation end that.
//
// Who leaves says goodbye to all with whom it spoke, and stays, up to 5 s, until they have answered
// with theirs, which they do as soon as they look: a provider's socket that closes while something
// still comes may drop what it has not delivered. After its goodbye nobody sends a credit. Nothing
// tells sooner that they have it all: progress is made by who looks (FI_PROGRESS_MANUAL), so a peer
// that computes answers at no level, FI_DELIVERY_COMPLETE included, and what its kernel has
// acknowledged is lost all the same when a socket closes over bytes that nobody has read. A thread
// on every rank that looks now and then would end the wait; it would take cores from all, all the
// time, for the sake of one that leaves long before the others.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "comm/health/fault.h"
#include "comm/transport/broken_peers.h"
#include "comm/transport/fabric/endpoint.h"
#include "comm/transport/fabric/pool.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

struct FabricOptions {
  std::int32_t rank = 0;
  std::string secret;              // of this world
  std::vector<std::string> names;  // by rank, for errors: "rank 3 (pid 12 on algo-2)"
};

class FabricTransport final : public Transport {
 public:
  // `endpoint` knows all peers; `fault` outlives it.
  FabricTransport(FabricOptions options, std::unique_ptr<FabricEndpoint> endpoint, Fault& fault);
  ~FabricTransport() override;

  std::size_t max_message() const override { return max_message_; }
  std::size_t room() const override { return kBuffers * (max_message_ + kMessageCost); }
  std::span<std::byte> try_reserve(std::span<const std::int32_t> peers, std::size_t bytes) override;
  void publish(std::span<const std::int32_t> peers, const Label& label) override {
    queue_reserved(peers, label, true);
  }
  void publish_unneeded(std::span<const std::int32_t> peers, const Label& label) override {
    queue_reserved(peers, label, false);
  }
  bool can_send_in_place(std::span<const std::int32_t>, std::span<const std::byte>) const override {
    return false;
  }
  bool try_send_in_place(std::span<const std::int32_t>, const Label&, std::span<const std::byte>,
                         Ticket*) override {
    return false;
  }
  bool is_sent(Ticket) override { return true; }
  const Inbound* try_receive(std::int32_t peer, std::span<std::byte> into) override;
  const Inbound* try_receive_unneeded(std::int32_t peer) override;
  void release(std::int32_t peer) override;
  void wait(Patience patience, std::chrono::microseconds limit) override;
  void wake() override;
  bool flush() override;
  Window window_of(std::span<const std::byte>) const override { return {}; }
  std::byte* map(std::int32_t, Window) override { return nullptr; }
  bool prefers_non_temporal(std::size_t) const override { return false; }

  // Of each peer, that wait at the provider at once: two messages, a credit, a goodbye.
  static constexpr std::size_t kStandingReceives = 4;

  // All ranks know each other's endpoints.
  void forget_names() { endpoint_->forget_names(); }

 private:
  static constexpr std::size_t kBuffers = 64;  // of the longest messages
  enum class Use : std::uint8_t {
    kSend,
    kReceive,
    kCreditSend,
    kCreditReceive,
    kGoodbyeSend,
    kGoodbyeReceive
  };

  struct Request : FabricRequest {  // so that a completion leads back to it
    Use use = Use::kSend;
    std::int32_t peer = 0;
    bool is_needed = true;  // of a message that goes
    bool is_complete = false;
    std::size_t bytes = 0;  // header and payload, of a receive
    BufferPool::Lease buffer;
  };
  struct Outgoing {
    BufferPool::Lease buffer;
    std::size_t payload = 0;
    bool is_needed = true;
  };
  struct Peer {
    // What waits for room in the peer's window, or for the provider.
    std::deque<Outgoing> queue;
    std::uint64_t sent = 0;
    std::uint64_t granted = 0;
    std::uint64_t grants = 0;  // credits that came
    bool waits_for_credit = false;
    std::size_t under_way = 0;  // messages that the provider has

    std::deque<Request*> in;  // receives, in the order of their messages
    std::uint64_t posted = 0;
    std::uint64_t released = 0;  // since the last credit
    std::uint64_t owed = 0;      // credits that the provider has not taken yet
    std::uint64_t credits = 0;   // that it has
    Inbound inbound;
    bool has_inbound = false;

    bool has_spoken = false;  // something came from it
    bool awaits_goodbye = false;
    bool has_left = false;     // it said goodbye, or cannot be told ours
    bool has_goodbye = false;  // ours was given to the provider
    bool goodbye_is_under_way = false;

    bool takes_nothing = false;  // a message to it was lost: those after it have no place
    bool has_lost = false;       // one that was needed
  };

  Peer& peer_of(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Request* make_request(Use use, std::int32_t rank, BufferPool::Lease buffer = nullptr);
  void end(Request* request);
  void queue_reserved(std::span<const std::int32_t> peers, const Label& label, bool is_needed);
  void pump(std::int32_t rank);
  void lose(std::int32_t rank, bool is_needed, const std::string& why);
  static void drop_unneeded(Peer& peer);
  void pump_all();
  void send_credits(std::int32_t rank);
  void await_credit(std::int32_t rank);
  void post_receives(std::int32_t rank);
  void await_goodbye(std::int32_t rank);
  void say_goodbye(std::int32_t rank);
  bool part();
  bool look(std::int32_t rank);
  bool progress();
  void complete(const Completion& completion);
  void raise_broken();
  void raise(Error error);

  FabricOptions options_;
  Fault& fault_;
  std::unique_ptr<FabricEndpoint> endpoint_;
  std::size_t max_message_;
  std::uint64_t world_;
  std::uint64_t step_;  // messages to a credit
  BufferPool outgoing_;
  BufferPool incoming_;
  std::deque<Request> requests_;
  std::vector<Request*> free_requests_;
  BufferPool::Lease reserved_;
  std::size_t reserved_bytes_ = 0;
  std::vector<Peer> peers_;
  BrokenPeers broken_;
  std::vector<Completion> completions_;
  std::vector<std::int32_t> needed_;  // asked for a message in vain since the last wait()
  Fd news_;                           // wake()
  bool is_ending_ = false;
  bool has_failed_ = false;
};

}  // namespace trainyard::comm
