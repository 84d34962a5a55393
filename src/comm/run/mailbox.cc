// SPDX-License-Identifier: Apache-2.0
#include "comm/run/mailbox.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

namespace trainyard::comm {
namespace {

constexpr int kKindBits = 3;

bool is_send(const Work::State& work) {
  return work.operation.kind == OpKind::kSend;
}

// The tag travels where collectives have their root.
Signature signature_of(const Work::State& work) {
  Signature signature = work.checked.signature;
  signature.kind = OpKind::kSend;
  signature.root = static_cast<std::int32_t>(work.operation.tag);
  return signature;
}

std::span<const std::byte> payload_of(const Work::State& work) {
  return work.operation.input;
}

std::string describe(const Work::State& work) {
  const Signature& signature = work.checked.signature;
  return fmt::format("{} of {} {} {} rank {} with tag {}", is_send(work) ? "send" : "receive",
                     signature.count, name_of(signature.dtype), is_send(work) ? "to" : "from",
                     work.operation.root, work.operation.tag);
}

}  // namespace

Mailbox::Mailbox(Transport& transport, Fault& fault, Setting setting)
    : transport_(transport),
      fault_(fault),
      setting_(std::move(setting)),
      peers_(static_cast<std::size_t>(setting_.size)) {}

void Mailbox::post(WorkPtr work, std::chrono::steady_clock::time_point issued) {
  const auto time = work->operation.timeout.value_or(setting_.timeout);
  Posted posted{.work = std::move(work), .deadline = issued + time, .tickets = {}};
  if (!is_send(*posted.work)) {
    post_receive(std::move(posted));
  } else if (posted.work->operation.root == setting_.rank) {
    post_to_self(std::move(posted));
  } else {
    post_send(std::move(posted));
  }
}

void Mailbox::post_send(Posted posted) {
  Peer& to = peer(posted.work->operation.root);
  posted.number = ++last_number_;
  Outgoing outgoing{.kind = Kind::kRequest,
                    .number = posted.number,
                    .signature = signature_of(*posted.work),
                    .payload = std::nullopt};
  const std::size_t bytes = payload_of(*posted.work).size();
  if (to.credit > 0 && bytes <= std::min(kEager, transport_.max_message())) {
    --to.credit;
    outgoing.kind = Kind::kEager;
    outgoing.payload = std::move(posted);
  } else {
    to.asked.emplace(posted.number, std::move(posted));
  }
  to.outbox.push_back(std::move(outgoing));
}

// As to another rank: small ones are kept, large ones wait in the sender's memory.
void Mailbox::post_to_self(Posted posted) {
  const std::span<const std::byte> payload = payload_of(*posted.work);
  Peer& self = peer(setting_.rank);
  posted.number = ++last_number_;
  Unexpected message{
      .signature = signature_of(*posted.work), .number = posted.number, .payload = std::nullopt};
  if (payload.size() <= kEager && self.credit > 0) {
    --self.credit;
    message.payload.emplace();
    finish(posted);
    arrive(setting_.rank, std::move(message), payload);
    return;
  }
  self.asked.emplace(posted.number, std::move(posted));
  arrive(setting_.rank, std::move(message), {});
}

void Mailbox::post_receive(Posted posted) {
  const std::int32_t rank = posted.work->operation.root;
  const auto tag = static_cast<std::int32_t>(posted.work->operation.tag);
  std::deque<Unexpected>& kept = peer(rank).unexpected;
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const Unexpected& message) {
    return message.signature.root == tag;
  });
  if (found == kept.end()) {
    peer(rank).posted.push_back(std::move(posted));
    return;
  }
  const Unexpected message = std::move(*found);
  kept.erase(found);
  match(rank, std::move(posted), message,
        message.payload ? std::span<const std::byte>(*message.payload)
                        : std::span<const std::byte>());
}

bool Mailbox::drive() {
  bool has_moved = false;
  for (std::int32_t rank = 0; rank < setting_.size && !fault_.is_raised(); ++rank) {
    if (rank != setting_.rank) {
      has_moved = receive_from(rank) || has_moved;
      has_moved = send_to(rank) || has_moved;
    }
  }
  return has_moved;
}

