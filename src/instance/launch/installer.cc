// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/installer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "instance/launch/pip_settings.h"

namespace trainyard::instance {
namespace {

struct Advice {
  std::vector<std::string_view> signs;  // any of them in any line
  std::string_view text;
};

const std::vector<Advice>& all_advice() {
  static const std::vector<Advice> kAll = {
      {{"No module named pip"},
       "the Python environment has neither uv nor pip: add one to it (python -m ensurepip), or "
       "take "
       "an image whose environment has one"},
      {{"externally-managed-environment"},
       "the image has no Python environment of its own, and the machine's is not to be changed: "
       "give it one (environments and images in config.yaml)"},
      {{"CERTIFICATE_VERIFY_FAILED", "invalid peer certificate", "UnknownIssuer"},
       "the package index shows a certificate of an authority that is not known here: set "
       "SSL_CERT_FILE and PIP_CERT to a file with it where the server is started, jobs get both"},
      {{"dns error", "ame resolution", "failed to lookup address", "client error (Connect)",
        "Failed to establish a new connection", "NewConnectionError", "ConnectTimeoutError",
        "Network is unreachable", "tunnel error", "ProxyError"},
       "the package index is out of this job's reach: name one that is not (PIP_INDEX_URL) or a "
       "proxy (https_proxy) in Environment, or put wheels beside the script and the lines "
       "\"--no-index\" and \"--find-links DIRECTORY\" into requirements.txt"}};
  return kAll;
}

bool is_set(const Variables& environment, std::string_view name) {
  const auto found = environment.find(std::string(name));
  return found != environment.end() && !found->second.empty();
}

std::vector<std::string> install_command(const wire::Assignment& assignment, bool by_uv) {
  if (by_uv) {
    return {assignment.python_environment + "/bin/uv", "pip", "install", "--python",
            python_of(assignment)};
  }
  return {python_of(assignment), "-m", "pip", "install"};
}

Variables installer_variables(Variables environment) {
  environment["UV_LINK_MODE"] = "copy";
  environment["UV_NO_PROGRESS"] = "1";
  environment["PYTHONDONTWRITEBYTECODE"] = "";
  if (is_set(environment, "PIP_CERT") && !is_set(environment, "SSL_CERT_FILE")) {
    environment["SSL_CERT_FILE"] = environment["PIP_CERT"];
  }
  return environment;
}

std::string obstacle_of(const UvSettings& told) {
  return told.unheard.empty()
             ? std::string()
             : "uv, which installs where pip is not there, does not hear " +
                   join(told.unheard, ", ") +
                   ": add pip to the Python environment (python -m ensurepip), or say the same by "
                   "variables (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, ...)";
}

}  // namespace

std::string python_of(const wire::Assignment& assignment) {
  return assignment.python_environment.empty() ? "python3"
                                               : assignment.python_environment + "/bin/python";
}

std::vector<SetupStep> setup_steps(const wire::Assignment& assignment, const CodeFacts& facts,
                                   const Variables& environment) {
  const Variables settings = package_settings(environment, facts.pip_settings);
  const bool by_uv = facts.has_uv && !(facts.has_pip && !settings.empty());
  UvSettings told = by_uv ? uv_settings(settings) : UvSettings();
  Variables variables = installer_variables(environment);
  variables.merge(told.variables);  // what uv was told by its own variables stays
  std::vector<SetupStep> steps;
  const auto install = [&](const std::string& what, const std::vector<std::string>& arguments) {
    Process process{.argv = install_command(assignment, by_uv), .environment = variables};
    process.argv.insert(process.argv.end(), told.arguments.begin(), told.arguments.end());
    process.argv.insert(process.argv.end(), arguments.begin(), arguments.end());
    steps.push_back({.what = what, .process = std::move(process), .obstacle = obstacle_of(told)});
  };
  if (facts.has_requirements) {
    install("install requirements.txt", {"-r", "requirements.txt"});
  }
  if (facts.has_setup_py) {
    install("install the package of setup.py", {"."});
  }
  return steps;
}

std::string installer_advice(const std::vector<std::string>& last_lines) {
  for (const Advice& advice : all_advice()) {
    for (const std::string_view sign : advice.signs) {
      const bool is_there = std::any_of(
          last_lines.begin(), last_lines.end(),
          [&](const std::string& line) { return line.find(sign) != std::string::npos; });
      if (is_there) {
        return std::string(advice.text);
      }
    }
  }
  return {};
}

}  // namespace trainyard::instance
