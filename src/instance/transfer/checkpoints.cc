// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoints.h"

#include <utility>

#include "instance/faults.h"
#include "instance/transfer/checkpoint_restore.h"

namespace trainyard::instance {

Result<void> Checkpoints::restore(s3::ObjectStore& store, const ProgressSinks& sinks,
                                  const std::stop_token& stop) {
  if (!place_) {
    return {};
  }
  Result<StoredFiles> restored = restore_checkpoints(*place_, store, sinks, stop);
  if (!restored) {
    return clients_fault(restored.error().in("restoring checkpoints from " + place_->uri()));
  }
  restored_ = std::move(*restored);
  return {};
}

Result<void> Checkpoints::start(const MakeStore& make_store, MirrorSinks sinks, Clock& clock) {
  if (!place_) {
    return {};
  }
  const std::stop_source cancel;
  YARD_TRY(store_, make_store(cancel.get_token()));
  YARD_TRY(mirror_, CheckpointMirror::start({.place = *place_,
                                             .store = *store_,
                                             .cancel = cancel,
                                             .clock = clock,
                                             .sinks = std::move(sinks)},
                                            restored_));
  return {};
}

void Checkpoints::stopping() {
  if (mirror_) {
    mirror_->stopping();
  }
}

void Checkpoints::killed(const Kill& kill) {
  if (mirror_) {
    mirror_->killed(kill);
  }
}

void Checkpoints::flush() {
  if (mirror_) {
    mirror_->flush();
  }
}

void Checkpoints::cancel() {
  if (mirror_) {
    mirror_->cancel();
  }
}

bool Checkpoints::wait_for_end(Duration time) {
  return !mirror_ || mirror_->wait_for_end(time);
}

}  // namespace trainyard::instance