// Whether something here waits for the peer. One from which nothing is wanted may have left.
bool Mailbox::is_needed(const Peer& peer) {
  return !peer.posted.empty() || !peer.asked.empty() || !peer.coming.empty() ||
         !peer.sending.empty();
}

const Inbound* Mailbox::try_receive(std::int32_t rank) {
  return is_needed(peer(rank)) ? transport_.try_receive(rank, {})
                               : transport_.try_receive_unneeded(rank);
}

bool Mailbox::receive_from(std::int32_t rank) {
  // Bounded, so that a fast peer does not starve the others.
  int count = 0;
  for (; count < 16 && !fault_.is_raised(); ++count) {
    const Inbound* inbound = try_receive(rank);
    if (inbound == nullptr) {
      break;
    }
    handle(rank, *inbound);
    transport_.release(rank);
  }
  return count > 0;
}

void Mailbox::handle(std::int32_t rank, const Inbound& inbound) {
  const auto kind = static_cast<Kind>(inbound.label.sequence & ((1U << kKindBits) - 1));
  const std::uint64_t number = inbound.label.sequence >> kKindBits;
  Peer& from = peer(rank);
  Unexpected message{
      .signature = inbound.label.signature, .number = number, .payload = std::nullopt};
  switch (kind) {
    case Kind::kEager:
      message.payload.emplace();
      return arrive(rank, std::move(message), inbound.bytes);
    case Kind::kRequest:
      return arrive(rank, std::move(message), {});
    case Kind::kData:
      return take_data(rank, number, inbound.bytes);
    case Kind::kCredit:
      from.credit += inbound.label.signature.count;
      return;
    case Kind::kClear:
      if (auto asked = from.asked.extract(number); !asked.empty()) {
        from.sending.push_back(std::move(asked.mapped()));
      }
      return;
  }
}

// A message that a receive may be waiting for. Its payload, if it has one, lies at `payload`.
void Mailbox::arrive(std::int32_t rank, Unexpected message, std::span<const std::byte> payload) {
  std::deque<Posted>& waiting = peer(rank).posted;
  const auto found = std::find_if(waiting.begin(), waiting.end(), [&](const Posted& posted) {
    return static_cast<std::int32_t>(posted.work->operation.tag) == message.signature.root;
  });
  if (found != waiting.end()) {
    Posted receive = std::move(*found);
    waiting.erase(found);
    match(rank, std::move(receive), message, payload);
    return;
  }
  if (message.payload) {
    message.payload->assign(payload.begin(), payload.end());
  }
  peer(rank).unexpected.push_back(std::move(message));
}

void Mailbox::match(std::int32_t rank, Posted receive, const Unexpected& message,
                    std::span<const std::byte> payload) {
  Peer& from = peer(rank);
  if (!agrees(rank, *receive.work, message.signature)) {
    from.posted.push_front(std::move(receive));  // it ends with the fault, as the sender's does
    return;
  }
  const std::span<std::byte> out = receive.work->operation.output;
  if (message.payload) {
    if (!payload.empty()) {
      std::memcpy(out.data(), payload.data(), payload.size());
    }
    finish(receive);
    give_back_credit(rank);
  } else if (rank == setting_.rank) {
    auto sender = from.asked.extract(message.number);
    if (!out.empty()) {
      std::memcpy(out.data(), payload_of(*sender.mapped().work).data(), out.size());
    }
    finish(sender.mapped());
    finish(receive);
  } else {
    from.outbox.push_back({.kind = Kind::kClear,
                           .number = message.number,
                           .signature = message.signature,
                           .payload = std::nullopt});
    from.coming.emplace(message.number, std::move(receive));
  }
}

bool Mailbox::agrees(std::int32_t rank, const Work::State& work, const Signature& theirs) {
  const Signature mine = signature_of(work);
  if (mine.dtype == theirs.dtype && mine.count == theirs.count) {
    return true;
  }
  fault_.raise(
      Error{Code::kConflict,
            fmt::format("the ranks of '{}' disagree: rank {} has a {}; rank {} has {} {} for it",
                        setting_.name, setting_.rank, describe(work), rank, theirs.count,
                        name_of(theirs.dtype))});
  return false;
}

