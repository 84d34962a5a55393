// SPDX-License-Identifier: Apache-2.0
// The checkpoints of one attempt on one host, in order: restore, before the user's program starts;
// mirror, while it runs; flush, when its processes have ended. Does nothing for a job without
// CheckpointConfig. The session's thread calls it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "base/clock.h"
#include "base/result.h"
#include "instance/transfer/checkpoint_mirror.h"
#include "instance/transfer/checkpoint_place.h"
#include "instance/transfer/downloads.h"
#include "s3/object_store.h"

namespace trainyard::instance {

// A store whose calls end with the token. It should not try for long by itself: the mirror does.
using MakeStore = std::function<Result<std::unique_ptr<s3::ObjectStore>>(std::stop_token)>;

class Checkpoints {
 public:
  Checkpoints() = default;
  explicit Checkpoints(CheckpointPlace place) : place_(std::move(place)) {}

  // Errors are of the job (its URI, its role) or of the store.
  Result<void> restore(s3::ObjectStore& store, const ProgressSinks& sinks,
                       const std::stop_token& stop);
  Result<void> start(const MakeStore& make_store, MirrorSinks sinks, Clock& clock);
  void stopping();                // before the user's processes are told
  void killed(const Kill& kill);  // one of them was
  void flush();
  void cancel();
  bool wait_for_end(Duration time);  // of the flush

 private:
  std::optional<CheckpointPlace> place_;
  StoredFiles restored_;
  std::unique_ptr<s3::ObjectStore> store_;
  std::unique_ptr<CheckpointMirror> mirror_;
};

}  // namespace trainyard::instance
