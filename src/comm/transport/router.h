// SPDX-License-Identifier: Apache-2.0
// One transport out of two: ranks of this host by the near one, all others by the far one. A
// message for both is written once and copied once.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "comm/transport/transport.h"

namespace trainyard::comm {

class Router final : public Transport {
 public:
  // `is_near[rank]`: by `near`.
  Router(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far,
         std::vector<bool> is_near);

  std::size_t max_message() const override;
  std::size_t room() const override;
  std::span<std::byte> try_reserve(std::span<const std::int32_t> peers, std::size_t bytes) override;
  void publish(std::span<const std::int32_t> peers, const Label& label) override;
  void publish_unneeded(std::span<const std::int32_t> peers, const Label& label) override;
  bool can_send_in_place(std::span<const std::int32_t> peers,
                         std::span<const std::byte> bytes) const override;
  bool try_send_in_place(std::span<const std::int32_t> peers, const Label& label,
                         std::span<const std::byte> bytes, Ticket* ticket) override;
  bool is_sent(Ticket ticket) override;
  const Inbound* try_receive(std::int32_t peer, std::span<std::byte> into) override;
  const Inbound* try_receive_unneeded(std::int32_t peer) override;
  void release(std::int32_t peer) override;
  void wait(Patience patience, std::chrono::microseconds limit) override;
  void wake() override;
  bool flush() override;
  // No window is mapped by all ranks.
  Window window_of(std::span<const std::byte>) const override { return {}; }
  std::byte* map(std::int32_t, Window) override { return nullptr; }
  void give_up() override {
    near_->give_up();
    far_->give_up();
  }
  bool has_given_up(std::int32_t peer) override { return of(peer).has_given_up(peer); }
  bool prefers_non_temporal(std::size_t bytes) const override {
    return near_->prefers_non_temporal(bytes);
  }

 private:
  struct InPlace {
    Ticket ticket = 0;
    Ticket near = 0;  // 0: nothing to wait for
    Ticket far = 0;
  };

  Transport& of(std::int32_t rank) { return is_near(rank) ? *near_ : *far_; }
  bool is_near(std::int32_t rank) const { return is_near_[static_cast<std::size_t>(rank)]; }
  void split(std::span<const std::int32_t> peers) const;
  using Publish = void (Transport::*)(std::span<const std::int32_t>, const Label&);
  void publish_by(Publish how, std::span<const std::int32_t> peers, const Label& label);
  const Inbound* noted(std::int32_t peer, const Inbound* inbound);

  std::unique_ptr<Transport> near_;
  std::unique_ptr<Transport> far_;
  std::vector<bool> is_near_;
  mutable std::vector<std::int32_t> near_peers_;  // of the call that runs
  mutable std::vector<std::int32_t> far_peers_;
  std::span<std::byte> near_reserved_;
  std::span<std::byte> far_reserved_;
  std::deque<InPlace> in_place_;
  Ticket last_ticket_ = 0;
  bool waits_near_ = false;  // asked in vain since the last wait()
  bool waits_far_ = false;
};

}  // namespace trainyard::comm
