// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/fabric_transport.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "comm/transport/fabric/tag.h"

namespace trainyard::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// With the header just below what ofi_rxm sends without asking the receiver, so that a sender that
// has sent may leave.
constexpr std::size_t kMaxMessage = (std::size_t{128} << 10) - 4096;
constexpr std::uint64_t kLeastStep = 16;
constexpr std::size_t kReceivesAhead = 2;  // to each peer
constexpr int kLooks = 20;                 // of a caller who spins, before it sleeps
constexpr std::chrono::seconds kLinger{5};

}  // namespace

FabricTransport::FabricTransport(FabricOptions options, std::unique_ptr<FabricEndpoint> endpoint,
                                 Fault& fault)
    : options_(std::move(options)),
      fault_(fault),
      endpoint_(std::move(endpoint)),
      max_message_(std::min(kMaxMessage, endpoint_->max_message() - kHeaderBytes)),
      world_(world_of_tag(options_.secret)),
      step_(std::max<std::uint64_t>(kLeastStep, 4 * options_.names.size())),
      outgoing_(*endpoint_, max_message_),
      incoming_(*endpoint_, max_message_),
      peers_(options_.names.size()),
      news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (Peer& peer : peers_) {
    // Twice a step: what was released and is not yet told of leaves a whole one.
    peer.granted = 2 * step_;
  }
}

// What was published has its way first: others may still need it. Then the endpoint ends, before
// the memory that it works with.
FabricTransport::~FabricTransport() {
  is_ending_ = true;
  const auto end = steady_clock::now() + kLinger;
  while (!fault_.is_raised() && !has_failed_ && !part() && steady_clock::now() < end) {
    wait(Patience::kSleep, milliseconds(10));
  }
  endpoint_.reset();
}

FabricTransport::Request* FabricTransport::make_request(Use use, std::int32_t rank,
                                                        BufferPool::Lease buffer) {
  if (free_requests_.empty()) {
    free_requests_.push_back(&requests_.emplace_back());
  }
  Request* request = free_requests_.back();
  free_requests_.pop_back();
  request->use = use;
  request->peer = rank;
  request->is_complete = false;
  request->buffer = std::move(buffer);
  return request;
}

void FabricTransport::end(Request* request) {
  request->buffer.reset();
  free_requests_.push_back(request);
}

std::span<std::byte> FabricTransport::try_reserve(std::span<const std::int32_t>,
                                                  std::size_t bytes) {
  if (outgoing_.in_use() + bytes + kMessageCost > room()) {
    flush();
    if (outgoing_.in_use() + bytes + kMessageCost > room()) {
      return {};
    }
  }
  auto taken = outgoing_.take(bytes);
  if (!taken) {
    fault_.raise(taken.error());
    return {};
  }
  reserved_ = std::move(*taken);
  reserved_bytes_ = bytes;
  return reserved_->payload(bytes);
}

void FabricTransport::queue_reserved(std::span<const std::int32_t> peers, const Label& label,
                                     bool is_needed) {
  const auto header = encode({.label = label, .bytes = reserved_bytes_});
  std::ranges::copy(header, reserved_->header().begin());
  for (const std::int32_t rank : peers) {
    Peer& peer = peer_of(rank);
    if (is_needed || (!peer.takes_nothing && !peer.has_left)) {
      peer.queue.push_back({reserved_, reserved_bytes_, is_needed});
      pump(rank);
    }
  }
  reserved_.reset();
}

void FabricTransport::pump(std::int32_t rank) {
  Peer& peer = peer_of(rank);
  while (!peer.queue.empty() && peer.sent < peer.granted && !peer.takes_nothing &&
         !fault_.is_raised()) {
    const Outgoing& next = peer.queue.front();
    Request* request = make_request(Use::kSend, rank, next.buffer);
    request->is_needed = next.is_needed;
    const auto tag = tag_of(world_, TagKind::kMessage, options_.rank, peer.sent);
    const auto taken = endpoint_->try_send(rank, tag, next.buffer->message(next.payload), *request);
    if (!taken || !*taken) {
      end(request);
      if (!taken) {
        lose(rank, next.is_needed, taken.error().message);
      }
      break;
    }
    ++peer.sent;
    ++peer.under_way;
    peer.queue.pop_front();
  }
  if (peer.sent > 0 && !peer.waits_for_credit) {
    await_credit(rank);
  }
}

void FabricTransport::lose(std::int32_t rank, bool is_needed, const std::string& why) {
  Peer& peer = peer_of(rank);
  peer.takes_nothing = true;
  peer.has_lost = peer.has_lost || is_needed;
  drop_unneeded(peer);
  broken_.note(rank, why);
}

void FabricTransport::drop_unneeded(Peer& peer) {
  std::erase_if(peer.queue, [](const Outgoing& one) { return !one.is_needed; });
}

