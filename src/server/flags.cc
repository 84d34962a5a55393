// SPDX-License-Identifier: Apache-2.0
#include "server/flags.h"

#include <map>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/home.h"
#include "base/text.h"
#include "server/serving.h"

namespace trainyard::server {
namespace {

struct RawFlags {
  std::string home;
  std::string listen = "127.0.0.1:8321";
  std::string region = "us-east-1";
  std::string log_level = "info";
  TlsFlags tls;
  Domains domains;
  std::size_t workers = ServerConfig{}.workers;
  std::size_t queue = ServerConfig{}.queue;
  std::string network = "auto";
  std::uint64_t instance_memory = 0;
  std::uint64_t instance_processes = ServerConfig{}.instance_processes;
  double instance_cpus = 0;
};

void describe(CLI::App& app, RawFlags& raw) {
  app.add_option("--home", raw.home,
                 "Where jobs, objects and logs are kept [" + own_home().string() + "]");
  app.add_option("--listen", raw.listen, "ADDRESS:PORT of the API; port 0 picks a free one")
      ->capture_default_str();
  app.add_option("--region", raw.region, "AWS region that ARNs name")->capture_default_str();
  app.add_option("--log-level", raw.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->check(CLI::IsMember(log_levels()));
  app.add_option("--tls-cert", raw.tls.certificate,
                 "Serve https with this certificate (PEM, followed by those that vouch for it); "
                 "SIGHUP reads it again; `trainyard certificate` makes one");
  app.add_option("--tls-key", raw.tls.key, "The certificate's private key (PEM, not encrypted)");
  raw.domains.describe(app);
  app.add_option("--workers", raw.workers, "Requests that are worked on at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 4'096));
  app.add_option("--queue", raw.queue,
                 "Requests that may wait for a worker; more are told to slow down")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--network", raw.network,
                 "namespaces: each instance of a job gets a network of its own (needs root); "
                 "loopback: they share this machine's, with an address of 127.77.0.0/16 each; "
                 "auto: namespaces as root, loopback otherwise")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "namespaces", "loopback"}));
  app.add_option("--instance-memory", raw.instance_memory,
                 "Memory that the programs of one instance may use, such as 8GiB [all but a "
                 "sixteenth of this machine's]")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--instance-processes", raw.instance_processes,
                 "Processes and threads of one instance; 0 for no limit")
      ->capture_default_str();
  app.add_option("--instance-cpus", raw.instance_cpus,
                 "Processors' worth of time for one instance; 0 for no limit")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--insecure-http", raw.tls.insecure_http,
               "Allow an address that other machines reach, over plain HTTP");
}

Result<ServerConfig> config_of(const RawFlags& raw) {
  YARD_TRY(const Endpoint endpoint, parse_endpoint(raw.listen));
  YARD_TRY(const std::optional<http::TlsFiles> tls, tls_of(raw.tls, endpoint));
  YARD_TRY(const Path home,
           absolute_path("--home", raw.home.empty() ? own_home() : Path(raw.home)));
  return ServerConfig{.home = home,
                      .address = endpoint.address,
                      .port = endpoint.port,
                      .region = raw.region,
                      .log_level = log_levels().at(raw.log_level),
                      .jobs_share_network =
                          raw.network == "loopback" || (raw.network == "auto" && ::geteuid() != 0),
                      .instance_memory = raw.instance_memory,
                      .instance_processes = raw.instance_processes,
                      .instance_cpus = raw.instance_cpus,
                      .tls = tls,
                      .workers = raw.workers,
                      .queue = raw.queue,
                      .domains = raw.domains.all()};
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  const Error wrong{Code::kInvalidArgument,
                    fmt::format("\"{}\" is not ADDRESS:PORT, such as 127.0.0.1:8321", text)};
  Endpoint out;
  const std::size_t colon = text.rfind(':');
  std::string_view port = text;
  if (colon != std::string_view::npos) {
    port = text.substr(colon + 1);
    std::string_view address = text.substr(0, colon);
    if (address.starts_with('[') && address.ends_with(']')) {
      address = address.substr(1, address.size() - 2);
    }
    out.address = address == "localhost" ? "127.0.0.1" : std::string(address);
  }
  const Result<std::int64_t> number = parse_int(port);
  in6_addr ignored{};
  const bool is_address = ::inet_pton(AF_INET, out.address.c_str(), &ignored) == 1 ||
                          ::inet_pton(AF_INET6, out.address.c_str(), &ignored) == 1;
  if (!number || *number < 0 || *number > 65'535 || !is_address) {
    return wrong;
  }
  out.port = static_cast<std::uint16_t>(*number);
  return out;
}

bool is_loopback(std::string_view address) {
  return address == "::1" || address.starts_with("127.");
}

Result<std::optional<http::TlsFiles>> tls_of(const TlsFlags& flags, const Endpoint& endpoint) {
  if (flags.certificate.empty() != flags.key.empty()) {
    return Error{Code::kInvalidArgument, "--tls-cert and --tls-key need each other"};
  }
  if (flags.certificate.empty()) {
    if (!is_loopback(endpoint.address) && !flags.insecure_http) {
      return Error{
          Code::kInvalidArgument,
          endpoint.address +
              " can be reached by other machines, and plain HTTP shows them everything but the "
              "keys; serve https with --tls-cert and --tls-key (`trainyard certificate` makes "
              "them), or pass --insecure-http if that is meant"};
    }
    return std::optional<http::TlsFiles>();
  }
  if (flags.insecure_http) {
    return Error{Code::kInvalidArgument, "--insecure-http is not for a server with --tls-cert"};
  }
  http::TlsFiles files;
  YARD_TRY(files.certificate, absolute_path("--tls-cert", flags.certificate));
  YARD_TRY(files.key, absolute_path("--tls-key", flags.key));
  return std::optional(std::move(files));
}

void Domains::describe(CLI::App& app) {
  app.add_option("--domain", given,
                 "Serve buckets as BUCKET.DOMAIN, too; may be given more than once [localhost]");
}

std::vector<std::string> Domains::all() const {
  std::vector<std::string> names = {"localhost"};
  for (const std::string& name : given) {
    names.push_back(lower(name));
  }
  return names;
}

Result<Path> absolute_path(std::string_view flag, const Path& path) {
  std::error_code failed;
  const Path full = std::filesystem::absolute(path, failed);
  if (failed) {
    return errno_error(std::string(flag) + " " + path.string(), failed.value());
  }
  return full.lexically_normal();
}

Result<std::variant<ServerConfig, Usage>> parse_flags(const std::vector<std::string>& args) {
  RawFlags raw;
  CLI::App app(
      "Serves the APIs of SageMaker, S3, CloudWatch (logs, metrics), IAM and STS, and runs the "
      "jobs, on this machine.",
      "trainyard server");
  describe(app, raw);
  if (const auto usage = read_command_line(app, args)) {
    return std::variant<ServerConfig, Usage>(*usage);
  }
  YARD_TRY(ServerConfig config, config_of(raw));
  return std::variant<ServerConfig, Usage>(std::move(config));
}

}  // namespace trainyard::server
