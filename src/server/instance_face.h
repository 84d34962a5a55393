// SPDX-License-Identifier: Apache-2.0
// The server's end of the instance protocol (docs/wire.md): checks version and token, hands the
// four calls to control and writes their answers. Long polls keep their exchange and give their
// worker back; when control answers, the bytes are sent by threads of this face, so that a client
// that does not read never holds up control.
#pragma once

#include <memory>
#include <string>

#include "base/thread.h"
#include "control/control.h"
#include "http/server.h"
#include "server/classify.h"

namespace trainyard::server {

class InstanceFace {
 public:
  // `control` is borrowed and must have given all its answers when this is destroyed.
  explicit InstanceFace(control::Control& control) : control_(control), answers_("answers", 4) {}

  // `route` is kInstance. Always answers, perhaps later.
  void handle(std::unique_ptr<http::Exchange> exchange, const Route& route);

 private:
  void poll_commands(const std::shared_ptr<http::Exchange>& exchange,
                     const control::InstanceCaller& caller);

  control::Control& control_;
  WorkerPool answers_;
};

}  // namespace trainyard::server
