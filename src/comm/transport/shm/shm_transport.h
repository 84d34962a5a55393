// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of one host through a segment of shared memory. A message is written
// once, into the sender's pool, and read in place by all its receivers, each of which gets a line
// in its channel that says where; up to 24 bytes travel in that line; bytes of a heap are not
// copied at all. Nothing is locked and nothing is waited for; the system is called only to sleep,
// and to wake one who sleeps.
//
// channel.h and doorbell.h have the memory-order arguments; everything here belongs to the one
// thread that uses the transport, but for wake() and give_up().
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/health/fault.h"
#include "comm/transport/shm/channel.h"
#include "comm/transport/shm/heap.h"
#include "comm/transport/shm/lane.h"
#include "comm/transport/shm/latency.h"
#include "comm/transport/shm/peer_memory.h"
#include "comm/transport/shm/segment.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

struct ShmOptions {
  std::uint32_t index = 0;  // of this rank in the segment
  // The communicator's ranks of this host, by their index in the segment; peers are named by them.
  std::vector<std::int32_t> ranks;
  // Other communicators' ranks share the cores, too: yield at once. Otherwise it is found out from
  // the processors that the ranks may run on.
  bool shares_cores = false;
};

class ShmTransport final : public Transport {
 public:
  // `fault` and `heaps` outlive it. All ranks of the host create theirs before any of them sends.
  // A segment has one transport of each rank in its life. kInvalidArgument when the options do not
  // fit the segment.
  static Result<std::unique_ptr<ShmTransport>> create(std::shared_ptr<const Segment> segment,
                                                      ShmOptions options, Fault& fault,
                                                      HeapRegistry& heaps);

  // Measures the latency between the first two ranks of the host, if they have a core each now: all
  // ranks call it, once all have been created. At most for `limit`; without it the first operations
  // do.
  void calibrate(std::chrono::microseconds limit);
  // The last measured one, 0 when there is none. For benches.
  std::chrono::nanoseconds one_way_latency() const { return probe_.one_way(); }

  std::size_t max_message() const override { return segment_->shape().max_message; }
  std::size_t room() const override;
  std::span<std::byte> try_reserve(std::span<const std::int32_t> peers, std::size_t bytes) override;
  void publish(std::span<const std::int32_t> peers, const Label& label) override;
  bool can_send_in_place(std::span<const std::int32_t> peers,
                         std::span<const std::byte> bytes) const override;
  bool try_send_in_place(std::span<const std::int32_t> peers, const Label& label,
                         std::span<const std::byte> bytes, Ticket* ticket) override;
  bool is_sent(Ticket ticket) override;
  const Inbound* try_receive(std::int32_t peer, std::span<std::byte> into) override;
  void release(std::int32_t peer) override;
  void wait(Patience patience, std::chrono::microseconds limit) override;
  void wake() override;
  bool flush() override { return true; }
  Window window_of(std::span<const std::byte> bytes) const override;
  std::byte* map(std::int32_t peer, Window window) override;
  void unmap() override { lent_.clear(); }
  bool reaches_all_memory() override;
  bool is_readable(std::span<const std::byte> bytes) override { return is_own_readable(bytes); }
  Result<void> fetch(std::int32_t peer, std::uint64_t address, std::span<std::byte> into) override;
  void give_up() override;
  bool has_given_up(std::int32_t peer) override;
  bool prefers_non_temporal(std::size_t bytes) const override;

 private:
  struct Peer {
    ChannelSender out;
    ChannelReceiver in;
    Doorbell* bell;
    std::span<std::byte> pool;
    Inbound inbound = {};
    std::shared_ptr<std::byte> held = {};  // the payload in a heap, until it is released
    bool is_watched = false;               // asked for a message in vain since the last wait()
  };
  struct Reserved {
    Place place = Place::kEntry;
    std::uint64_t at = 0;  // in the pool
    std::size_t bytes = 0;
    Lane* lane = nullptr;
  };

  ShmTransport(std::shared_ptr<const Segment> segment, ShmOptions options, Fault& fault,
               HeapRegistry& heaps);

  // The peer of that rank, which must be one of this host's others.
  std::uint32_t index_of(std::int32_t rank) const;
  Peer& peer_of(std::int32_t rank) { return peers_[index_of(rank)]; }
  bool have_room(std::span<const std::int32_t> peers);
  std::optional<Reserved> find_place(std::size_t bytes);
  void post(std::span<const std::int32_t> peers, const Label& label, const Reserved& what,
            Window window, Pending* pending);
  bool is_consumed(Mark mark) { return peers_[mark.peer].out.is_consumed(mark.number); }
  void watch(std::uint32_t index);
  // The payload, or an empty data() when it cannot be had yet, or never (the fault is then raised).
  std::span<const std::byte> payload_of(Peer& peer, std::int32_t rank, const Entry& entry);

  bool has_news();
  template <typename Rest>
  bool look_often(int looks, const Rest& rest);
  void look(std::chrono::microseconds limit);
  bool is_crowded(std::chrono::steady_clock::time_point now);
  void sleep(std::chrono::microseconds limit);
  bool shares_cores();
  std::shared_ptr<const Segment> segment_;
  ShmOptions options_;
  Fault& fault_;
  HeapRegistry& heaps_;
  std::vector<Peer> peers_;              // by index; this rank's own is not used
  std::vector<std::uint32_t> index_of_;  // by rank
  std::span<std::byte> pool_;
  Lane small_;
  Lane large_;
  Reserved reserved_;
  alignas(64) std::array<std::byte, Entry::kBodyBytes> small_payload_ = {};
  Pending in_place_;
  std::vector<std::shared_ptr<std::byte>> lent_;  // by map()
  Ticket last_ticket_ = 0;
  std::vector<std::uint32_t> watched_;
  bool wants_room_ = false;  // something was refused for want of room since the last wait()
  std::atomic<bool> is_woken_ = false;
  LatencyProbe probe_;
  OwnMemory memory_;
  std::optional<bool> reaches_all_memory_;
  std::optional<bool> shares_cores_;  // known once all ranks are there
  std::optional<std::chrono::steady_clock::time_point> crowded_until_;
};

}  // namespace trainyard::comm
