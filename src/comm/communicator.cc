// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.h"

#include <utility>

#include <fmt/format.h>

#include "base/mutex.h"
#include "comm/health/dump_signal.h"
#include "comm/rendezvous/forks.h"
#include "comm/run/check.h"
#include "comm/run/explain.h"
#include "comm/run/parts.h"
#include "comm/run/point_to_point.h"
#include "comm/run/queue.h"
#include "comm/run/sweep.h"

namespace trainyard::comm {
namespace {

bool is_one_sided(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kReceive;
}

Result<Checked> check_all(Operation& operation, const World& world) {
  YARD_TRY(Checked checked, check(operation, world.rank, world.size));
  if (operation.algorithm && !is_available(*operation.algorithm, operation.kind, world)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: there is no {} algorithm for it in this world",
                             name_of(operation.kind), name_of(*operation.algorithm))};
  }
  return checked;
}

Limits limits_of(const Transport& transport) {
  return {.max_message = transport.max_message(),
          .room = transport.room(),
          .message_cost = Transport::kMessageCost};
}

}  // namespace

// The queue and the sends end first, then the parts.
struct Communicator::State {
  // In a child of fork() there are no threads, and what is shared is the parent's.
  bool is_elsewhere() const { return forks != forks_so_far(); }
  Result<void> check_process() const {
    if (is_elsewhere()) {
      return Error{Code::kInvalidArgument,
                   fmt::format("'{}' belongs to the process that this one was forked from: a child "
                               "makes a world of its own",
                               parts.name)};
    }
    return {};
  }

  explicit State(Parts from)
      : parts(std::move(from)),
        collectives({.transport = *parts.collectives,
                     .fault = *parts.fault,
                     .recorder = *parts.recorder,
                     .board = parts.board.get(),
                     .world = parts.world,
                     .choices = parts.choices,
                     .limits = parts.limits.value_or(limits_of(*parts.collectives)),
                     .name = parts.name,
                     .timeout = parts.timeout}),
        point_to_point(*parts.point_to_point, *parts.fault, *parts.point_to_point_recorder,
                       {.name = parts.name,
                        .rank = parts.world.rank,
                        .size = parts.world.size,
                        .timeout = parts.timeout,
                        .board = parts.board.get()}),
        queue(collectives, *parts.fault, parts.name) {}

  std::optional<Error> fault() const {
    return parts.fault->is_raised() ? std::optional<Error>(parts.fault->error()) : std::nullopt;
  }

  void write_record(const std::optional<Error>& error) {
    if (parts.dump) {
      const MutexLock lock(dumping);
      parts.dump(error,
                 parts.recorder->to_json_lines() + parts.point_to_point_recorder->to_json_lines());
    }
  }

  const std::uint32_t forks = forks_so_far();
  Mutex dumping;
  Parts parts;
  Collectives collectives;
  PointToPoint point_to_point;
  Queue queue;
  const OnDumpSignal on_signal{[this] { write_record(fault()); }};
};

std::unique_ptr<Communicator> Communicator::from_parts(Parts parts) {
  auto state = std::make_unique<State>(std::move(parts));
  Fault& fault = *state->parts.fault;
  fault.pass_on_by([&from = *state](const Error& error) {
    if (from.parts.spread) {
      from.parts.spread(error);
    }
    // Before anyone has the error, and with it its buffers.
    if (!from.is_elsewhere()) {
      from.parts.collectives->give_up();
      from.parts.point_to_point->give_up();
    }
  });
  fault.on_raise([&from = *state](const Error& error) {
    from.parts.collectives->wake();
    from.parts.point_to_point->wake();
    from.write_record(error);
  });
  return std::unique_ptr<Communicator>(new Communicator(std::move(state)));
}

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Communicator::~Communicator() {
  if (state_ != nullptr && state_->is_elsewhere()) {
    [[maybe_unused]] const State* left = state_.release();  // goes with the process
  }
}

std::int32_t Communicator::rank() const {
  return state_->parts.world.rank;
}
std::int32_t Communicator::size() const {
  return state_->parts.world.size;
}
const World& Communicator::world() const {
  return state_->parts.world;
}

Result<Work> Communicator::issue(Operation operation) {
  YARD_TRY(state_->check_process());
  YARD_TRY(Checked checked, check_all(operation, world()));
  if (is_one_sided(operation.kind)) {
    YARD_TRY(auto work, state_->point_to_point.issue(std::move(operation), std::move(checked)));
    return Work(std::move(work));
  }
  YARD_TRY(auto work, state_->queue.issue(std::move(operation), std::move(checked)));
  return Work(std::move(work));
}

