// SPDX-License-Identifier: Apache-2.0
// The files that the container contract promises: what lies under /opt/ml/input/config before the
// user's program starts, the hosts file, and the names of the directories. Pure: session.cc writes
// what this decides. Source: "How Amazon SageMaker AI Provides Training Information", AWS
// developer guide.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "wire/messages.h"

namespace trainyard::instance {

inline constexpr std::string_view kMlRoot = "/opt/ml";
inline constexpr std::string_view kCodeDirectory = "/opt/ml/code";
inline constexpr std::string_view kInputDirectory = "/opt/ml/input/data";

struct ContractFile {
  std::string path;  // below /opt/ml
  std::string content;
};

nlohmann::json resource_config(const wire::Assignment& assignment);
nlohmann::json input_data_config(const nlohmann::json& request);

std::vector<ContractFile> contract_files(const wire::Assignment& assignment);
// Directories below /opt/ml, parents first, one per channel included.
std::vector<std::string> contract_directories(const wire::Assignment& assignment);

// Every host by name at its own address. The own name is never an address of the loopback: a rank
// that advertises 127.0.1.1 is unreachable for its peers.
std::string hosts_file(const wire::Assignment& assignment);

// What a container can use of the machine's resolver configuration. A name server on the loopback
// (systemd-resolved's stub) does not exist inside a network namespace: then `upstream`, the
// configuration behind the stub, is taken where there is one.
std::string resolver_file(std::string_view machine, std::string_view upstream);

}  // namespace trainyard::instance
