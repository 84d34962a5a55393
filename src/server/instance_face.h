// SPDX-License-Identifier: Apache-2.0
// The server's end of the instance protocol (docs/wire.md): checks the version and the proof of
// each request, hands the four calls to control and proves their answers. Long polls keep their
// exchange and give their worker back; when control answers, the bytes are sent by threads of this
// face, so that a client that does not read never holds up control.
#pragma once

#include <memory>
#include <string>

#include "base/random.h"
#include "base/thread.h"
#include "control/control.h"
#include "http/server.h"
#include "server/classify.h"
#include "wire/proof.h"

namespace trainyard::server {

// Whether a request says that it is from an instance that `control` knows. That is no proof.
bool names_known_instance(control::Control& control, const http::Request& request);

class InstanceFace {
 public:
  // `control` is borrowed and must have given all its answers when this is destroyed.
  InstanceFace(control::Control& control, Random& random)
      : control_(control), run_(random.hex(16)), answers_("answers", 4) {}

  // `route` is kInstance. Always answers, perhaps later.
  void handle(std::unique_ptr<http::Exchange> exchange, const Route& route);

 private:
  // Who has asked, and what his answer is proven with.
  struct Asker {
    int version = wire::kProtocolVersion;  // he is answered in it
    control::InstanceCaller caller;
    std::string key = {};  // empty: an instance of version 1, to which nothing is proven
    wire::Claim claim = {};
  };

  // Who a request says that it is from: nothing is proven yet.
  Result<Asker> asker_of(const http::Request& request, int version);
  static Result<void> check_proof(const Asker& asker, const http::Request& request,
                                  const std::string& body_hash);
  // Whether a request is meant for this server, and from an instance of it, if it is no lie.
  Result<void> is_wanted(const Asker& asker);
  // Of a request whose proof holds: whether it is `wanted`, and new here.
  Result<void> admit(const Asker& asker, const Result<void>& wanted);
  // The same response with its proof.
  http::Response proven(const Asker& asker, http::Response response) const;
  void call(std::unique_ptr<http::Exchange> exchange, const Route& route, const Asker& asker,
            const std::string& body);
  void poll_commands(const std::shared_ptr<http::Exchange>& exchange, const Asker& asker);

  control::Control& control_;
  const std::string run_;  // of this server, until it ends
  WorkerPool answers_;
};

}  // namespace trainyard::server
