// SPDX-License-Identifier: Apache-2.0
#include "server/certificate_main.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/command_line.h"
#include "base/home.h"
#include "http/tls.h"

namespace trainyard::server {
namespace {

constexpr int kMostDays = 3'650;

struct Flags {
  std::string out;
  std::vector<std::string> names;
  int days = 825;
  bool force = false;
};

void describe(CLI::App& app, Flags& flags, const Path& folder) {
  app.add_option("--name", flags.names,
                 "Another DNS name or IP address that clients will use (may be repeated; this "
                 "machine's name, localhost and the loopback addresses are always in)");
  app.add_option("--out", flags.out, "Where the two files go [" + folder.string() + "]");
  app.add_option("--days", flags.days, "How long it is valid")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostDays));
  app.add_flag("--force", flags.force, "Replace the files of an earlier certificate");
}

// Empty when it is none that a certificate can hold, such as "my_laptop".
std::string name_of_this_machine() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    return {};
  }
  std::string name(host.data());
  const bool fits = http::make_certificate({.names = {name}}, SystemClock().now()).has_value();
  return fits ? name : std::string();
}

std::vector<std::string> all_names(const Flags& flags) {
  std::vector<std::string> names = {"127.0.0.1", "::1", "localhost"};
  if (std::string name = name_of_this_machine(); !name.empty()) {
    names.push_back(std::move(name));
  }
  for (const std::string& name : flags.names) {
    if (std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

Result<void> refuse_to_replace(const http::TlsFiles& files) {
  for (const Path& path : {files.certificate, files.key}) {
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
      return Error{Code::kAlreadyExists,
                   path.string() +
                       " is there already, and clients may trust it: --force replaces "
                       "it, --out names another place"};
    }
  }
  return {};
}

// The key first: a certificate without its key would be of no use to anybody.
Result<http::TlsFiles> make(const Flags& flags, const Path& folder) {
  const http::TlsFiles files{.certificate = folder / "tls-cert.pem", .key = folder / "tls-key.pem"};
  if (!flags.force) {
    YARD_TRY(refuse_to_replace(files));
  }
  YARD_TRY(
      const http::CertificatePair pair,
      http::make_certificate({.names = all_names(flags), .lifetime = std::chrono::days(flags.days)},
                             SystemClock().now()));
  YARD_TRY(make_directories(folder, 0700));
  YARD_TRY(write_file_durably(files.key, pair.key, 0600));
  YARD_TRY(write_file_durably(files.certificate, pair.certificate, 0644));
  return files;
}

int complain(const Error& error) {
  fmt::print(stderr, "trainyard certificate: {}\n", error.message);
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

}  // namespace

int certificate_main(const std::vector<std::string>& args) {
  const Path usual = own_home() / "tls";
  Flags flags;
  CLI::App app("Makes a certificate and its key for `trainyard server`.", "trainyard certificate");
  describe(app, flags, usual);
  if (const auto usage = read_command_line(app, args)) {
    return show(*usage, app.get_name());
  }
  std::error_code failed;
  const Path folder =
      std::filesystem::absolute(flags.out.empty() ? usual : Path(flags.out), failed);
  const auto made = make(flags, folder.lexically_normal());
  if (!made) {
    return complain(made.error());
  }
  fmt::print(
      "Made {} and {}, valid for {} days.\n"
      "Serve with it:      trainyard server --listen ADDRESS:PORT --tls-cert {} --tls-key {}\n"
      "On other machines:  copy {} there, and export AWS_CA_BUNDLE=<the copy>\n",
      made->certificate.string(), made->key.string(), flags.days, made->certificate.string(),
      made->key.string(), made->certificate.string());
  return 0;
}

}  // namespace trainyard::server
