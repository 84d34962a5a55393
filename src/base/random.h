// SPDX-License-Identifier: Apache-2.0
// Randomness, passed in: the real source is the kernel's; tests and the simulation use a seeded
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>

namespace trainyard {

class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::byte> out) = 0;

  std::uint64_t next();
  // `bytes` random bytes as lower-case hex, for tokens and identifiers.
  std::string hex(std::size_t bytes);
};

// getrandom(2); safe from any thread.
class SystemRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override;
};

// The same sequence for the same seed on every platform; one thread.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> out) override;

 private:
  std::mt19937_64 engine_;
};

}  // namespace trainyard