void FabricTransport::await_credit(std::int32_t rank) {
  Peer& peer = peer_of(rank);
  Request* request = make_request(Use::kCreditReceive, rank);
  const auto tag = tag_of(world_, TagKind::kCredit, rank, peer.grants);
  const auto posted = endpoint_->try_receive(tag, {}, *request);
  peer.waits_for_credit = posted && *posted;
  if (!peer.waits_for_credit) {
    end(request);
  }
}

// To a peer that goes they need not come, nor from one that goes.
void FabricTransport::send_credits(std::int32_t rank) {
  Peer& peer = peer_of(rank);
  while (peer.owed > 0 && !broken_.has(rank) && !peer.has_left && !is_ending_) {
    Request* request = make_request(Use::kCreditSend, rank);
    const auto tag = tag_of(world_, TagKind::kCredit, options_.rank, peer.credits);
    const auto taken = endpoint_->try_send(rank, tag, {}, *request);
    if (!taken || !*taken) {
      end(request);
      return;
    }
    ++peer.credits;
    --peer.owed;
  }
}

void FabricTransport::pump_all() {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (!peer.queue.empty() || (peer.sent > 0 && !peer.waits_for_credit)) {
      pump(static_cast<std::int32_t>(rank));
    }
    if (peer.owed > 0) {
      send_credits(static_cast<std::int32_t>(rank));
    }
    if (peer.has_left && !peer.has_goodbye) {
      say_goodbye(static_cast<std::int32_t>(rank));
    }
  }
}

void FabricTransport::await_goodbye(std::int32_t rank) {
  Peer& peer = peer_of(rank);
  if (peer.awaits_goodbye) {
    return;
  }
  Request* request = make_request(Use::kGoodbyeReceive, rank);
  const auto posted =
      endpoint_->try_receive(tag_of(world_, TagKind::kGoodbye, rank, 0), {}, *request);
  peer.awaits_goodbye = posted && *posted;
  if (!peer.awaits_goodbye) {
    end(request);
  }
}

// Who cannot be told is not waited for.
void FabricTransport::say_goodbye(std::int32_t rank) {
  Peer& peer = peer_of(rank);
  if (peer.has_goodbye) {
    return;
  }
  Request* request = make_request(Use::kGoodbyeSend, rank);
  const auto taken =
      endpoint_->try_send(rank, tag_of(world_, TagKind::kGoodbye, options_.rank, 0), {}, *request);
  peer.has_goodbye = !taken || *taken;
  peer.goodbye_is_under_way = taken && *taken;
  peer.has_left = peer.has_left || !taken;
  if (!peer.goodbye_is_under_way) {
    end(request);
  }
}

// True when no peer needs this endpoint any more. One that has left and takes no goodbye of ours
// has stopped waiting for it.
bool FabricTransport::part() {
  if (!flush()) {
    return false;
  }
  bool is_over = true;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const auto rank = static_cast<std::int32_t>(i);
    const Peer& peer = peers_[i];
    if (peer.sent > 0 || peer.has_spoken) {
      await_goodbye(rank);
      say_goodbye(rank);
      is_over = is_over && peer.has_left && !peer.goodbye_is_under_way;
    }
  }
  return is_over;
}

void FabricTransport::post_receives(std::int32_t rank) {
  await_goodbye(rank);
  Peer& peer = peer_of(rank);
  while (peer.in.size() < kReceivesAhead) {
    auto buffer = incoming_.take(max_message_);
    if (!buffer) {
      fault_.raise(buffer.error());
      return;
    }
    const FabricMemory memory = (*buffer)->message(max_message_);
    Request* request = make_request(Use::kReceive, rank, std::move(*buffer));
    const auto tag = tag_of(world_, TagKind::kMessage, rank, peer.posted);
    const auto posted = endpoint_->try_receive(tag, memory, *request);
    if (!posted || !*posted) {
      end(request);
      if (!posted) {
        broken_.note(rank, posted.error().message);
      }
      return;
    }
    ++peer.posted;
    peer.in.push_back(request);
  }
}

// Whether the next message of the peer is there; looks at it before anyone uses it.
bool FabricTransport::look(std::int32_t rank) {
  Peer& peer = peer_of(rank);
  if (peer.in.empty() || !peer.in.front()->is_complete || fault_.is_raised()) {
    return false;
  }
  const Request& request = *peer.in.front();
  const auto header = decode_header(request.buffer->header());
  if (request.bytes < kHeaderBytes || !header || header->bytes != request.bytes - kHeaderBytes) {
    fault_.raise(
        {Code::kCorrupt, fmt::format("what came over libfabric in the name of {} is no message",
                                     options_.names[static_cast<std::size_t>(rank)])});
    return false;
  }
  peer.inbound = {.label = header->label, .bytes = request.buffer->payload(header->bytes)};
  peer.has_inbound = true;
  return true;
}

