// SPDX-License-Identifier: Apache-2.0
// An object store that speaks S3 and nothing else: the same listener, signature checks and store as
// the whole server's, with keys from a file instead of identities.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "http/server.h"
#include "http/tls.h"
#include "s3/directory/directory_store.h"
#include "s3/directory/upload_expiry.h"
#include "server/store/key_file.h"
#include "server/store/store_flags.h"
#include "store/front.h"

namespace trainyard::server {

class StoreAlone {
 public:
  // kConflict when another process has the store open, or the address is in use. `clock` and
  // `random` are borrowed for life.
  static Result<std::unique_ptr<StoreAlone>> start(const StoreConfig& config, Clock& clock,
                                                   Random& random);
  // Stops accepting, lets what is running end, and goes.
  ~StoreAlone();

  const std::string& endpoint() const { return endpoint_; }
  // What it serves https with; null without.
  http::TlsIdentity* identity() const { return identity_.get(); }

 private:
  StoreAlone() = default;
  Result<void> open(const StoreConfig& config, Clock& clock, Random& random);

  AccessKeys keys_;
  // Each member may use those above it.
  std::unique_ptr<s3::DirectoryStore> objects_;
  std::unique_ptr<s3::UploadExpiry> expiry_;
  std::unique_ptr<store::S3Service> service_;
  std::unique_ptr<store::Front> front_;
  std::unique_ptr<http::Server> http_;
  std::shared_ptr<http::TlsIdentity> identity_;  // null without https
  std::string endpoint_;
};

}  // namespace trainyard::server
