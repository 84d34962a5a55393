// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/tcp_transport.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

namespace trainyard::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kCheck{500};
constexpr std::chrono::seconds kLastMessages{5};
constexpr int kLooks = 20;  // of a caller who spins, before it sleeps in the kernel

std::uint32_t default_connections() {
  return std::clamp(std::thread::hardware_concurrency() / 8, 1U, 8U);
}

}  // namespace

TcpTransport::TcpTransport(TcpOptions options, Acceptor& acceptor, Fault& fault)
    : options_(std::move(options)), acceptor_(acceptor), fault_(fault) {
  if (options_.connections == 0) {
    options_.connections = default_connections();
  }
  for (std::size_t rank = 0; rank < options_.peers.size(); ++rank) {
    peers_.push_back(Peer{.in = Inlet(options_.max_message)});
  }
  outlets_.resize(peers_.size());
  news_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto tell = [fd = news_.get()] { ::eventfd_write(fd, 1); };
  opener_ = std::make_unique<Opener>(tell);
  acceptor_.on_arrival(options_.channel, tell);
}

// What was published has its way to the kernel first: others may still need it.
TcpTransport::~TcpTransport() {
  const auto end = steady_clock::now() + kLastMessages;
  while (!flush() && !fault_.is_raised() && steady_clock::now() < end) {
    wait(Patience::kSleep, milliseconds(10));
  }
  acceptor_.on_arrival(options_.channel, {});
}

void TcpTransport::connect(std::int32_t rank) {
  {
    const MutexLock lock(sending_);
    if (outlets_[at(rank)] != nullptr) {
      return;
    }
    outlets_[at(rank)] = std::make_unique<Outlet>(options_.connections);
  }
  opener_->open(options_.peers[static_cast<std::size_t>(rank)], {.secret = options_.secret,
                                                                 .from = options_.rank,
                                                                 .to = rank,
                                                                 .channel = options_.channel,
                                                                 .index = 0,
                                                                 .count = options_.connections});
}

std::span<std::byte> TcpTransport::try_reserve(std::span<const std::int32_t>, std::size_t bytes) {
  const auto is_free = [](const Staging& one) { return one.use_count() == 1; };
  auto found = std::ranges::find_if(stagings_, is_free);
  if (found == stagings_.end()) {
    if (stagings_.size() == kStagings) {
      flush();
      found = std::ranges::find_if(stagings_, is_free);
      if (found == stagings_.end()) {
        return {};
      }
    } else {
      stagings_.push_back(std::make_shared<std::vector<std::byte>>(max_message()));
      found = stagings_.end() - 1;
    }
  }
  reserved_ = *found;
  reserved_bytes_ = bytes;
  return std::span(*reserved_).first(bytes);
}

void TcpTransport::send_reserved(std::span<const std::int32_t> peers, const Label& label,
                                 bool is_needed) {
  const std::span<const std::byte> bytes = std::span(*reserved_).first(reserved_bytes_);
  for (const std::int32_t rank : peers) {
    send(rank, label, bytes, reserved_, is_needed);
  }
  reserved_.reset();
}

bool TcpTransport::try_send_in_place(std::span<const std::int32_t> peers, const Label& label,
                                     std::span<const std::byte> bytes, Ticket* ticket) {
  InPlace one{.ticket = ++last_ticket_, .until = {}};
  for (const std::int32_t rank : peers) {
    send(rank, label, bytes, nullptr, true);
    const MutexLock lock(sending_);
    one.until.emplace_back(rank, outlets_[at(rank)]->pushed());
  }
  in_place_.push_back(std::move(one));
  *ticket = last_ticket_;
  return true;
}

void TcpTransport::send(std::int32_t rank, const Label& label, std::span<const std::byte> bytes,
                        const Staging& staging, bool is_needed) {
  if (!is_needed && peer_of(rank).takes_nothing) {
    return;
  }
  connect(rank);
  {
    const MutexLock lock(sending_);
    outlets_[at(rank)]->push(label, bytes, staging, is_needed);
  }
  pump(rank);
}

void TcpTransport::pump(std::int32_t rank) {
  if (peer_of(rank).takes_nothing || fault_.is_raised()) {
    return;
  }
  Result<void> status;
  {
    const MutexLock lock(sending_);
    Outlet* out = outlets_[at(rank)].get();
    status = out == nullptr ? status : out->pump();
  }
  if (!status) {
    end_sending(rank, status.error().message);
  }
}

void TcpTransport::end_sending(std::int32_t rank, const std::string& why) {
  peer_of(rank).takes_nothing = true;
  broken_.note(rank, why);
  const MutexLock lock(sending_);
  outlets_[at(rank)]->drop_unneeded();
}

bool TcpTransport::has_unsent(std::int32_t rank) {
  const MutexLock lock(sending_);
  const Outlet* out = outlets_[at(rank)].get();
  return out != nullptr && !out->is_idle();
}

bool TcpTransport::is_sent(Ticket ticket) {
  const auto is_done = [&](const InPlace& one) {
    return std::ranges::all_of(one.until, [&](const auto& peer) {
      const MutexLock lock(sending_);
      return outlets_[at(peer.first)]->done() >= peer.second;
    });
  };
  const auto find = [&] { return std::ranges::find(in_place_, ticket, &InPlace::ticket); };
  const auto found = find();
  if (found != in_place_.end() && !is_done(*found)) {
    for (const auto& peer : found->until) {
      pump(peer.first);
    }
  }
  while (!in_place_.empty() && is_done(in_place_.front())) {
    in_place_.pop_front();
  }
  const auto left = find();
  return left == in_place_.end() || is_done(*left);
}

