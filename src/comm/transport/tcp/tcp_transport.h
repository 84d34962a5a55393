// SPDX-License-Identifier: Apache-2.0
// Messages between ranks over TCP. Connections are opened by the first message to a peer, one way
// each, while it waits; payloads go from the user's memory to the kernel, and from the kernel to
// the user's memory, when the receiver knows where. A connection that breaks is a fault, as
// broken_peers.h says.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/health/fault.h"
#include "comm/rendezvous/join.h"
#include "comm/transport/broken_peers.h"
#include "comm/transport/tcp/acceptor.h"
#include "comm/transport/tcp/inlet.h"
#include "comm/transport/tcp/opener.h"
#include "comm/transport/tcp/outlet.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

struct TcpOptions {
  std::int32_t rank = 0;
  std::uint32_t channel = 0;      // of the acceptor
  std::uint32_t connections = 0;  // to each peer; 0: by the number of cores
  std::size_t max_message = std::size_t{256} << 10;
  std::string secret;
  std::vector<DataAddress> peers;  // by rank, addresses in the order to try
  std::vector<std::string> names;  // by rank, for errors: "rank 3 (pid 12 on algo-2)"
};

class TcpTransport final : public Transport {
 public:
  // `acceptor` and `fault` outlive it.
  TcpTransport(TcpOptions options, Acceptor& acceptor, Fault& fault);
  ~TcpTransport() override;

  std::size_t max_message() const override { return options_.max_message; }
  std::size_t room() const override { return kStagings * (max_message() + kMessageCost); }
  std::span<std::byte> try_reserve(std::span<const std::int32_t> peers, std::size_t bytes) override;
  void publish(std::span<const std::int32_t> peers, const Label& label) override {
    send_reserved(peers, label, true);
  }
  void publish_unneeded(std::span<const std::int32_t> peers, const Label& label) override {
    send_reserved(peers, label, false);
  }
  bool can_send_in_place(std::span<const std::int32_t>, std::span<const std::byte>) const override {
    return true;
  }
  bool try_send_in_place(std::span<const std::int32_t> peers, const Label& label,
                         std::span<const std::byte> bytes, Ticket* ticket) override;
  bool is_sent(Ticket ticket) override;
  const Inbound* try_receive(std::int32_t peer, std::span<std::byte> into) override;
  const Inbound* try_receive_unneeded(std::int32_t peer) override { return look(peer, {}); }
  void release(std::int32_t peer) override;
  void wait(Patience patience, std::chrono::microseconds limit) override;
  void wake() override;
  bool flush() override;
  // Nothing goes out any more, also of what was lent to the kernel: whoever waits for that sees the
  // connection end, and gives others the time to explain it (broken_peers.h).
  void give_up() override;
  Window window_of(std::span<const std::byte>) const override { return {}; }
  std::byte* map(std::int32_t, Window) override { return nullptr; }
  bool prefers_non_temporal(std::size_t) const override { return false; }

 private:
  static constexpr std::size_t kStagings = 64;

  struct Peer {
    Inlet in;
    // Either direction goes on without the other: a peer that has all it needs may leave while what
    // it sent is still unread here, or what was lent to the kernel not yet given back.
    bool has_ended = false;      // nothing more comes from it
    bool takes_nothing = false;  // nothing can be sent to it any more
  };
  // A message in place: done when each peer's outlet has come so far.
  struct InPlace {
    Ticket ticket = 0;
    std::vector<std::pair<std::int32_t, std::uint64_t>> until;
  };

  static std::size_t at(std::int32_t rank) { return static_cast<std::size_t>(rank); }
  Peer& peer_of(std::int32_t rank) { return peers_[at(rank)]; }
  bool has_unsent(std::int32_t rank);
  void connect(std::int32_t rank);
  void send_reserved(std::span<const std::int32_t> peers, const Label& label, bool is_needed);
  void send(std::int32_t rank, const Label& label, std::span<const std::byte> bytes,
            const Staging& staging, bool is_needed);
  void pump(std::int32_t rank);
  void end_sending(std::int32_t rank, const std::string& why);
  const Inbound* look(std::int32_t rank, std::span<std::byte> into);
  void raise_broken();
  void check_unheard();
  void list_outlets(std::vector<pollfd>& entries);
  void take_news();

  TcpOptions options_;
  Acceptor& acceptor_;
  Fault& fault_;
  std::vector<Peer> peers_;
  Mutex sending_;  // with the thread that gives up
  std::vector<std::unique_ptr<Outlet>> outlets_ GUARDED_BY(sending_);  // null before a message
  BrokenPeers broken_;
  std::vector<Staging> stagings_;
  Staging reserved_;
  std::size_t reserved_bytes_ = 0;
  std::deque<InPlace> in_place_;
  Ticket last_ticket_ = 0;
  // Asked for a message in vain since the last wait(): all, and those of them that are needed.
  std::vector<std::int32_t> watched_;
  std::vector<std::int32_t> needed_;
  Fd news_;  // an arrival, an open connection, or wake()
  bool has_news_ = true;
  std::chrono::steady_clock::time_point next_check_;
  std::unique_ptr<Opener> opener_;  // ends first: it tells news_
};

}  // namespace trainyard::comm
