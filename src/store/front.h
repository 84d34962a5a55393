// SPDX-License-Identifier: Apache-2.0
// What stands before the S3 face wherever it is served: verifies a request's signature and that it
// was made for S3, lets browsers ask before they send, and hands on or refuses. The whole server
// and `trainyard store` both use it, so that neither checks less than the other.
#pragma once

#include <memory>

#include "base/clock.h"
#include "http/server.h"
#include "http/signing_keys.h"
#include "http/sigv4.h"
#include "store/s3_service.h"

namespace trainyard::store {

class Front {
 public:
  // `service` and `clock` are borrowed for life; `keys` is asked from many threads.
  Front(S3Service& service, http::KeyLookup keys, Clock& clock)
      : service_(service), keys_(std::move(keys)), clock_(clock) {}

  // Always answers.
  void handle(std::unique_ptr<http::Exchange> exchange);

 private:
  S3Service& service_;
  http::KeyLookup keys_;
  http::SigningKeys derived_;
  Clock& clock_;
};

}  // namespace trainyard::store