const Inbound* TcpTransport::try_receive(std::int32_t rank, std::span<std::byte> into) {
  const Inbound* inbound = look(rank, into);
  if (inbound == nullptr && std::ranges::find(needed_, rank) == needed_.end()) {
    needed_.push_back(rank);
  }
  return inbound;
}

const Inbound* TcpTransport::look(std::int32_t rank, std::span<std::byte> into) {
  if (has_news_) {
    take_news();
  }
  Peer& peer = peer_of(rank);
  if (peer.in.fd() >= 0 && !peer.has_ended) {
    const Result<bool> is_whole = peer.in.read(into);
    if (is_whole && *is_whole) {
      return &peer.in.message();
    }
    if (!is_whole) {
      peer.has_ended = true;
      broken_.note(rank, is_whole.error().message);
    }
  }
  if (std::ranges::find(watched_, rank) == watched_.end()) {
    watched_.push_back(rank);
  }
  return nullptr;
}

void TcpTransport::release(std::int32_t rank) {
  peer_of(rank).in.release();
}

// After a fault nothing goes out: the memory of what is queued has been given back.
bool TcpTransport::flush() {
  if (fault_.is_raised()) {
    return true;
  }
  if (has_news_) {
    take_news();
  }
  bool is_idle = true;
  for (std::int32_t rank = 0; static_cast<std::size_t>(rank) < peers_.size(); ++rank) {
    if (has_unsent(rank)) {
      pump(rank);
      is_idle = !has_unsent(rank) && is_idle;
    }
  }
  return is_idle;
}

void TcpTransport::give_up() {
  const MutexLock lock(sending_);
  for (const auto& out : outlets_) {
    if (out != nullptr) {
      out->give_up();
    }
  }
}

void TcpTransport::raise_broken() {
  const auto due = broken_.due([&](std::int32_t rank) {
    return std::ranges::find(needed_, rank) != needed_.end() || has_unsent(rank);
  });
  if (due) {
    const std::string& name = options_.names[static_cast<std::size_t>(due->rank)];
    fault_.raise(
        {Code::kUnavailable, fmt::format("the connection to {} is broken: {}", name, due->why)});
  }
}

void TcpTransport::take_news() {
  has_news_ = false;
  for (Opener::Opened& opened : opener_->take()) {
    if (opened.connections) {
      const MutexLock lock(sending_);
      outlets_[at(opened.rank)]->attach(std::move(*opened.connections));
    } else {
      end_sending(opened.rank, opened.connections.error().message);
    }
  }
  for (Arrival& arrival : acceptor_.take(options_.channel)) {
    const auto from = static_cast<std::size_t>(arrival.greeting.from);
    if (from < peers_.size()) {
      peers_[from].in.add(arrival.greeting.index, arrival.greeting.count, std::move(arrival.fd));
    }
  }
}

void TcpTransport::wait(Patience patience, microseconds limit) {
  flush();
  std::vector<pollfd> entries = {{.fd = news_.get(), .events = POLLIN, .revents = 0}};
  for (const std::int32_t rank : watched_) {
    const Peer& peer = peer_of(rank);
    if (peer.in.fd() >= 0 && !peer.has_ended) {
      entries.push_back({.fd = peer.in.fd(), .events = POLLIN, .revents = 0});
    }
  }
  check_unheard();
  list_outlets(entries);
  int found = 0;
  for (int look = 0; patience == Patience::kSpin && look < kLooks && found == 0; ++look) {
    found = ::poll(entries.data(), entries.size(), 0);
    if (found == 0) {
      ::sched_yield();
    }
  }
  if (found == 0) {
    const auto most = broken_.limit(limit);
    const timespec time{.tv_sec = most.count() / 1000000, .tv_nsec = most.count() % 1000000 * 1000};
    ::ppoll(entries.data(), entries.size(), &time, nullptr);
  }
  // Read here only: a wake-up that came before this wait must end it.
  eventfd_t drained = 0;
  has_news_ = ::eventfd_read(news_.get(), &drained) == 0 || has_news_;
  if (!broken_.is_empty()) {
    raise_broken();
  }
  watched_.clear();
  needed_.clear();
}

void TcpTransport::list_outlets(std::vector<pollfd>& entries) {
  const MutexLock lock(sending_);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (outlets_[rank] != nullptr && !peers_[rank].takes_nothing) {
      outlets_[rank]->list(entries);
    }
  }
}

// Now and then: whether those who were sent something are still heard of.
void TcpTransport::check_unheard() {
  const auto now = steady_clock::now();
  if (now < next_check_) {
    return;
  }
  next_check_ = now + kCheck;
  const MutexLock lock(sending_);
  for (std::int32_t rank = 0; static_cast<std::size_t>(rank) < peers_.size(); ++rank) {
    Outlet* out = outlets_[at(rank)].get();
    if (out != nullptr && !broken_.has(rank) && out->is_silent(now)) {
      broken_.note(rank, "its host has acknowledged nothing for more than 3 s");
    }
  }
}

void TcpTransport::wake() {
  ::eventfd_write(news_.get(), 1);
}

}  // namespace trainyard::comm
