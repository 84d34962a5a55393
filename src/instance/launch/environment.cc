// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/environment.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/text.h"
#include "instance/launch/efa.h"
#include "instance/launch/request.h"

namespace trainyard::instance {
namespace {

// MAX_ARG_STRLEN of linux/binfmts.h: 32 pages, the final NUL included.
constexpr std::size_t kMaxVariable = 131'072 - 1;

constexpr std::array<std::string_view, 7> kFileVariables = {
    "SSL_CERT_FILE", "PIP_CERT",       "PIP_CONFIG_FILE",  "UV_CONFIG_FILE",
    "SSL_CERT_DIR",  "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE"};
constexpr std::array<std::string_view, 6> kProxyVariables = {
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"};

bool names_a_file(std::string_view name) {
  return name.ends_with("_CA_BUNDLE") || name.ends_with("_CA_CERTS") ||
         std::find(kFileVariables.begin(), kFileVariables.end(), name) != kFileVariables.end();
}

// Settings of the package installers, without those that name places of the caller's home.
bool is_installer_setting(std::string_view name) {
  return (name.starts_with("PIP_") || name.starts_with("UV_")) && !name.ends_with("_DIR");
}

bool is_below(std::string_view path, std::string_view directory) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

void add_caller_settings(const EnvironmentInput& input, ContainerEnvironment& out) {
  for (const auto& [name, value] : input.caller) {
    if (value.empty() || !(names_a_file(name) || is_installer_setting(name))) {
      continue;
    }
    const bool hidden = std::any_of(input.hidden.begin(), input.hidden.end(),
                                    [&](const auto& place) { return is_below(value, place); });
    if (!names_a_file(name) || !hidden) {
      out.defaults_and_user[name] = value;
      continue;
    }
    const std::string target = "/run/trainyard/ca/" + std::to_string(out.files.size()) + "-" +
                               std::filesystem::path(value).filename().string();
    out.files.push_back({value, target});
    out.defaults_and_user[name] = target;
  }
}

// A proxy is for the world outside: the job's own hosts and endpoints are never behind it.
void add_proxies(const wire::Assignment& assignment, const EnvironmentInput& input,
                 Variables& variables) {
  std::string direct = "localhost,127.0.0.1,169.254.170.2";
  for (const wire::Host& host : assignment.hosts) {
    direct += "," + host.name + "," + host.address;
  }
  const std::string_view server = assignment.server;
  const std::size_t start = server.find("://");
  if (start != std::string_view::npos) {
    const std::string_view rest = server.substr(start + 3);
    direct += "," + std::string(rest.substr(0, rest.find_first_of(":/")));
  }
  for (const std::string_view name : kProxyVariables) {
    const auto found = input.caller.find(std::string(name));
    if (found == input.caller.end() || found->second.empty()) {
      continue;
    }
    const bool exceptions = equal_ignoring_case(name, "no_proxy");
    variables[found->first] = exceptions ? found->second + "," + direct : found->second;
    if (!exceptions) {
      variables.emplace("no_proxy", direct);
      variables.emplace("NO_PROXY", direct);
    }
  }
}

Variables platform_defaults(const wire::Assignment& assignment) {
  std::string path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  if (!assignment.python_environment.empty()) {
    path = assignment.python_environment + "/bin:" + path;
  }
  const std::string threads = std::to_string(std::max(1, assignment.num_cpus));
  Variables variables = {{"PATH", path},
                         {"HOME", "/root"},
                         {"USER", "root"},
                         {"LANG", "C.UTF-8"},
                         {"LC_ALL", "C.UTF-8"},
                         {"PYTHONUNBUFFERED", "1"},
                         {"PYTHONDONTWRITEBYTECODE", "1"},
                         {"PYTHONIOENCODING", "UTF-8"},
                         {"UV_SYSTEM_CERTS", "1"},
                         {"OMP_NUM_THREADS", threads},
                         {"MKL_NUM_THREADS", threads},
                         {"OPENBLAS_NUM_THREADS", threads},
                         {"NUMEXPR_NUM_THREADS", threads},
                         {"RAYON_NUM_THREADS", threads},
                         {"NCCL_SOCKET_IFNAME", assignment.network_interface},
                         {"GLOO_SOCKET_IFNAME", assignment.network_interface},
                         {"TP_SOCKET_IFNAME", assignment.network_interface},
                         {"NCCL_DEBUG", "WARN"},
                         {"AWS_REGION", assignment.region},
                         {"AWS_DEFAULT_REGION", assignment.region}};
  // Only the job's own device nodes are visible inside, so that CUDA numbers them from 0.
  std::vector<std::string> devices;
  devices.reserve(assignment.gpus.size());
  for (std::size_t i = 0; i < assignment.gpus.size(); ++i) {
    devices.push_back(std::to_string(i));
  }
  variables["CUDA_VISIBLE_DEVICES"] = join(devices, ",");
  variables.merge(efa_variables(instance_type(assignment.request)));
  if (const auto backend = choose_default_backend(!assignment.gpus.empty(),
                                                  texts_at(assignment.request, "Environment"))) {
    variables[kDefaultBackend] = *backend;
  }
  return variables;
}

}  // namespace

std::optional<std::string> choose_default_backend(bool has_gpus, const Variables& asked) {
  if (!has_gpus) {
    return "yard";
  }
  const auto watch = asked.find(kWatchNccl);
  const bool is_watched = watch != asked.end() && watch->second == "1";
  return is_watched ? std::optional<std::string>("cpu:yard,cuda:yard+nccl") : std::nullopt;
}

ContainerEnvironment container_environment(const wire::Assignment& assignment,
                                           const EnvironmentInput& input) {
  ContainerEnvironment out;
  out.defaults_and_user = platform_defaults(assignment);
  out.defaults_and_user.insert(input.defaults.begin(), input.defaults.end());
  add_caller_settings(input, out);
  out.contract = {{"TRAINING_JOB_NAME", assignment.job_name},
                  {"TRAINING_JOB_ARN", assignment.job_arn},
                  {"CURRENT_HOST", assignment.host}};
  if (input.shared) {
    out.ports = input.shared->ports;
    out.defaults_and_user["TRAINYARD_PORTS"] = input.shared->ports.for_program();
  }
  if (!flag_at(assignment.request, "EnableNetworkIsolation")) {
    add_proxies(assignment, input, out.defaults_and_user);
    out.defaults_and_user["AWS_ENDPOINT_URL"] = assignment.server;
    out.defaults_and_user["S3_ENDPOINT_URL"] = assignment.server;
    if (input.shared) {
      out.contract["AWS_CONTAINER_CREDENTIALS_FULL_URI"] =
          input.shared->credentials_endpoint + input.credentials_path;
      out.contract["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = input.shared->credentials_token;
    } else {
      out.contract["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = input.credentials_path;
    }
  }
  for (const auto& [name, value] : texts_at(assignment.request, "Environment")) {
    out.defaults_and_user[name] = value;
  }
  return out;
}

Variables with_fixed(const Variables& base, const Variables& fixed, const Variables& user,
                     std::vector<std::string>& overruled) {
  Variables all = base;
  for (const auto& [name, value] : fixed) {
    const auto asked = user.find(name);
    if (asked != user.end() && asked->second != value) {
      overruled.push_back(name);
    }
    all[name] = value;
  }
  return all;
}

std::vector<std::string> drop_oversized(Variables& variables) {
  std::vector<std::string> dropped;
  for (auto it = variables.begin(); it != variables.end();) {
    if (it->first.size() + 1 + it->second.size() > kMaxVariable) {
      dropped.push_back(it->first);
      it = variables.erase(it);
    } else {
      ++it;
    }
  }
  return dropped;
}

}  // namespace trainyard::instance
