// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/board.h"

#include <bit>

namespace trainyard::comm {

using Words = std::array<std::uint64_t, 2>;

// A sequence lock without fences. The words are stored with release, so a reader that got a new
// word (acquire) also sees the sequence number withdrawn, or a newer one, in its second look.
void Board::note_issued(std::uint64_t sequence, const Signature& signature) {
  Kept& kept = kept_[sequence % kKeptOperations];
  const Words words = std::bit_cast<Words>(signature);
  kept.sequence.store(0, std::memory_order_relaxed);
  kept.words[0].store(words[0], std::memory_order_release);
  kept.words[1].store(words[1], std::memory_order_release);
  kept.sequence.store(sequence, std::memory_order_release);
  issued_.store(sequence, std::memory_order_release);
}

std::optional<Signature> Board::signature_of(std::uint64_t sequence) const {
  const Kept& kept = kept_[sequence % kKeptOperations];
  if (sequence == 0 || kept.sequence.load(std::memory_order_acquire) != sequence) {
    return std::nullopt;
  }
  const Words words = {kept.words[0].load(std::memory_order_acquire),
                       kept.words[1].load(std::memory_order_acquire)};
  if (kept.sequence.load(std::memory_order_relaxed) != sequence) {
    return std::nullopt;
  }
  return std::bit_cast<Signature>(words);
}

void Board::set_cpus(const Cpus& cpus) {
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    cpus_[i].store(cpus[i], std::memory_order_relaxed);
  }
}

Board::Cpus Board::cpus() const {
  Cpus cpus = {};
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    cpus[i] = cpus_[i].load(std::memory_order_relaxed);
  }
  return cpus;
}

void Board::set_memory(const MemoryCard& card) {
  const auto words = std::bit_cast<std::array<std::uint64_t, sizeof(MemoryCard) / 8>>(card);
  for (std::size_t i = 0; i < words.size(); ++i) {
    memory_[i].store(words[i], std::memory_order_relaxed);
  }
}

MemoryCard Board::memory() const {
  std::array<std::uint64_t, sizeof(MemoryCard) / 8> words = {};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = memory_[i].load(std::memory_order_relaxed);
  }
  return std::bit_cast<MemoryCard>(words);
}

}  // namespace trainyard::comm