const Inbound* FabricTransport::try_receive(std::int32_t rank, std::span<std::byte>) {
  const Inbound* inbound = try_receive_unneeded(rank);
  if (inbound == nullptr && std::ranges::find(needed_, rank) == needed_.end()) {
    needed_.push_back(rank);
  }
  return inbound;
}

const Inbound* FabricTransport::try_receive_unneeded(std::int32_t rank) {
  Peer& peer = peer_of(rank);
  if (peer.has_inbound) {
    return &peer.inbound;
  }
  post_receives(rank);
  if (look(rank) || (progress() && look(rank))) {
    return &peer.inbound;
  }
  return nullptr;
}

void FabricTransport::release(std::int32_t rank) {
  Peer& peer = peer_of(rank);
  end(peer.in.front());
  peer.in.pop_front();
  peer.has_inbound = false;
  post_receives(rank);
  if (++peer.released == step_) {
    peer.released = 0;
    ++peer.owed;
    send_credits(rank);
  }
}

bool FabricTransport::progress() {
  completions_.clear();
  const Result<void> status = endpoint_->poll(completions_);
  for (const Completion& one : completions_) {
    complete(one);
  }
  if (!status) {
    raise(status.error());
  }
  return !completions_.empty();
}

// What a peer gets only so that it may go on, or leave, is not missed here when it cannot be sent.
void FabricTransport::complete(const Completion& completion) {
  auto* request = static_cast<Request*>(completion.request);
  const bool is_good = completion.error.empty();
  if (request == nullptr) {
    if (!is_good) {  // what it was for will never be complete
      raise({Code::kUnavailable,
             "libfabric failed, and does not say at which message: " + completion.error});
    }
    return;
  }
  Peer& peer = peer_of(request->peer);
  if (!is_good && (request->use == Use::kReceive || request->use == Use::kCreditReceive)) {
    broken_.note(request->peer, completion.error);
  }
  switch (request->use) {
    case Use::kReceive:  // stays the first of its peer, and is never complete after an error
      request->is_complete = is_good;
      request->bytes = completion.bytes;
      peer.has_spoken = peer.has_spoken || is_good;
      return;
    case Use::kSend:
      --peer.under_way;
      if (!is_good) {
        lose(request->peer, request->is_needed, completion.error);
      }
      break;
    case Use::kCreditReceive:  // after an error there is none, and no other is waited for
      if (is_good) {
        peer.waits_for_credit = false;
        peer.granted += step_;
        ++peer.grants;
      }
      break;
    case Use::kCreditSend:
      break;
    case Use::kGoodbyeSend:
      peer.goodbye_is_under_way = false;
      peer.has_left = peer.has_left || !is_good;
      break;
    case Use::kGoodbyeReceive:
      if (is_good) {
        peer.has_left = true;
        drop_unneeded(peer);
      }
      break;
  }
  end(request);
}

// After a fault nothing goes out. Credits count for nothing: who has left does not need them.
bool FabricTransport::flush() {
  if (fault_.is_raised()) {
    return true;
  }
  pump_all();
  if (progress()) {
    pump_all();
  }
  return std::ranges::all_of(peers_, [](const Peer& peer) {
    return peer.queue.empty() && peer.under_way == 0 && !peer.has_lost;
  });
}

// In the destructor those are gone whom a fault is told.
void FabricTransport::raise(Error error) {
  has_failed_ = true;
  if (!is_ending_) {
    fault_.raise(std::move(error));
  }
}

void FabricTransport::raise_broken() {
  const auto due = broken_.due([&](std::int32_t rank) {
    const Peer& peer = peer_of(rank);
    return std::ranges::find(needed_, rank) != needed_.end() || !peer.queue.empty() ||
           peer.under_way > 0 || peer.has_lost;
  });
  if (due) {
    const std::string& name = options_.names[static_cast<std::size_t>(due->rank)];
    raise({Code::kUnavailable,
           fmt::format("libfabric does not reach {} any more: {}", name, due->why)});
  }
}

void FabricTransport::wait(Patience patience, microseconds limit) {
  pump_all();
  bool has_moved = progress();
  for (int look = 0; patience == Patience::kSpin && look < kLooks && !has_moved; ++look) {
    ::sched_yield();
    has_moved = progress();
  }
  if (!has_moved) {
    endpoint_->wait(news_.get(), broken_.limit(limit));
    // Read here only: a wake-up that came before this wait must end it.
    eventfd_t drained = 0;
    ::eventfd_read(news_.get(), &drained);
    has_moved = progress();
  }
  if (has_moved) {
    pump_all();
  }
  if (!broken_.is_empty()) {
    raise_broken();
  }
  needed_.clear();
}

void FabricTransport::wake() {
  ::eventfd_write(news_.get(), 1);
}

}  // namespace trainyard::comm
