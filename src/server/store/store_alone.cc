// SPDX-License-Identifier: Apache-2.0
#include "server/store/store_alone.h"

#include <utility>

#include "server/serving.h"

namespace trainyard::server {
namespace {

constexpr std::chrono::milliseconds kStopGrace{10'000};
constexpr const char* kAccount = "123456789012";

http::Response overloaded(const http::Request& request) {
  http::Response response = store::S3Service::error_response(
      Error{Code::kUnavailable, "Please reduce your request rate."}, request.path, "");
  response.headers.set("Retry-After", "1");
  return response;
}

}  // namespace

Result<std::unique_ptr<StoreAlone>> StoreAlone::start(const StoreConfig& config, Clock& clock,
                                                      Random& random) {
  std::unique_ptr<StoreAlone> store(new StoreAlone());
  YARD_TRY(store->open(config, clock, random));
  return store;
}

Result<void> StoreAlone::open(const StoreConfig& config, Clock& clock, Random& random) {
  YARD_TRY(objects_, s3::DirectoryStore::open(config.root, clock, random));
  YARD_TRY(keys_, load_or_make_keys(config.keys, random));
  expiry_ = std::make_unique<s3::UploadExpiry>(*objects_, clock, config.upload_lifetime);
  service_ =
      std::make_unique<store::S3Service>(*objects_,
                                         store::Options{.region = config.region,
                                                        .account_id = kAccount,
                                                        .domains = config.domains,
                                                        .tls_listener = config.tls ? "store" : ""},
                                         clock);
  const auto lookup = [this](std::string_view id) {
    const auto key = keys_.find(id);
    return key == keys_.end() ? std::nullopt
                              : std::optional(http::KnownKey{.secret_access_key = key->second});
  };
  front_ = std::make_unique<store::Front>(*service_, lookup, clock);
  http::ServerOptions options;
  options.overloaded = [](std::unique_ptr<http::Exchange> exchange) {
    exchange->respond(overloaded(exchange->request()));
  };
  YARD_TRY(http_, http::Server::start(options, [this](std::unique_ptr<http::Exchange> exchange) {
             front_->handle(std::move(exchange));
           }));
  if (config.tls) {
    YARD_TRY(identity_, http::TlsIdentity::load(*config.tls, clock));
  }
  YARD_TRY(const std::uint16_t port,
           http_->listen(config.address, config.port, "store", identity_));
  endpoint_ = announced_url(config.address, port, identity_.get());
  return {};
}

StoreAlone::~StoreAlone() {
  if (http_ != nullptr) {
    http_->stop(kStopGrace);
  }
}

}  // namespace trainyard::server
