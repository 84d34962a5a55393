// SPDX-License-Identifier: Apache-2.0
// The whole server as one value: object store, engine, control, router and HTTP server, made in the
// order in which they need each other and taken down in the opposite one. server_main.cc runs one
// for a process; the integration tests run one with a fake engine.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "base/result.h"
#include "control/control.h"
#include "http/server.h"
#include "http/tls.h"
#include "s3/directory/upload_expiry.h"
#include "s3/object_store.h"
#include "server/flags.h"
#include "server/gateways.h"
#include "server/router.h"
#include "store/s3_service.h"

namespace trainyard::server {

// Makes the engine. `gateways` outlives it.
using EngineFactory = std::function<Result<std::unique_ptr<control::Engine>>(
    const Path& home, Gateways& gateways, Random& random)>;
// The engine of this machine, with its networks and limits as `config` says.
EngineFactory local_engine(const ServerConfig& config);

class Service {
 public:
  // Locks the home directory (kConflict when another server has it), listens, and leaves
  // <home>/server.json. `clock` and `random` are borrowed for life.
  static Result<std::unique_ptr<Service>> start(const ServerConfig& config,
                                                const EngineFactory& make_engine, Clock& clock,
                                                Random& random);
  // Stops accepting, lets what is running end, and goes. Jobs go on.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  control::AccessKey root_key() { return control_->root_key(); }
  // What it serves https with; null without.
  http::TlsIdentity* identity() const { return identity_.get(); }

 private:
  explicit Service(const ServerConfig& config) : config_(config) {}
  Result<void> open(const EngineFactory& make_engine, Clock& clock, Random& random);
  Result<void> listen();
  Result<void> announce(std::uint16_t port);
  http::ServerOptions http_options(Random& random);
  Result<void> still_holds(const http::Verified& by) const;
  void route(std::unique_ptr<http::Exchange> exchange);

  const ServerConfig config_;
  std::unique_ptr<FileLock> lock_;
  // Each member may use those above it.
  std::unique_ptr<s3::ObjectStore> objects_;
  std::unique_ptr<s3::UploadExpiry> expiry_;
  std::unique_ptr<store::S3Service> s3_;
  std::shared_ptr<http::TlsIdentity> identity_;  // null: plain HTTP. Shared with its listener
  std::unique_ptr<http::Server> http_;
  std::unique_ptr<Gateways> gateways_;
  std::unique_ptr<control::Engine> engine_;
  std::unique_ptr<Router> router_;
  // Set once control and router exist: an engine may open gateways, where instances already wait.
  std::atomic<Router*> ready_{nullptr};
  std::unique_ptr<control::Control> control_;
  std::string endpoint_;
};

}  // namespace trainyard::server
