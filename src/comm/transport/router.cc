// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/router.h"

#include <algorithm>
#include <cstring>

namespace trainyard::comm {
namespace {

using std::chrono::microseconds;

// One thread cannot sleep for both kinds of news at once; it looks at each in turn, so often.
constexpr microseconds kTurn{100};

}  // namespace

Router::Router(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far,
               std::vector<bool> is_near)
    : near_(std::move(near)), far_(std::move(far)), is_near_(std::move(is_near)) {}

std::size_t Router::max_message() const {
  return std::min(near_->max_message(), far_->max_message());
}

std::size_t Router::room() const {
  return std::min(near_->room(), far_->room());
}

void Router::split(std::span<const std::int32_t> peers) const {
  near_peers_.clear();
  far_peers_.clear();
  for (const std::int32_t peer : peers) {
    (is_near(peer) ? near_peers_ : far_peers_).push_back(peer);
  }
}

std::span<std::byte> Router::try_reserve(std::span<const std::int32_t> peers, std::size_t bytes) {
  split(peers);
  near_reserved_ = {};
  far_reserved_ = {};
  if (!near_peers_.empty()) {
    near_reserved_ = near_->try_reserve(near_peers_, bytes);
  }
  if (!far_peers_.empty() && (near_peers_.empty() || near_reserved_.data() != nullptr)) {
    far_reserved_ = far_->try_reserve(far_peers_, bytes);
  }
  const bool has_near = near_peers_.empty() || near_reserved_.data() != nullptr;
  const bool has_far = far_peers_.empty() || far_reserved_.data() != nullptr;
  waits_near_ = waits_near_ || !has_near;
  waits_far_ = waits_far_ || !has_far;
  if (!has_near || !has_far) {
    return {};
  }
  return near_peers_.empty() ? far_reserved_ : near_reserved_;
}

// What was reserved, to both kinds of peers.
void Router::publish_by(Publish how, std::span<const std::int32_t> peers, const Label& label) {
  split(peers);
  if (!near_peers_.empty() && !far_peers_.empty() && !near_reserved_.empty()) {
    std::memcpy(far_reserved_.data(), near_reserved_.data(), near_reserved_.size());
  }
  if (!far_peers_.empty()) {
    (*far_.*how)(far_peers_, label);
  }
  if (!near_peers_.empty()) {
    (*near_.*how)(near_peers_, label);
  }
}

void Router::publish(std::span<const std::int32_t> peers, const Label& label) {
  publish_by(&Transport::publish, peers, label);
}

void Router::publish_unneeded(std::span<const std::int32_t> peers, const Label& label) {
  publish_by(&Transport::publish_unneeded, peers, label);
}

bool Router::can_send_in_place(std::span<const std::int32_t> peers,
                               std::span<const std::byte> bytes) const {
  split(peers);
  return (near_peers_.empty() || near_->can_send_in_place(near_peers_, bytes)) &&
         (far_peers_.empty() || far_->can_send_in_place(far_peers_, bytes));
}

bool Router::try_send_in_place(std::span<const std::int32_t> peers, const Label& label,
                               std::span<const std::byte> bytes, Ticket* ticket) {
  split(peers);
  InPlace one{.ticket = last_ticket_ + 1, .near = 0, .far = 0};
  // The far one never refuses, so the near one, which may, comes first.
  if (!near_peers_.empty() && !near_->try_send_in_place(near_peers_, label, bytes, &one.near)) {
    waits_near_ = true;
    return false;
  }
  if (!far_peers_.empty()) {
    static_cast<void>(far_->try_send_in_place(far_peers_, label, bytes, &one.far));
  }
  *ticket = ++last_ticket_;
  in_place_.push_back(one);
  return true;
}

bool Router::is_sent(Ticket ticket) {
  const auto found = std::ranges::find(in_place_, ticket, &InPlace::ticket);
  if (found == in_place_.end()) {
    return true;
  }
  if (found->near != 0 && near_->is_sent(found->near)) {
    found->near = 0;
  }
  if (found->far != 0 && far_->is_sent(found->far)) {
    found->far = 0;
  }
  waits_near_ = waits_near_ || found->near != 0;
  waits_far_ = waits_far_ || found->far != 0;
  if (found->near != 0 || found->far != 0) {
    return false;
  }
  in_place_.erase(found);
  return true;
}

const Inbound* Router::noted(std::int32_t peer, const Inbound* inbound) {
  if (inbound == nullptr) {
    (is_near(peer) ? waits_near_ : waits_far_) = true;
  }
  return inbound;
}

const Inbound* Router::try_receive(std::int32_t peer, std::span<std::byte> into) {
  return noted(peer, of(peer).try_receive(peer, into));
}

const Inbound* Router::try_receive_unneeded(std::int32_t peer) {
  return noted(peer, of(peer).try_receive_unneeded(peer));
}

void Router::release(std::int32_t peer) {
  of(peer).release(peer);
}

void Router::wait(Patience patience, microseconds limit) {
  const bool is_far_idle = far_->flush();
  const bool needs_far = waits_far_ || !is_far_idle;
  if (needs_far && waits_near_) {
    far_->wait(patience, microseconds(0));
    near_->wait(patience, std::min(limit, kTurn));
  } else if (needs_far) {
    far_->wait(patience, waits_far_ ? limit : std::min(limit, kTurn));
  } else {
    near_->wait(patience, limit);
  }
  waits_near_ = false;
  waits_far_ = false;
}

void Router::wake() {
  near_->wake();
  far_->wake();
}

bool Router::flush() {
  const bool is_near_idle = near_->flush();
  return far_->flush() && is_near_idle;
}

}  // namespace trainyard::comm
