// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

#include <cerrno>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "engine/local.h"
#include "formats/json.h"
#include "s3/directory/directory_store.h"
#include "server/client_of.h"
#include "server/instance_face.h"
#include "server/overload.h"
#include "server/serving.h"

namespace trainyard::server {
namespace {

// What is running when the server is told to stop gets this long. Jobs do not depend on it: an
// instance repeats what was not answered.
constexpr std::chrono::milliseconds kStopGrace{10'000};

Result<void> make_home(const Path& home) {
  YARD_TRY(make_directories(home, 0700));
  // It holds keys and users' data, whatever made it and under which umask.
  if (::chmod(home.c_str(), 0700) != 0) {
    return errno_error("cannot make " + home.string() + " private", errno);
  }
  return {};
}

// A job that takes all of the machine's memory is killed before the kernel looks for other victims.
std::uint64_t most_memory() {
  struct sysinfo info = {};
  return ::sysinfo(&info) == 0 ? std::uint64_t{info.totalram} * info.mem_unit / 16 * 15 : 0;
}

http::Response not_ready() {
  http::Response response;
  response.status = 503;
  response.headers.set("Content-Type", "application/json");
  response.headers.set("Retry-After", "1");
  response.body = R"({"code":"Unavailable","message":"the server is starting","subject":""})";
  return response;
}

}  // namespace

EngineFactory local_engine(const ServerConfig& config) {
  return [config](const Path& home, Gateways& gateways,
                  Random& random) -> Result<std::unique_ptr<control::Engine>> {
    engine::LocalEngineOptions options{.run_directory = home / "run"};
    options.network_kind = config.jobs_share_network ? engine::NetworkKind::kLoopback
                                                     : engine::NetworkKind::kNamespaces;
    options.limits = {.memory = config.instance_memory > 0 ? config.instance_memory : most_memory(),
                      .processes = config.instance_processes,
                      .cpus = config.instance_cpus};
    if (config.tls) {
      options.environment["TRAINYARD_TLS_KEY"] = config.tls->key.string();  // hidden from jobs
    }
    options.open_gateway = [&gateways](const std::string& address, std::uint16_t port) {
      return gateways.open(address, port);
    };
    options.close_gateway = [&gateways](const std::string& address) { gateways.close(address); };
    YARD_TRY(auto local, engine::LocalEngine::make(std::move(options), random));
    return std::unique_ptr<control::Engine>(std::move(local));
  };
}

// The key of an instance goes when another attempt of its job begins.
Result<void> Service::still_holds(const http::Verified& by) const {
  if (control_->find_key(by.access_key_id)) {
    return {};
  }
  return Error{Code::kDenied, "Access Denied: the access key was revoked meanwhile"};
}

Result<std::unique_ptr<Service>> Service::start(const ServerConfig& config,
                                                const EngineFactory& make_engine, Clock& clock,
                                                Random& random) {
  std::unique_ptr<Service> service(new Service(config));
  YARD_TRY(service->open(make_engine, clock, random));
  return service;
}

Result<void> Service::open(const EngineFactory& make_engine, Clock& clock, Random& random) {
  YARD_TRY(make_home(config_.home));
  YARD_TRY(FileLock lock, FileLock::acquire(config_.home / "lock"));
  lock_ = std::make_unique<FileLock>(std::move(lock));
  if (config_.tls) {
    YARD_TRY(identity_, http::TlsIdentity::load(*config_.tls, clock));
  }
  YARD_TRY(auto objects, s3::DirectoryStore::open(config_.home / "objects", clock, random));
  expiry_ = std::make_unique<s3::UploadExpiry>(*objects, clock);
  objects_ = std::move(objects);
  s3_ = std::make_unique<store::S3Service>(
      *objects_,
      store::Options{.region = config_.region,
                     .account_id = config_.account,
                     .still_holds = [this](const http::Verified& by) { return still_holds(by); },
                     .domains = config_.domains,
                     .tls_listener = identity_ == nullptr ? "" : "api"},
      clock);
  YARD_TRY(http_, http::Server::start(http_options(random),
                                      [this](std::unique_ptr<http::Exchange> exchange) {
                                        route(std::move(exchange));
                                      }));
  gateways_ = std::make_unique<Gateways>(*http_);
  YARD_TRY(engine_, make_engine(config_.home, *gateways_, random));
  YARD_TRY(control_,
           control::Control::open(
               {.home = config_.home, .region = config_.region, .account = config_.account},
               {.clock = clock, .random = random, .objects = *objects_, .engine = *engine_}));
  router_ = std::make_unique<Router>(*control_, *s3_, clock, random);
  ready_ = router_.get();
  return listen();
}

// What an overloaded server says, and to whom a request counts, may be asked before control exists.
http::ServerOptions Service::http_options(Random& random) {
  http::ServerOptions options{.max_workers = config_.workers, .max_queued = config_.queue};
  const Known known{.key =
                        [this](std::string_view key) {
                          return ready_.load() != nullptr && control_->find_key(key).has_value();
                        },
                    .instance =
                        [this](const http::Request& request) {
                          return ready_.load() != nullptr &&
                                 names_known_instance(*control_, request);
                        }};
  options.client_of = [known](const http::Request& request) { return client_of(request, known); };
  options.overloaded = [&random](std::unique_ptr<http::Exchange> exchange) {
    exchange->respond(overload_response(exchange->request(), new_request_id(random)));
  };
  return options;
}

Result<void> Service::listen() {
  YARD_TRY(const std::uint16_t port,
           http_->listen(config_.address, config_.port, "api", identity_));
  return announce(port);
}

Result<void> Service::announce(std::uint16_t port) {
  endpoint_ = announced_url(config_.address, port, identity_.get());
  nlohmann::json about = {{"endpoint", endpoint_},
                          {"local_url", local_url(config_.address, port, identity_ != nullptr)},
                          {"pid", ::getpid()},
                          {"region", config_.region},
                          {"account", config_.account},
                          {"version", std::string(version())}};
  if (identity_ != nullptr && identity_->has_own_root()) {
    about["ca_bundle"] = config_.tls->certificate.string();
  }
  return write_file(config_.home / "server.json", dump_json(about, 2) + "\n", 0600);
}

void Service::route(std::unique_ptr<http::Exchange> exchange) {
  if (Router* const router = ready_; router != nullptr) {
    router->handle(std::move(exchange));
  } else {
    exchange->respond(not_ready());
  }
}

Service::~Service() {
  if (!endpoint_.empty()) {
    std::error_code ignored;
    std::filesystem::remove(config_.home / "server.json", ignored);
  }
  if (control_ != nullptr) {
    control_->release_polls();
  }
  if (http_ != nullptr) {
    http_->stop(kStopGrace);
  }
  // The router sends, or drops, what control has answered last; then no exchange is left and the
  // HTTP server can go.
  control_.reset();
  router_.reset();
  engine_.reset();
  gateways_.reset();
  http_.reset();
}

}  // namespace trainyard::server
