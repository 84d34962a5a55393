// SPDX-License-Identifier: Apache-2.0
#include "server/store/store_flags.h"

#include <map>

#include <CLI/CLI.hpp>

#include "base/home.h"
#include "s3/names.h"
#include "s3/object_store.h"
#include "server/serving.h"

namespace trainyard::server {
namespace {

const std::map<std::string, s3::AdoptMode>& modes() {
  static const std::map<std::string, s3::AdoptMode> kModes = {{"share", s3::AdoptMode::kShare},
                                                              {"link", s3::AdoptMode::kLink},
                                                              {"copy", s3::AdoptMode::kCopy}};
  return kModes;
}

struct RawFlags {
  std::string root;
  std::string listen = "127.0.0.1:8321";
  std::string keys;
  std::string region = "us-east-1";
  Domains domains;
  int lifetime_days = 7;
  std::string log_level = "info";
  TlsFlags tls;

  std::string folder;
  std::string target;
  std::string mode = "share";
  bool as_json = false;
};

Path default_root() {
  return own_home() / "objects";
}

void describe_store(CLI::App& app, RawFlags& raw) {
  app.add_option("--root", raw.root, "Where objects are kept [" + default_root().string() + "]");
  app.add_option("--listen", raw.listen, "ADDRESS:PORT; port 0 picks a free one")
      ->capture_default_str();
  app.add_option("--keys", raw.keys,
                 "File of access keys, as AWS clients have it; made with a new key when it is not "
                 "there [ROOT/credentials]");
  app.add_option("--region", raw.region, "Region of the buckets")->capture_default_str();
  raw.domains.describe(app);
  app.add_option("--upload-lifetime-days", raw.lifetime_days,
                 "Abort multipart uploads of which nothing was heard for so long")
      ->capture_default_str()
      ->check(CLI::Range(1, 3'650));
  app.add_option("--log-level", raw.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->check(CLI::IsMember(log_levels()));
  app.add_option("--tls-cert", raw.tls.certificate,
                 "Serve https with this certificate (PEM); SIGHUP reads it again");
  app.add_option("--tls-key", raw.tls.key, "The certificate's private key (PEM, not encrypted)");
  app.add_flag("--insecure-http", raw.tls.insecure_http,
               "Allow an address that other machines reach, over plain HTTP");
}

CLI::App* describe_import(CLI::App& app, RawFlags& raw) {
  CLI::App* const import =
      app.add_subcommand("import",
                         "Makes the files of a folder objects of a bucket, without a server. Run "
                         "again, it goes on where it was.");
  import->add_option("folder", raw.folder, "The folder")->required()->type_name("DIR");
  import->add_option("target", raw.target, "s3://bucket or s3://bucket/prefix")
      ->required()
      ->type_name("S3URI");
  import->add_option("--root", raw.root, "The store's objects [" + default_root().string() + "]");
  import
      ->add_option("--mode", raw.mode,
                   "share: the bytes by reflink where the file system can, else a copy; link: the "
                   "files themselves by hard link, which nobody may change from then on; copy")
      ->capture_default_str()
      ->check(CLI::IsMember(modes()));
  import->add_flag("--json", raw.as_json, "Say what was done as JSON");
  return import;
}

Result<StoreConfig> store_of(const RawFlags& raw) {
  YARD_TRY(const Endpoint endpoint, parse_endpoint(raw.listen));
  YARD_TRY(const auto tls, tls_of(raw.tls, endpoint));
  StoreConfig config{.address = endpoint.address,
                     .port = endpoint.port,
                     .region = raw.region,
                     .domains = raw.domains.all(),
                     .upload_lifetime = std::chrono::hours(24 * raw.lifetime_days),
                     .log_level = log_levels().at(raw.log_level),
                     .tls = tls};
  YARD_TRY(config.root,
           absolute_path("--root", raw.root.empty() ? default_root() : Path(raw.root)));
  YARD_TRY(config.keys, absolute_path("--keys", raw.keys.empty() ? config.root / "credentials"
                                                                 : Path(raw.keys)));
  return config;
}

Result<ImportConfig> import_of(const RawFlags& raw) {
  YARD_TRY(const s3::Uri uri, s3::parse_uri(raw.target));
  YARD_TRY(s3::check_bucket_name(uri.bucket));
  ImportConfig config{
      .what = {.bucket = uri.bucket, .prefix = uri.key, .mode = modes().at(raw.mode)},
      .as_json = raw.as_json};
  // "s3://bucket/data" is meant as a folder.
  if (!config.what.prefix.empty() && !config.what.prefix.ends_with('/')) {
    config.what.prefix += '/';
  }
  YARD_TRY(config.root,
           absolute_path("--root", raw.root.empty() ? default_root() : Path(raw.root)));
  YARD_TRY(config.what.folder, absolute_path("DIR", raw.folder));
  return config;
}

}  // namespace

Result<StoreCommand> parse_store_flags(const std::vector<std::string>& args) {
  RawFlags raw;
  CLI::App app("Serves an object store that speaks S3, and nothing else, on this machine.",
               "trainyard store");
  describe_store(app, raw);
  const CLI::App* const import = describe_import(app, raw);
  if (const auto usage = read_command_line(app, args)) {
    return StoreCommand(*usage);
  }
  if (import->parsed()) {
    YARD_TRY(ImportConfig config, import_of(raw));
    return StoreCommand(std::move(config));
  }
  YARD_TRY(StoreConfig config, store_of(raw));
  return StoreCommand(std::move(config));
}

}  // namespace trainyard::server
