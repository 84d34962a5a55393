// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process, joined by queues under one lock: the transport of tests.
// It refuses what a real one might refuse (no room), sends from where bytes lie or not, and loses
// ranks on demand, so that the executor is tried with all of that.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/transport/transport.h"

namespace trainyard::testing {

struct MemoryOptions {
  std::size_t max_message = std::size_t{32} << 10;
  std::size_t room = 0;         // 0: as little as the contract allows
  bool stays_in_place = false;  // sends refer to the sender's memory until they are released
  bool places = false;          // receives go where the caller wants them
  bool holds_back = false;      // flush() never says that all has left
  std::function<void(std::int32_t)> mapped = [](std::int32_t) {};    // in map() of that rank
  std::function<void(std::int32_t)> unmapped = [](std::int32_t) {};  // in its unmap()
};

class MemoryNetwork {
 public:
  MemoryNetwork(std::int32_t size, MemoryOptions options)
      : size_(size),
        options_(std::move(options)),
        changed_(static_cast<std::size_t>(size)),
        version_(static_cast<std::size_t>(size)),
        channels_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size)),
        under_way_(static_cast<std::size_t>(size)),
        lost_(static_cast<std::size_t>(size)),
        gave_up_(static_cast<std::size_t>(size)) {}

  std::unique_ptr<comm::Transport> endpoint(std::int32_t rank);

  // From now on nothing that `rank` sends arrives.
  void lose(std::int32_t rank) {
    const std::scoped_lock lock(mutex_);
    lost_[static_cast<std::size_t>(rank)] = true;
  }

  // Memory that all ranks map; it stays known until the network ends.
  std::shared_ptr<std::byte[]> allocate(std::size_t bytes) {
    std::shared_ptr<std::byte[]> memory(new std::byte[bytes]());
    const std::scoped_lock lock(mutex_);
    heap_[memory.get()] = {memory, bytes};
    return memory;
  }

 private:
  friend class MemoryTransport;

  struct Message {
    comm::Label label;
    std::vector<std::byte> copied;
    std::span<const std::byte> bytes;
    std::int32_t sender = 0;
    std::size_t readers = 0;
  };
  using Channel = std::deque<std::shared_ptr<Message>>;

  std::atomic<bool>& gave_up(std::int32_t rank) { return gave_up_[static_cast<std::size_t>(rank)]; }
  Channel& channel(std::int32_t from, std::int32_t to) {
    const auto row = static_cast<std::size_t>(from) * static_cast<std::size_t>(size_);
    return channels_[row + static_cast<std::size_t>(to)];
  }

  std::int32_t size_;
  MemoryOptions options_;
  std::mutex mutex_;
  // By rank: something came, or room was made.
  std::vector<std::condition_variable> changed_;
  std::vector<std::uint64_t> version_;
  std::vector<Channel> channels_;
  std::vector<std::size_t> under_way_;
  std::vector<bool> lost_;
  std::vector<std::atomic<bool>> gave_up_;
  std::map<const std::byte*, std::pair<std::shared_ptr<std::byte[]>, std::size_t>> heap_;
};

class MemoryTransport final : public comm::Transport {
 public:
  MemoryTransport(MemoryNetwork& network, std::int32_t rank) : network_(network), rank_(rank) {}
  std::size_t max_message() const override { return network_.options_.max_message; }
  std::size_t room() const override {
    const std::size_t room = network_.options_.room;
    return room != 0 ? room : Transport::room();
  }

  std::span<std::byte> try_reserve(std::span<const std::int32_t> peers,
                                   std::size_t bytes) override {
    YARD_CHECK(bytes <= max_message() && !peers.empty(), "a message that cannot be");
    const std::scoped_lock lock(network_.mutex_);
    if (!has_room(bytes)) {
      return {};
    }
    reserved_.assign(std::max<std::size_t>(bytes, 1), std::byte{0});
    return {reserved_.data(), bytes};
  }

  void publish(std::span<const std::int32_t> peers, const comm::Label& label) override {
    auto message = std::make_shared<MemoryNetwork::Message>();
    message->label = label;
    message->copied = std::move(reserved_);
    message->bytes = {message->copied.data(), last_bytes_};
    post(peers, message);
  }

  bool can_send_in_place(std::span<const std::int32_t>, std::span<const std::byte>) const override {
    return network_.options_.stays_in_place;
  }
  bool try_send_in_place(std::span<const std::int32_t> peers, const comm::Label& label,
                         std::span<const std::byte> bytes, comm::Ticket* ticket) override {
    YARD_CHECK(bytes.size() <= max_message(), "a message that is too long");
    if (const std::scoped_lock lock(network_.mutex_); !has_room(bytes.size())) {
      return false;
    }
    auto message = std::make_shared<MemoryNetwork::Message>();
    message->label = label;
    message->bytes = bytes;
    *ticket = next_ticket_++;
    tickets_[*ticket] = message;
    post(peers, message);
    return true;
  }
  bool is_sent(comm::Ticket ticket) override {
    const std::scoped_lock lock(network_.mutex_);
    const auto found = tickets_.find(ticket);
    if (found != tickets_.end() && found->second->readers != 0) {
      return false;
    }
    tickets_.erase(ticket);
    return true;
  }