void Mailbox::give_back_credit(std::int32_t rank) {
  Peer& from = peer(rank);
  if (rank == setting_.rank) {
    ++from.credit;
  } else if (++from.consumed >= kCredit / 2) {
    from.outbox.push_back({.kind = Kind::kCredit,
                           .number = 0,
                           .signature = {.count = std::exchange(from.consumed, 0)},
                           .payload = std::nullopt});
  }
}

void Mailbox::take_data(std::int32_t rank, std::uint64_t number, std::span<const std::byte> bytes) {
  std::map<std::uint64_t, Posted>& coming = peer(rank).coming;
  const auto found = coming.find(number);
  const bool is_right =
      found != coming.end() &&
      bytes.size() <= found->second.work->operation.output.size() - found->second.at;
  if (!is_right) {
    fault_.raise(Error{Code::kInternal,
                       fmt::format("rank {} of '{}' sent data of transfer {} that nobody expects",
                                   rank, setting_.name, number)});
    return;
  }
  Posted& receive = found->second;
  const std::span<std::byte> out = receive.work->operation.output;
  std::memcpy(out.data() + receive.at, bytes.data(), bytes.size());
  receive.at += bytes.size();
  if (receive.at == out.size()) {
    finish(receive);
    coming.erase(found);
  }
}

// Short messages in their order, then one piece of each transfer in turn.
bool Mailbox::send_to(std::int32_t rank) {
  Peer& to = peer(rank);
  bool has_moved = finish_leaving(to);
  while (!to.outbox.empty() && send_outgoing(rank, to.outbox.front())) {
    to.outbox.pop_front();
    has_moved = true;
  }
  for (std::size_t i = to.sending.size(); i > 0 && to.outbox.empty(); --i) {
    Posted posted = std::move(to.sending.front());
    to.sending.pop_front();
    const bool is_sent = send_piece(rank, posted);
    if (!is_sent) {
      to.sending.push_front(std::move(posted));
      break;
    }
    has_moved = true;
    if (posted.at < payload_of(*posted.work).size()) {
      to.sending.push_back(std::move(posted));
    } else if (posted.tickets.empty()) {
      finish(posted);
    } else {
      to.leaving.push_back(std::move(posted));
    }
  }
  return has_moved;
}

bool Mailbox::send_outgoing(std::int32_t rank, Outgoing& outgoing) {
  const std::span<const std::byte> bytes =
      outgoing.payload ? payload_of(*outgoing.payload->work) : std::span<const std::byte>();
  const std::span<std::byte> slot = transport_.try_reserve({&rank, 1}, bytes.size());
  if (slot.data() == nullptr) {
    return false;
  }
  if (!bytes.empty()) {
    std::memcpy(slot.data(), bytes.data(), bytes.size());
  }
  const std::uint64_t sequence =
      outgoing.number << kKindBits | static_cast<std::uint64_t>(outgoing.kind);
  const Label label{.sequence = sequence, .signature = outgoing.signature};
  if (outgoing.kind == Kind::kCredit) {
    transport_.publish_unneeded({&rank, 1}, label);
  } else {
    transport_.publish({&rank, 1}, label);
  }
  if (outgoing.payload) {
    finish(*outgoing.payload);
  }
  return true;
}

bool Mailbox::send_piece(std::int32_t rank, Posted& posted) {
  const std::span<const std::byte> all = payload_of(*posted.work);
  // A part of the room, so that the receiver copies one piece while the next one is written.
  const std::size_t most =
      std::min(transport_.max_message(), transport_.room() / 4 - Transport::kMessageCost);
  const std::span<const std::byte> piece =
      all.subspan(posted.at, std::min<std::size_t>(all.size() - posted.at, most));
  const Label label{
      .sequence = posted.number << kKindBits | static_cast<std::uint64_t>(Kind::kData),
      .signature = signature_of(*posted.work)};
  if (!piece.empty() && transport_.can_send_in_place({&rank, 1}, piece)) {
    Ticket ticket = 0;
    if (!transport_.try_send_in_place({&rank, 1}, label, piece, &ticket)) {
      return false;
    }
    posted.tickets.push_back(ticket);
  } else {
    const std::span<std::byte> slot = transport_.try_reserve({&rank, 1}, piece.size());
    if (slot.data() == nullptr) {
      return false;
    }
    if (!piece.empty()) {
      std::memcpy(slot.data(), piece.data(), piece.size());
    }
    transport_.publish({&rank, 1}, label);
  }
  posted.at += piece.size();
  return true;
}

