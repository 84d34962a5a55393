// SPDX-License-Identifier: Apache-2.0
// send and receive over a transport of ordered messages: matches them by (peer, tag) in the order
// of issue, any number in flight in both directions. Used by one thread at a time
// (point_to_point.h).
//
// Small payloads go at once ("eager") and wait at the receiver until they are asked for; each
// sender has credit for kCredit such messages, so that what waits is bounded. Everything else is
// asked for: request -> clear -> data, data, ... A message is a Label whose sequence is
// (number of the transfer << 3 | kind) and whose signature is the sender's own (root: the tag).
//
//   sender                        receiver
//     | eager(tag, payload) -------> | matched, or kept
//     | <------------- credit(count) | after half of the credit was used
//     | request(tag, no payload) --> | matched, or kept
//     | <-------------- clear(number)| when matched
//     | data(number, piece) ...  --> |
//
// A receive that matches a message of another dtype or count is a disagreement: the receiver raises
// it, and the Fault carries it to the sender.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/health/fault.h"
#include "comm/health/progress.h"
#include "comm/run/work.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

class Mailbox {
 public:
  static constexpr std::uint64_t kCredit = 32;
  static constexpr std::size_t kEager = 8192;

  struct Setting {
    std::string name;  // of the communicator, for errors
    std::int32_t rank = 0;
    std::int32_t size = 1;
    std::chrono::milliseconds timeout = std::chrono::minutes(10);
    const ProgressBoard* board = nullptr;  // may be null; outlives it
  };
  using WorkPtr = std::shared_ptr<Work::State>;

  // Both outlive it.
  Mailbox(Transport& transport, Fault& fault, Setting setting);

  void post(WorkPtr work, std::chrono::steady_clock::time_point issued);
  // Moves what can be moved; true when something did. A disagreement is raised in the Fault.
  bool drive();
  // Raises kDeadline in the Fault for the first operation that is over its time, and kUnavailable
  // for one that waits for a rank that has left.
  void check_deadlines(std::chrono::steady_clock::time_point now);
  // For a rank that leaves: raises kCancelled in the Fault when all that is open are receives
  // without a message and sends that nobody has asked for.
  void give_up_unmatched();
  // What was completed since the last call.
  std::vector<WorkPtr> take_done() { return std::exchange(done_, {}); }
  // Everything that is not complete, after a fault.
  std::vector<WorkPtr> take_open();
  // Nothing is under way, and nothing is left to tell anyone.
  bool is_idle() const;

 private:
  enum class Kind : std::uint8_t { kEager, kRequest, kClear, kData, kCredit };
  struct Posted {
    WorkPtr work;
    std::chrono::steady_clock::time_point deadline;
    std::uint64_t at = 0;      // bytes moved
    std::uint64_t number = 0;  // of the transfer
    std::vector<Ticket> tickets;
  };
  struct Unexpected {
    Signature signature;
    std::uint64_t number = 0;
    std::optional<std::vector<std::byte>> payload;  // none: a request
  };
  struct Outgoing {  // a message that is not yet sent
    Kind kind = Kind::kEager;
    std::uint64_t number = 0;
    Signature signature;
    std::optional<Posted> payload;  // of kEager: all of it
  };
  struct Peer {
    std::deque<Outgoing> outbox;
    std::uint64_t credit = kCredit;
    std::uint64_t consumed = 0;             // eager messages, not yet given back
    std::map<std::uint64_t, Posted> asked;  // sends, until they are cleared
    std::deque<Posted> sending;             // cleared
    std::deque<Posted> leaving;             // sent, but still read where they lie
    std::deque<Posted> posted;              // receives without a match
    std::deque<Unexpected> unexpected;
    std::map<std::uint64_t, Posted> coming;  // receives, by the peer's number
  };

  Peer& peer(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void post_send(Posted posted);
  void post_receive(Posted posted);
  void post_to_self(Posted posted);
  static bool is_needed(const Peer& peer);
  const Inbound* try_receive(std::int32_t rank);
  bool receive_from(std::int32_t rank);
  void handle(std::int32_t rank, const Inbound& inbound);
  void arrive(std::int32_t rank, Unexpected message, std::span<const std::byte> payload);
  void match(std::int32_t rank, Posted receive, const Unexpected& message,
             std::span<const std::byte> payload);
  void take_data(std::int32_t rank, std::uint64_t number, std::span<const std::byte> bytes);
  bool send_to(std::int32_t rank);
  bool send_outgoing(std::int32_t rank, Outgoing& outgoing);
  bool send_piece(std::int32_t rank, Posted& posted);
  bool finish_leaving(Peer& peer);
  void finish(Posted& posted) { done_.push_back(std::move(posted.work)); }
  bool agrees(std::int32_t rank, const Work::State& work, const Signature& theirs);
  void give_back_credit(std::int32_t rank);
  void check_left(std::int32_t rank);
  template <typename Each>
  void for_each_open(const Each& each) const;

  Transport& transport_;
  Fault& fault_;
  Setting setting_;
  std::vector<Peer> peers_;
  std::uint64_t last_number_ = 0;
  std::vector<WorkPtr> done_;
};

}  // namespace trainyard::comm