  const comm::Inbound* try_receive(std::int32_t peer, std::span<std::byte> into) override {
    const std::scoped_lock lock(network_.mutex_);
    MemoryNetwork::Channel& channel = network_.channel(peer, rank_);
    if (channel.empty()) {
      return nullptr;
    }
    MemoryNetwork::Message& message = *channel.front();
    comm::Inbound& inbound = inbound_[peer];
    inbound = {message.label, message.bytes};
    if (network_.options_.places && !into.empty() && into.size() == message.bytes.size()) {
      std::copy(message.bytes.begin(), message.bytes.end(), into.begin());
      inbound.bytes = into;
    }
    return &inbound;
  }
  void release(std::int32_t peer) override {
    const std::scoped_lock lock(network_.mutex_);
    MemoryNetwork::Channel& channel = network_.channel(peer, rank_);
    MemoryNetwork::Message& message = *channel.front();
    if (--message.readers == 0) {
      network_.under_way_[static_cast<std::size_t>(message.sender)] -=
          message.bytes.size() + kMessageCost;
    }
    change(message.sender);
    channel.pop_front();
  }

  void wait(comm::Patience, std::chrono::microseconds limit) override {
    std::unique_lock lock(network_.mutex_);
    const auto own = static_cast<std::size_t>(rank_);
    network_.changed_[own].wait_for(lock, limit,
                                    [&] { return network_.version_[own] != seen_ || woken_; });
    seen_ = network_.version_[own];
    woken_ = false;
  }
  void wake() override {
    const std::scoped_lock lock(network_.mutex_);
    woken_ = true;
    network_.changed_[static_cast<std::size_t>(rank_)].notify_all();
  }
  bool flush() override { return !network_.options_.holds_back; }
  comm::Window window_of(std::span<const std::byte> bytes) const override {
    const std::scoped_lock lock(network_.mutex_);
    const auto after = network_.heap_.upper_bound(bytes.data());
    const bool is_inside =
        after != network_.heap_.begin() &&
        bytes.data() + bytes.size() <= std::prev(after)->first + std::prev(after)->second.second;
    return {is_inside ? 1U : 0U, reinterpret_cast<std::uint64_t>(bytes.data())};
  }
  std::byte* map(std::int32_t, comm::Window window) override {
    network_.options_.mapped(rank_);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the ranks share their addresses
    return reinterpret_cast<std::byte*>(window.offset);
  }
  void unmap() override { network_.options_.unmapped(rank_); }
  void give_up() override { network_.gave_up(rank_) = true; }
  bool has_given_up(std::int32_t peer) override { return network_.gave_up(peer); }
  bool prefers_non_temporal(std::size_t bytes) const override { return bytes > 2048; }

 private:
  bool has_room(std::size_t bytes) {
    last_bytes_ = bytes;
    return network_.under_way_[static_cast<std::size_t>(rank_)] + bytes + kMessageCost <= room();
  }
  void post(std::span<const std::int32_t> peers,
            const std::shared_ptr<MemoryNetwork::Message>& message) {
    const std::scoped_lock lock(network_.mutex_);
    const auto own = static_cast<std::size_t>(rank_);
    if (network_.lost_[own]) {
      return;
    }
    message->sender = rank_;
    message->readers = peers.size();
    network_.under_way_[own] += message->bytes.size() + kMessageCost;
    for (const std::int32_t peer : peers) {
      network_.channel(rank_, peer).push_back(message);
      change(peer);
    }
  }
  void change(std::int32_t rank) {
    ++network_.version_[static_cast<std::size_t>(rank)];
    network_.changed_[static_cast<std::size_t>(rank)].notify_all();
  }

  MemoryNetwork& network_;
  std::int32_t rank_;
  std::vector<std::byte> reserved_;
  std::size_t last_bytes_ = 0;
  comm::Ticket next_ticket_ = 1;
  std::map<comm::Ticket, std::shared_ptr<MemoryNetwork::Message>> tickets_;
  std::map<std::int32_t, comm::Inbound> inbound_;
  std::uint64_t seen_ = 0;
  bool woken_ = false;
};

inline std::unique_ptr<comm::Transport> MemoryNetwork::endpoint(std::int32_t rank) {
  return std::make_unique<MemoryTransport>(*this, rank);
}

}  // namespace trainyard::testing
