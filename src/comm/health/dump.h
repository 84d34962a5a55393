// SPDX-License-Identifier: Apache-2.0
// What a fault leaves for people, and what SIGUSR2 gives them (dump_signal.h): the flight record of
// this rank, and a line in the log that says why. Into the file
// `<folder>/flight-rank-<rank>.<name>.jsonl`, where there is a folder for the status: one JSON line
// that says why, and by which transports, then the operations. Otherwise the reason and the last 16
// operations go to the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::comm {

struct FlightDump {
  std::string name;  // of the communicator
  std::int32_t rank = 0;
  Path folder;                  // empty: the log
  std::string transports = {};  // what carries its messages: "shm", "tcp", "shm,tcp" ...

  // `record` is Recorder::to_json_lines(). Without a fault it was asked for. What cannot be written
  // is said in the log.
  void write(const std::optional<Error>& fault, const std::string& record) const;
};

}  // namespace trainyard::comm
