// SPDX-License-Identifier: Apache-2.0
// Any transport, with delays on top: messages show some time after they came, there is no room for
// a while, and that something was sent is not known at once. What a slow network, a busy peer and a
// rank that is not scheduled look like to the one who waits.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "comm/transport/transport.h"

namespace trainyard::testing {

class LateTransport final : public comm::Transport {
 public:
  LateTransport(std::unique_ptr<comm::Transport> inner, std::uint64_t seed)
      : inner_(std::move(inner)), random_(seed) {}

  std::size_t max_message() const override { return inner_->max_message(); }
  std::size_t room() const override { return inner_->room(); }

  std::span<std::byte> try_reserve(std::span<const std::int32_t> peers,
                                   std::size_t bytes) override {
    return is_refused() ? std::span<std::byte>() : inner_->try_reserve(peers, bytes);
  }
  void publish(std::span<const std::int32_t> peers, const comm::Label& label) override {
    inner_->publish(peers, label);
  }
  void publish_unneeded(std::span<const std::int32_t> peers, const comm::Label& label) override {
    inner_->publish_unneeded(peers, label);
  }
  bool can_send_in_place(std::span<const std::int32_t> peers,
                         std::span<const std::byte> bytes) const override {
    return inner_->can_send_in_place(peers, bytes);
  }
  bool try_send_in_place(std::span<const std::int32_t> peers, const comm::Label& label,
                         std::span<const std::byte> bytes, comm::Ticket* ticket) override {
    return !is_refused() && inner_->try_send_in_place(peers, label, bytes, ticket);
  }
  bool is_sent(comm::Ticket ticket) override { return !is_refused() && inner_->is_sent(ticket); }

  // The next message of a peer, come or not, shows from a time on that is drawn when the one before
  // was released.
  const comm::Inbound* try_receive(std::int32_t peer, std::span<std::byte> into) override {
    return is_late(peer) ? nullptr : inner_->try_receive(peer, into);
  }
  const comm::Inbound* try_receive_unneeded(std::int32_t peer) override {
    return is_late(peer) ? nullptr : inner_->try_receive_unneeded(peer);
  }
  void release(std::int32_t peer) override {
    inner_->release(peer);
    shows_at_[peer] = Clock::now() + delay();
  }

  // Nobody wakes one who waits for what is only held back here.
  void wait(comm::Patience patience, std::chrono::microseconds limit) override {
    inner_->wait(patience, is_held_back_ ? std::min(limit, kTurn) : limit);
    is_held_back_ = false;
  }
  void wake() override { inner_->wake(); }
  bool flush() override { return inner_->flush(); }
  comm::Window window_of(std::span<const std::byte> bytes) const override {
    return inner_->window_of(bytes);
  }
  std::byte* map(std::int32_t peer, comm::Window window) override {
    return inner_->map(peer, window);
  }
  void unmap() override { inner_->unmap(); }
  bool reaches_all_memory() override { return inner_->reaches_all_memory(); }
  bool is_readable(std::span<const std::byte> bytes) override { return inner_->is_readable(bytes); }
  void give_up() override { inner_->give_up(); }
  bool has_given_up(std::int32_t peer) override { return inner_->has_given_up(peer); }
  Result<void> fetch(std::int32_t peer, std::uint64_t address, std::span<std::byte> into) override {
    return inner_->fetch(peer, address, into);
  }
  bool prefers_non_temporal(std::size_t bytes) const override {
    return inner_->prefers_non_temporal(bytes);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kTurn{20};

  // Mostly none; now and then long enough for others to be several operations ahead.
  std::chrono::microseconds delay() {
    const std::uint64_t drawn = random_() % 128;
    const std::uint64_t most = drawn == 0 ? 2000 : drawn < 16 ? 100 : 1;
    return std::chrono::microseconds(random_() % most);
  }
  bool is_late(std::int32_t peer) {
    const bool is_late = Clock::now() < shows_at_[peer];
    is_held_back_ = is_held_back_ || is_late;
    return is_late;
  }
  bool is_refused() {
    const bool is_refused = random_() % 16 == 0;
    is_held_back_ = is_held_back_ || is_refused;
    return is_refused;
  }

  std::unique_ptr<comm::Transport> inner_;
  std::mt19937_64 random_;
  std::map<std::int32_t, Clock::time_point> shows_at_;  // by peer
  bool is_held_back_ = false;                           // since the last wait()
};

}  // namespace trainyard::testing
