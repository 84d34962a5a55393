// SPDX-License-Identifier: Apache-2.0
// An uneven all-to-all of another backend: no rank knows all amounts, so each tells each what it
// sends, through the library, before the operation begins. Gloo would end the process or take a
// part where what one sends is not what the other takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base.h"

namespace trainyard::torch_shim {

// In elements, by rank.
struct Splits {
  std::vector<std::uint64_t> sent;
  std::vector<std::uint64_t> taken;
  std::vector<std::uint64_t> told = {};  // what the others send to this rank
};

// An operation of the library, in the order of issue. `told` is there when it is done, which it is
// when a later one is.
inline std::shared_ptr<const Splits> tell_splits(yard_comm* comm, Splits own,
                                                 Milliseconds timeout) {
  const auto splits = std::make_shared<Splits>(std::move(own));
  splits->told.resize(splits->sent.size());
  const std::size_t bytes = splits->sent.size() * sizeof(std::uint64_t);
  const yard_operation operation{.kind = YARD_ALL_TO_ALL,
                                 .dtype = YARD_I64,
                                 .root = -1,
                                 .input = splits->sent.data(),
                                 .input_bytes = bytes,
                                 .output = splits->told.data(),
                                 .output_bytes = bytes,
                                 .timeout_ms = timeout.count()};
  yard_work* work = nullptr;
  char* error = nullptr;
  const int code = yard_comm_issue(comm, &operation, &work, &error);
  check(code, error);
  // The memory stays until the end, also when nobody asks for it any more.
  yard_work_on_done(
      work,
      [](void* context, int, const char*) {
        delete static_cast<std::shared_ptr<Splits>*>(context);
      },
      new std::shared_ptr<Splits>(splits));  // owned by the callback
  yard_work_free(work);
  return splits;
}

inline void check_told(const Splits& splits, int own_rank) {
  for (std::size_t rank = 0; rank < splits.told.size(); ++rank) {
    if (splits.told[rank] != splits.taken[rank]) {
      fail(YARD_CONFLICT, "all_to_all: rank " + std::to_string(rank) + " sends " +
                              std::to_string(splits.told[rank]) + " elements to rank " +
                              std::to_string(own_rank) + ", which takes " +
                              std::to_string(splits.taken[rank]));
    }
  }
}

}  // namespace trainyard::torch_shim
