// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <map>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace trainyard::cli {
namespace {

constexpr std::size_t kMaxFile = 65'536;

// "not found" is a normal answer; anything else (a file of root's, say) should be seen.
Result<std::string> read_if_there(const Path& path) {
  Result<std::string> content = read_file(path, kMaxFile);
  if (!content && content.error().code == Code::kNotFound) {
    return std::string();
  }
  return content;
}

std::string member_of(const nlohmann::json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

struct LocalServer {
  std::string endpoint;  // empty: none
  std::string ca_bundle;
  std::string region;
};

Result<LocalServer> server_in(const Path& home) {
  YARD_TRY(const std::string content, read_if_there(home / "server.json"));
  const nlohmann::json json = nlohmann::json::parse(content, nullptr, false);
  return LocalServer{.endpoint = member_of(json, "endpoint"),
                     .ca_bundle = member_of(json, "ca_bundle"),
                     .region = member_of(json, "region")};
}

Result<LocalServer> running_server_in(const Path& home) {
  YARD_TRY(LocalServer server, server_in(home));
  if (!server.endpoint.empty()) {
    return server;
  }
  return Error{
      .code = Code::kUnavailable,
      .message = "no server is running here (" + home.string() +
                 " has no server.json): start it with ./yard up, or name one with --endpoint or "
                 "AWS_ENDPOINT_URL"};
}

Result<std::string> checked_endpoint(std::string endpoint) {
  while (endpoint.ends_with('/')) {
    endpoint.pop_back();
  }
  const std::size_t scheme = endpoint.find("://");
  const bool known = endpoint.starts_with("http://") || endpoint.starts_with("https://");
  if (!known || endpoint.find('/', scheme + 3) != std::string::npos ||
      endpoint.size() == scheme + 3) {
    return Error{.code = Code::kInvalidArgument,
                 .message = "'" + endpoint + "' is not an endpoint: http://host:port is"};
  }
  return endpoint;
}

// The [default] section of AWS's credentials file.
std::map<std::string, std::string> default_profile(std::string_view content) {
  std::map<std::string, std::string> values;
  bool in_default = false;
  for (const std::string_view line : split(content, '\n')) {
    const std::string_view text = trim(line);
    if (text.starts_with('[')) {
      in_default = text == "[default]";
    } else if (const std::size_t equals = text.find('=');
               in_default && equals != std::string_view::npos && !text.starts_with('#')) {
      values[std::string(trim(text.substr(0, equals)))] =
          std::string(trim(text.substr(equals + 1)));
    }
  }
  return values;
}

Result<http::Credentials> credentials_of_server(const Path& home) {
  const Path path = home / "credentials";
  Result<std::string> content = read_if_there(path);
  if (!content) {
    return content.error().in("reading the access key of the server");
  }
  auto values = default_profile(*content);
  http::Credentials credentials{.access_key_id = values["aws_access_key_id"],
                                .secret_access_key = values["aws_secret_access_key"],
                                .session_token = values["aws_session_token"]};
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty()) {
    return Error{.code = Code::kDenied,
                 .message = "no access key: AWS_ACCESS_KEY_ID is not set and " + path.string() +
                            " holds none; run eval \"$(./yard env)\""};
  }
  return credentials;
}

}  // namespace

Result<Settings> find_settings(const Environment& environment, const Path& home,
                               std::string_view endpoint_option) {
  Settings settings;
  std::string endpoint(endpoint_option);
  if (endpoint.empty()) {
    endpoint = environment("AWS_ENDPOINT_URL");
  }
  LocalServer local;
  if (endpoint.empty()) {
    YARD_TRY(local, running_server_in(home));
    endpoint = std::move(local.endpoint);
  }
  // What the environment trusts is for other servers, where this one says what vouches for it.
  settings.ca_bundle =
      local.ca_bundle.empty() ? environment("AWS_CA_BUNDLE") : std::move(local.ca_bundle);
  YARD_TRY(settings.endpoint, checked_endpoint(std::move(endpoint)));
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (settings.region.empty()) {
      settings.region = environment(name);
    }
  }
  if (settings.region.empty()) {
    settings.region = local.region.empty() ? "us-east-1" : std::move(local.region);
  }
  settings.credentials = {.access_key_id = environment("AWS_ACCESS_KEY_ID"),
                          .secret_access_key = environment("AWS_SECRET_ACCESS_KEY"),
                          .session_token = environment("AWS_SESSION_TOKEN")};
  settings.keys_from_environment = !settings.credentials.access_key_id.empty() &&
                                   !settings.credentials.secret_access_key.empty();
  if (!settings.keys_from_environment) {
    YARD_TRY(settings.credentials, credentials_of_server(home));
  }
  return settings;
}

}  // namespace trainyard::cli
