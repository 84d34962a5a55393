// SPDX-License-Identifier: Apache-2.0
// A communicator: the ranks that run operations together. This is the library's face. Every rank
// issues the same operations in the same order, from one thread at a time; each is described by a
// value, checked before anything is sent, and returns at once with a Work. Operations of one
// communicator run one after another, in the order of issue, on its own helper thread or on the
// thread that waits for them, whichever is there first; different communicators run side by side.
// send and receive are matched by peer and tag and run beside the collectives.
//
// Errors: kInvalidArgument: this rank's own description is wrong, and nothing was sent. kConflict:
// the ranks disagree, both sides named. kUnavailable: a peer died or fell silent. kDeadline:
// time-out, with the ranks that are there and those that are not. kCancelled: abort(). After any
// but the first the communicator is closed: every later operation gives the same error. A buffer of
// an operation that failed holds anything, and what is then written to it stays: ranks that come
// late neither change nor read it. A child of fork() has no part in it: operations are
// kInvalidArgument there, and its end is nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/rendezvous/store.h"
#include "comm/schedule/algorithms.h"
#include "comm/types.h"

namespace trainyard::comm {

struct Operation {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kNone;
  // Layouts as algorithms.h says; sizes in bytes, whole elements. For broadcast and all-reduce
  // `input` may be empty: the output is then input, too (in place). They must stay alive until the
  // work is done.
  std::span<const std::byte> input;
  std::span<std::byte> output;
  std::int32_t root = -1;  // of rooted ones; the peer of send and receive
  std::uint32_t tag = 0;   // send and receive
  // Uneven all-gather and reduce-scatter: elements of each rank, the same on all. Uneven
  // all-to-all: elements to each rank
  // (`counts`) and from each (`receive_counts`).
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> receive_counts;
  std::optional<std::chrono::milliseconds> timeout;  // instead of the communicator's
  std::optional<Algorithm> algorithm;  // instead of the table's; the same on all ranks
  std::uint64_t piece_bytes = 0;       // with it: the longest piece; 0: the default
  // Of collectives, on the thread that performs it: right before it, and after it when it is
  // complete, before the work is done. So an operation may be issued whose input depends on the one
  // before. They must not block.
  std::function<void()> prepare = {};
  std::function<void()> finish = {};
};

// An operation on its way. Copies share it.
class Work {
 public:
  // Returns when the operation is complete on this rank, or with its error. May run it on this
  // thread.
  Result<void> wait();
  bool is_done() const;
  // Called once, when done, on the thread that completed it, or at once. Must not block.
  void on_done(std::function<void(const Result<void>&)> told);
  std::uint64_t sequence() const;

  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;  // kept alive by the queue while the operation is in flight
};

// The library reads no environment variable, which would race with threads that set one: who makes
// the options does. libfabric reads its own, FI_*.
struct CommunicatorOptions {
  std::string name = "world";  // the same on all ranks, unique in the store
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of each operation
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
  std::string interface;  // rendezvous/interfaces.h; empty: automatic
  // Instead of what this machine says of itself: ranks that give the same share memory. For trials
  // of several hosts on one machine.
  std::string host;
  // A folder for the sockets by which ranks of a host meet: those who share it, at the same path,
  // share memory across network namespaces. Empty: sockets without a name in a file system.
  std::string sockets;
  // A folder in which this rank shows other processes how far it is, and leaves its flight record
  // on an error. Empty: none.
  std::string status;
  std::vector<std::string> transports;  // "shm", "tcp", "fabric": allowed ones; empty: all
  // Of rank 0, for all: a provider of libfabric, to be used between hosts instead of TCP
  // ("tcp;ofi_rxm", "efa", ...; empty: TCP).
  std::string fabric;
  std::string fabric_filter;  // libfabric's FI_PROVIDER, for the error when it leaves that out
  // Of rank 0, for all: the table of choices (schedule/choose.h; empty: the default one), the
  // mesh's buffers in bytes (0: the table's), and for how long to measure a better table before
  // create() returns (0: not at all).
  std::string table;
  std::uint64_t mesh_scratch = 0;
  std::uint64_t mesh_sort = 0;
  std::chrono::milliseconds sweep = std::chrono::milliseconds(0);
};

class Communicator {
 public:
  // Waits until all ranks are there. kDeadline lists the missing ones and the addresses of the
  // others.
  static Result<std::unique_ptr<Communicator>> create(const CommunicatorOptions& options,
                                                      RendezvousStore& store);
  // Waits for what was issued, then leaves; peers that still need this rank get an error. All get
  // one, kCancelled, when a send or receive is open here for whose other side nobody has come for
  // 5 s.
  ~Communicator();

  std::int32_t rank() const;
  std::int32_t size() const;
  const World& world() const;
  // Whether the kernel reads private memory of the ranks for each other (Algorithm::kSingleCopy);
  // false before an operation has asked.
  bool copies_once() const;

  Result<Work> issue(Operation operation);
  // issue() and wait(), without the detour where it can: for small blocking operations.
  Result<void> run(Operation operation);

  // Memory that the ranks of this host map, too: operations on it need no staging. Page-aligned,
  // zero. Freed with the last reference, which may outlive the communicator. kUnimplemented when no
  // other rank shares memory with this one.
  Result<std::shared_ptr<std::byte[]>> allocate(std::size_t bytes);

  // Measures for at most `limit` which algorithms are best in this world, and uses what rank 0
  // found from then on, on all ranks. All call it, as an operation, when nothing else is under way.
  Result<void> sweep(std::chrono::milliseconds limit = std::chrono::seconds(2));
  // The table of choices in use, as text; it can be given to create().
  std::string table() const;

  // Ends all operations of all ranks with kCancelled and this reason, within a second. From any
  // thread.
  void abort(const std::string& reason);

  // What ended this communicator; nullopt while it works.
  std::optional<Error> fault() const;

  std::string flight_record() const;  // JSON lines, oldest first

  // For an operation that something else performs, as a backend that is wrapped: it takes the next
  // number of the collectives, is recorded, shown to the other ranks and compared with theirs.
  // Called like issue(); the error of the fault when there is one. agree() also waits for all ranks
  // to be there with the same signature, as a barrier does, before the operation is begun: for what
  // does not survive a disagreement. begin_elsewhere() does not wait, and a disagreement is noticed
  // within a second. A send or receive (`signature.root` is the peer) only agrees: its signature
  // travels as a message with `tag`, so that a send has agreed when it is on its way, and a receive
  // when it has come and is the same. Its number is one of the sends and receives.
  Result<Work> agree(const Signature& signature, std::uint64_t bytes,
                     std::chrono::milliseconds timeout, std::uint32_t tag = 0);
  Result<std::uint64_t> begin_elsewhere(const Signature& signature, std::uint64_t bytes);
  // Once for each number of the two, from any thread; `kind` is the operation's.
  void end_elsewhere(OpKind kind, std::uint64_t sequence, bool is_complete);
  // It has taken longer than `timeout`: ends the communicator on all ranks, and says who has not
  // begun it, as far as is known.
  Error give_up_elsewhere(std::uint64_t sequence, const Signature& signature,
                          std::chrono::milliseconds timeout);

  // From what create() makes; run/parts.h.
  struct Parts;
  static std::unique_ptr<Communicator> from_parts(Parts parts);

 private:
  struct State;
  explicit Communicator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::comm