Result<void> Communicator::run(Operation operation) {
  YARD_TRY(state_->check_process());
  YARD_TRY(Checked checked, check_all(operation, world()));
  if (is_one_sided(operation.kind)) {
    return state_->point_to_point.run(std::move(operation), std::move(checked));
  }
  return state_->queue.run(std::move(operation), std::move(checked));
}

Result<std::shared_ptr<std::byte[]>> Communicator::allocate(std::size_t bytes) {
  YARD_TRY(state_->check_process());
  if (!state_->parts.allocate) {
    return Error{Code::kUnimplemented,
                 fmt::format("no other rank of '{}' shares memory with rank {}", state_->parts.name,
                             rank())};
  }
  return state_->parts.allocate(bytes);
}

Result<void> Communicator::sweep(std::chrono::milliseconds limit) {
  Choices& choices = state_->parts.choices;
  YARD_TRY(choices, run_sweep(*this, choices, {.time = limit}));
  state_->collectives.use(choices);
  return {};
}

bool Communicator::copies_once() const {
  return state_->collectives.copies_once();
}

std::string Communicator::table() const {
  return to_string(state_->parts.choices);
}

void Communicator::abort(const std::string& reason) {
  state_->parts.fault->raise(
      Error{Code::kCancelled,
            fmt::format("'{}' was aborted by rank {}: {}", state_->parts.name, rank(), reason)});
}

std::optional<Error> Communicator::fault() const {
  return state_->fault();
}

Result<Work> Communicator::agree(const Signature& signature, std::uint64_t bytes,
                                 std::chrono::milliseconds timeout, std::uint32_t tag) {
  YARD_TRY(state_->check_process());
  Operation operation;
  operation.timeout = timeout;
  Checked checked{.request = {.kind = OpKind::kBarrier},
                  .signature = signature,
                  .bytes = bytes,
                  .is_elsewhere = true};
  if (is_one_sided(signature.kind)) {
    operation.kind = signature.kind;
    operation.root = signature.root;
    operation.tag = tag;
    YARD_TRY(const Checked own, check(operation, rank(), size()));
    checked.request = own.request;
    YARD_TRY(auto work, state_->point_to_point.issue(std::move(operation), std::move(checked)));
    return Work(std::move(work));
  }
  YARD_TRY(auto work, state_->queue.issue(std::move(operation), std::move(checked)));
  return Work(std::move(work));
}

Result<std::uint64_t> Communicator::begin_elsewhere(const Signature& signature,
                                                    std::uint64_t bytes) {
  YARD_TRY(state_->check_process());
  if (const auto raised = fault()) {
    return *raised;
  }
  return state_->queue.note_elsewhere({.request = {}, .signature = signature, .bytes = bytes});
}

void Communicator::end_elsewhere(OpKind kind, std::uint64_t sequence, bool is_complete) {
  Parts& parts = state_->parts;
  if (is_one_sided(kind)) {
    parts.point_to_point_recorder->ended(sequence, is_complete);
    return;
  }
  parts.recorder->ended(sequence, is_complete);
  if (is_complete && parts.board != nullptr) {
    parts.board->note_completed(parts.recorder->last_completed());  // they may end in any order
  }
}

Error Communicator::give_up_elsewhere(std::uint64_t sequence, const Signature& signature,
                                      std::chrono::milliseconds timeout) {
  Parts& parts = state_->parts;
  if (is_one_sided(signature.kind)) {
    parts.fault->raise(Error{
        Code::kDeadline, fmt::format("{} on rank {} of '{}' took longer than {} ms",
                                     to_string(signature), rank(), parts.name, timeout.count())});
    return parts.fault->error();
  }
  Overdue what{.timeout = timeout};
  for (std::int32_t rank = 0; rank < parts.world.size; ++rank) {
    const auto last = parts.board == nullptr ? std::nullopt : parts.board->last_issued(rank);
    if (last && *last >= sequence) {
      what.heard.push_back(rank);
    } else {
      what.silent.push_back({.rank = rank, .last_issued = last});
    }
  }
  const Scene scene{.communicator = parts.name,
                    .rank = parts.world.rank,
                    .label = {.sequence = sequence, .signature = signature}};
  parts.fault->raise(overdue(scene, what));
  return parts.fault->error();
}

std::string Communicator::flight_record() const {
  return state_->parts.recorder->to_json_lines() +
         state_->parts.point_to_point_recorder->to_json_lines();
}

}  // namespace trainyard::comm
