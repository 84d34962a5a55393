// SPDX-License-Identifier: Apache-2.0
// The flight recorder: the last 4,096 operations of a rank, each with its state and times. Written
// by the threads that issue and run operations, without locks; read by anyone at any time, also by
// other processes when it lies in a file (the health view of an instance reads the last started and
// the last completed sequence numbers). Written out as JSON lines on a fault (dump.h), and when the
// face asks for it: on SIGUSR2, say.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "comm/health/status_file.h"
#include "comm/types.h"

namespace trainyard::comm {

enum class OpState : std::uint8_t { kIssued, kStarted, kCompleted, kFailed };

struct RecordedOp {
  std::uint64_t sequence = 0;
  Signature signature;
  OpState state = OpState::kIssued;
  std::uint64_t bytes = 0;
  std::int64_t issued_us = 0;  // steady clock, microseconds
  std::int64_t started_us = 0;
  std::int64_t ended_us = 0;
};

class Recorder {
 public:
  static constexpr std::size_t kCapacity = 4096;

  // In memory, or in the file `<folder>/rank-<rank>.<name>` that others may map. It is removed at
  // the end; that of a rank that was killed when another one of the folder ends or begins.
  static Result<std::unique_ptr<Recorder>> create(const std::string& name, std::int32_t rank,
                                                  const Path* folder);
  ~Recorder();

  void issued(std::uint64_t sequence, const Signature& signature, std::uint64_t bytes);
  void started(std::uint64_t sequence);
  void ended(std::uint64_t sequence, bool is_complete);

  std::uint64_t last_issued() const;
  std::uint64_t last_started() const;
  std::uint64_t last_completed() const;

  std::vector<RecordedOp> snapshot() const;  // oldest first; entries being written are left out
  std::string to_json_lines() const;

 private:
  struct Shared;
  Recorder(std::string name, std::int32_t rank) : name_(std::move(name)), rank_(rank) {}
  std::string name_;  // of the communicator
  std::int32_t rank_;
  std::unique_ptr<Shared, void (*)(Shared*)> shared_{nullptr, nullptr};
  std::optional<StatusFile> file_;
};

// What another process sees in such a file. kCorrupt when it is none, or of another version.
struct Progress {
  std::uint64_t issued = 0;
  std::uint64_t started = 0;
  std::uint64_t completed = 0;
};
Result<Progress> read_progress(const Path& file);

}  // namespace trainyard::comm
