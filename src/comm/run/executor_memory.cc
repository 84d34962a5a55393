// SPDX-License-Identifier: Apache-2.0
// The memory of other ranks: the meeting in which they learn where it lies, and reading it through
// the kernel.
#include <algorithm>
#include <cstring>

#include "comm/run/executor.h"
#include "comm/run/explain.h"

namespace trainyard::comm {
namespace {

constexpr auto kReason = std::chrono::seconds(2);  // until a death has a name
// Between two looks at the fault.
constexpr std::size_t kBlock = std::size_t{1} << 20;

}  // namespace

Result<Reach> Executor::meet(const Task& task) {
  begin(task);
  struct Invitation {
    Window input;
    Window output;
    std::uint64_t address = 0;  // of the input
    bool reaches_all = false;
    bool is_readable = false;
  };
  // An operation with one buffer, such as a broadcast, shows it twice.
  const std::span<const std::byte> output = task.output.empty() ? task.input : task.output;
  const std::span<const std::byte> input = task.input.empty() ? output : task.input;
  const Invitation own{.input = transport_.window_of(input),
                       .output = transport_.window_of(output),
                       .address = reinterpret_cast<std::uint64_t>(input.data()),
                       .reaches_all = transport_.reaches_all_memory(),
                       .is_readable = transport_.is_readable(input)};
  std::span<std::byte> slot;
  if (!reserve(others_, sizeof(own), &slot)) {
    return fault_.error();
  }
  std::memcpy(slot.data(), &own, sizeof(own));
  transport_.publish(others_, task.label);
  bool is_mapped = own.input.heap != 0 && own.output.heap != 0;
  bool is_copied = own.reaches_all && own.is_readable;
  reaches_all_ = own.reaches_all;
  for (const std::int32_t peer : others_) {
    const Inbound* inbound = receive(peer, {}, sizeof(Invitation));
    if (inbound == nullptr) {
      return fault_.error();
    }
    Invitation theirs;
    std::memcpy(&theirs, inbound->bytes.data(), sizeof(theirs));
    transport_.release(peer);
    inputs_[static_cast<std::size_t>(peer)] = theirs.address;
    is_copied = is_copied && theirs.reaches_all && theirs.is_readable;
    reaches_all_ = reaches_all_ && theirs.reaches_all;
    is_mapped = is_mapped && theirs.input.heap != 0 && theirs.output.heap != 0;
    if (is_mapped) {
      // Their descriptors may come a little later than this message.
      Mapped& mapped = mapped_[static_cast<std::size_t>(peer)];
      const bool has_come = wait_until(
          [&] {
            mapped.input = transport_.map(peer, theirs.input);
            mapped.output = transport_.map(peer, theirs.output);
            return mapped.input != nullptr && mapped.output != nullptr;
          },
          peer);
      if (!has_come) {
        return fault_.error();
      }
    }
  }
  if (!is_mapped) {
    transport_.unmap();
  }
  const Reach without_maps = is_copied ? Reach::kCopied : Reach::kMessages;
  reach_ = is_mapped ? Reach::kMapped : without_maps;
  return reach_;
}

// A part of another rank's input into the output. In blocks, as in apply().
bool Executor::fetch(const Step& step, const Piece& piece, const Move& move) {
  const std::int32_t peer = step.read.front();
  const std::uint64_t from =
      inputs_[static_cast<std::size_t>(peer)] + (step.remote->offset + piece.begin) * element_;
  for (std::size_t at = 0; at < piece.bytes; at += kBlock) {
    const std::size_t bytes = std::min(kBlock, piece.bytes - at);
    const Result<void> fetched = transport_.fetch(peer, from + at, {move.store + at, bytes});
    if (!fetched) {
      raise_out_of_reach(peer, fetched.error());
    }
    if (fault_.is_raised()) {
      return false;
    }
  }
  return true;
}

// After the last look into the memory of others: what was there is only what it should have been if
// its owner has not ended the operation meanwhile. Also before each block that is written there.
bool Executor::are_all_there() {
  for (const std::int32_t peer : others_) {
    if (transport_.has_given_up(peer)) {
      raise_out_of_reach(peer, Error{Code::kUnavailable, "it has ended the operation"});
      return false;
    }
  }
  return true;
}

// Memory that is not there any more is most often that of a rank that has ended or given up:
// whoever watches over it knows why, and is given the time to say so.
void Executor::raise_out_of_reach(std::int32_t peer, const Error& why) {
  const auto until = std::chrono::steady_clock::now() + kReason;
  while (std::chrono::steady_clock::now() < until) {
    if (!pause(peer)) {
      return;
    }
  }
  fault_.raise(out_of_reach(scene(), peer, why));
}

}  // namespace trainyard::comm
