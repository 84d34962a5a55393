// SPDX-License-Identifier: Apache-2.0
#include "comm/run/collectives.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace trainyard::comm {
namespace {

// Where the output begins from the input, when they share memory: check() allows that only for the
// same elements.
Shift shift_of(const Task& task, std::size_t element) {
  const std::byte* in = task.input.data();
  const std::byte* out = task.output.data();
  if (in == nullptr || out == nullptr || in >= out + task.output.size() ||
      out >= in + task.input.size()) {
    return std::nullopt;
  }
  return (out - in) / static_cast<std::int64_t>(element);
}

Choice asked_choice(const Operation& operation) {
  Choice choice{.algorithm = *operation.algorithm};
  if (operation.piece_bytes != 0) {
    choice.piece_bytes = operation.piece_bytes;
  }
  return choice;
}

}  // namespace

Collectives::Collectives(Parts parts)
    : parts_(std::move(parts)),
      executor_(parts_.transport, parts_.fault,
                {.name = parts_.name,
                 .rank = parts_.world.rank,
                 .size = parts_.world.size,
                 .board = parts_.board}),
      chooser_(parts_.choices, parts_.world),
      mesh_(parts_.choices.mesh),
      limits_(parts_.limits) {}

void Collectives::use(const Choices& choices) {
  chooser_ = Chooser(choices, parts_.world);
  mesh_ = choices.mesh;
}

void Collectives::note_issued(std::uint64_t sequence, const Checked& checked) {
  parts_.recorder.issued(sequence, checked.signature, checked.bytes);
  if (parts_.board != nullptr) {
    parts_.board->note_issued(sequence, checked.signature);
  }
}

void Collectives::note_started(std::uint64_t sequence) {
  parts_.recorder.started(sequence);
  if (parts_.board != nullptr) {
    parts_.board->note_started(sequence);
  }
}

Result<void> Collectives::perform(std::uint64_t sequence, const Operation& operation,
                                  const Checked& checked, Patience patience) {
  if (parts_.fault.is_raised()) {
    parts_.recorder.ended(sequence, false);
    return parts_.fault.error();
  }
  note_started(sequence);
  executor_.set_patience(patience);
  const Task task{.label = {.sequence = sequence, .signature = checked.signature},
                  .input = operation.input,
                  .output = operation.output,
                  .timeout = operation.timeout.value_or(parts_.timeout)};
  if (operation.prepare) {
    operation.prepare();
  }
  Result<void> done = execute(task, operation, checked);
  if (done && operation.finish) {
    operation.finish();
  }
  if (done && checked.is_elsewhere) {
    return done;
  }
  parts_.recorder.ended(sequence, done.has_value());
  if (done && parts_.board != nullptr) {
    parts_.board->note_completed(sequence);
  }
  return done;
}

Result<void> Collectives::execute(const Task& task, const Operation& operation,
                                  const Checked& checked) {
  const OpKind kind = checked.request.kind;
  const bool is_alone = parts_.world.size == 1;
  const std::size_t element = size_of(checked.signature.dtype);
  const Reach hoped = is_alone ? Reach::kMessages : Reach::kMapped;
  Choice choice = operation.algorithm ? asked_choice(operation)
                                      : chooser_.choose(checked.request, element, hoped);
  Reach needed = needed_by(Rule{.choice = choice});
  if (needed == Reach::kCopied && !may_be_copied_) {
    choice = chooser_.choose(checked.request, element, Reach::kMessages);
    needed = Reach::kMessages;
  }
  if (needed != Reach::kMessages && !is_alone) {
    YARD_TRY(const Reach reach, executor_.meet(task));
    may_be_copied_ = executor_.reaches_all();
    copies_once_ = may_be_copied_;
    if (reach < needed) {
      choice = chooser_.choose(checked.request, element, reach);
    }
  }
  YARD_TRY(executor_.perform(task, plan_for(choice, task, checked)));
  const bool is_source = kind == OpKind::kBroadcast && operation.root == parts_.world.rank;
  if (is_source && !task.output.empty() && task.output.data() != task.input.data()) {
    std::memcpy(task.output.data(), task.input.data(), task.input.size());
  }
  return {};
}

const Plan& Collectives::plan_for(const Choice& choice, const Task& task, const Checked& checked) {
  const std::size_t element = size_of(checked.signature.dtype);
  const Shift shift = shift_of(task, element);
  const PlanKey key{
      .signature = checked.signature, .choice = choice, .in_place = shift.has_value()};
  const bool is_uneven = (checked.signature.flags & 1) != 0;
  const Request& request = checked.request;
  if (!is_uneven) {
    if (const Plan* plan = plans_.find(key); plan != nullptr) {
      return *plan;
    }
  } else if (uneven_ && uneven_->key == key && uneven_->shift == shift &&
             uneven_->counts == request.counts &&
             uneven_->receive_counts == request.receive_counts) {
    return uneven_->plan;
  }
  Plan plan =
      make_plan(make_schedule(choice.algorithm, request, parts_.world),
                {.element = element,
                 .piece_bytes = choice.piece_bytes,
                 .shift = shift,
                 .most_under_way = choice.algorithm == Algorithm::kMesh ? mesh_.scratch : 0},
                limits_);
  if (is_uneven) {
    uneven_ = Uneven{.key = key,
                     .counts = request.counts,
                     .receive_counts = request.receive_counts,
                     .shift = shift,
                     .plan = std::move(plan)};
    return uneven_->plan;
  }
  return *plans_.keep(key, std::move(plan));
}

}  // namespace trainyard::comm
