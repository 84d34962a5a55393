// SPDX-License-Identifier: Apache-2.0
// Whether ranks that use each other's memory use the same element at once: a race detector with
// vector clocks. A use happens before another one when a chain of messages leads from the first to
// the second; of two uses without such a chain, neither may be a write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard::comm {

class SharedUse {
 public:
  // All have met at the beginning.
  explicit SharedUse(std::size_t ranks)
      : ranks_(ranks), clocks_(ranks, std::vector<std::uint32_t>(ranks)) {}

  void add_memory(std::size_t elements);  // of the next rank

  void begin_step(std::int32_t rank);
  const std::vector<std::uint32_t>& clock(std::int32_t rank) const;
  void hear(std::int32_t rank, const std::vector<std::uint32_t>& clock);

  // False when another rank's use is not known to be before this one.
  bool read(std::int32_t rank, std::size_t owner, std::uint64_t begin, std::uint64_t length);
  bool write(std::int32_t rank, std::size_t owner, std::uint64_t begin, std::uint64_t length);
  // Whether all uses of the memory of `rank` are before what it does next.
  bool is_over(std::int32_t rank) const;

 private:
  struct Element {
    std::size_t writer = 0;
    std::uint32_t written = 0;        // on the clock of the writer
    std::vector<std::uint32_t> read;  // by each rank, on its clock; empty: by none
  };
  bool is_after_write(std::size_t rank, const Element& element) const;
  bool is_after_reads(std::size_t rank, const Element& element) const;

  std::size_t ranks_;
  std::vector<std::vector<std::uint32_t>> clocks_;
  std::vector<std::vector<Element>> memories_;
};

}  // namespace trainyard::comm