bool Mailbox::finish_leaving(Peer& peer) {
  bool has_moved = false;
  while (!peer.leaving.empty()) {
    std::vector<Ticket>& tickets = peer.leaving.front().tickets;
    while (!tickets.empty() && transport_.is_sent(tickets.back())) {
      tickets.pop_back();
    }
    if (!tickets.empty()) {
      break;
    }
    finish(peer.leaving.front());
    peer.leaving.pop_front();
    has_moved = true;
  }
  return has_moved;
}

template <typename Each>
void Mailbox::for_each_open(const Each& each) const {
  for (const Peer& peer : peers_) {
    for (const Outgoing& outgoing : peer.outbox) {
      if (outgoing.payload) {
        each(*outgoing.payload);
      }
    }
    for (const auto* some : {&peer.asked, &peer.coming}) {
      for (const auto& [number, posted] : *some) {
        each(posted);
      }
    }
    for (const auto* some : {&peer.sending, &peer.leaving, &peer.posted}) {
      for (const Posted& posted : *some) {
        each(posted);
      }
    }
  }
}

// A rank that leaves has completed its own, and what it sent is there: so what is not there now
// never comes.
void Mailbox::check_left(std::int32_t rank) {
  const Peer& from = peer(rank);
  if (from.posted.empty() && from.asked.empty()) {
    return;
  }
  if (setting_.board->has_left(rank) && transport_.try_receive(rank, {}) == nullptr) {
    const Posted& one = from.posted.empty() ? from.asked.begin()->second : from.posted.front();
    fault_.raise(Error{Code::kUnavailable,
                       fmt::format("{} on rank {} of '{}' never ends: rank {} has left",
                                   describe(*one.work), setting_.rank, setting_.name, rank)});
  }
}

void Mailbox::check_deadlines(std::chrono::steady_clock::time_point now) {
  for (std::int32_t rank = 0; rank < setting_.size && setting_.board != nullptr; ++rank) {
    if (rank != setting_.rank) {
      check_left(rank);
    }
  }
  for_each_open([&](const Posted& posted) {
    if (posted.deadline <= now) {
      const Work::State& work = *posted.work;
      const auto time = work.operation.timeout.value_or(setting_.timeout);
      fault_.raise(
          Error{Code::kDeadline,
                fmt::format("{} on rank {} of '{}' took longer than {} ms; rank {} has not {} it",
                            describe(work), setting_.rank, setting_.name, time.count(),
                            work.operation.root, is_send(work) ? "received" : "sent")});
    }
  });
}

// What is on its way comes to its end without anyone's help; what is not may wait for ever.
void Mailbox::give_up_unmatched() {
  const Posted* one = nullptr;
  for (const Peer& peer : peers_) {
    if (!peer.outbox.empty() || !peer.coming.empty() || !peer.sending.empty() ||
        !peer.leaving.empty()) {
      return;
    }
    if (one == nullptr && !peer.posted.empty()) {
      one = &peer.posted.front();
    } else if (one == nullptr && !peer.asked.empty()) {
      one = &peer.asked.begin()->second;
    }
  }
  if (one != nullptr) {
    fault_.raise(
        Error{Code::kCancelled, fmt::format("rank {} has left '{}' with a {} open", setting_.rank,
                                            setting_.name, describe(*one->work))});
  }
}

std::vector<Mailbox::WorkPtr> Mailbox::take_open() {
  std::vector<WorkPtr> open;
  for_each_open([&](const Posted& posted) { open.push_back(posted.work); });
  peers_.clear();
  peers_.resize(static_cast<std::size_t>(setting_.size));
  return open;
}

bool Mailbox::is_idle() const {
  bool is_idle = true;
  for_each_open([&](const Posted&) { is_idle = false; });
  return is_idle && std::all_of(peers_.begin(), peers_.end(),
                                [](const Peer& peer) { return peer.outbox.empty(); });
}

}  // namespace trainyard::comm
