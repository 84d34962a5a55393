// SPDX-License-Identifier: Apache-2.0
// The handler of the one HTTP server: finds out which service a request is for and hands it to that
// service's face, each of which verifies for itself.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "control/control.h"
#include "http/server.h"
#include "server/api_face.h"
#include "server/instance_face.h"
#include "store/front.h"
#include "store/s3_service.h"

namespace trainyard::server {

class Router {
 public:
  // All borrowed for life. Destroy it after control has given all its answers and before the
  // http::Server, whose exchanges it may still hold.
  Router(control::Control& control, store::S3Service& s3, Clock& clock, Random& random);

  // The http::Handler: any thread. Always answers.
  void handle(std::unique_ptr<http::Exchange> exchange);

 private:
  store::Front s3_;
  ApiFace api_;
  InstanceFace instances_;
};

// "0.1.0".
std::string_view version();

}  // namespace trainyard::server
