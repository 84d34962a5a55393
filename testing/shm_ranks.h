// SPDX-License-Identifier: Apache-2.0
// The ranks of one host for tests, as threads of this process: a segment and a transport of each
// rank, made in one place. They share one mapping, so that ThreadSanitizer sees what they share.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "base/check.h"
#include "comm/transport/shm/shm_transport.h"

namespace trainyard::comm {

class ShmRanks {
 public:
  explicit ShmRanks(std::uint32_t world) : ShmRanks(default_shape(world)) {}
  explicit ShmRanks(const SegmentShape& shape, bool fences = false) : heaps_(shape.world) {
    Result<Segment> made = Segment::create(shape);
    YARD_CHECK(made.has_value(), "no segment");
    segment_ = std::make_shared<const Segment>(std::move(*made));
    if (fences) {
      segment_->demand_fences();
    }
    std::vector<std::int32_t> ranks(shape.world);
    std::iota(ranks.begin(), ranks.end(), 0);
    for (std::uint32_t rank = 0; rank < shape.world; ++rank) {
      auto transport =
          ShmTransport::create(segment_, {.index = rank, .ranks = ranks}, fault_, heaps_[rank]);
      YARD_CHECK(transport.has_value(), "no transport");
      transports_.push_back(std::move(*transport));
    }
  }

  ShmTransport& operator[](std::size_t rank) { return *transports_[rank]; }
  HeapRegistry& heaps(std::size_t rank) { return heaps_[rank]; }
  const Segment& segment() const { return *segment_; }
  Fault& fault() { return fault_; }

  // Runs body(rank, transport) on a thread of each rank and waits for all.
  template <typename Body>
  void run(const Body& body) {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < transports_.size(); ++rank) {
      threads.emplace_back([this, rank, &body] { body(rank, *transports_[rank]); });
    }
  }

 private:
  std::shared_ptr<const Segment> segment_;
  std::vector<HeapRegistry> heaps_;
  Fault fault_;
  std::vector<std::unique_ptr<ShmTransport>> transports_;
};

}  // namespace trainyard::comm
