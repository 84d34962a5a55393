// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/interfaces.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "base/text.h"

namespace trainyard::instance {
namespace {

using Interfaces = std::vector<NetworkInterface>;

constexpr std::array<const char*, 3> kVariables = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
                                                   "TP_SOCKET_IFNAME"};

bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> ignored;
  return inet_pton(AF_INET, text.c_str(), ignored.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), ignored.data()) == 1;
}

const NetworkInterface* with_address(const Interfaces& present, const std::string& address) {
  const auto found = std::find_if(present.begin(), present.end(), [&](const auto& interface) {
    return std::find(interface.addresses.begin(), interface.addresses.end(), address) !=
           interface.addresses.end();
  });
  return found == present.end() ? nullptr : &*found;
}

// A name, or the beginning of one, as NCCL takes them.
bool is_present(const Interfaces& present, std::string_view name) {
  return std::any_of(present.begin(), present.end(),
                     [&](const auto& interface) { return interface.name.starts_with(name); });
}

bool needs_no_help(const Interfaces& present, const std::string& value) {
  const std::vector<std::string_view> names = split(value, ',');
  return value.starts_with('^') || value.starts_with('=') ||
         std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return is_present(present, trim(name)); });
}

std::string listing(const Interfaces& present) {
  std::vector<std::string> names;
  names.reserve(present.size());
  for (const NetworkInterface& interface : present) {
    names.push_back(fmt::format("{} ({})", interface.name, join(interface.addresses, ", ")));
  }
  return join(names, ", ");
}

}  // namespace

std::string own_interface(const wire::Assignment& assignment, const Interfaces& present) {
  const auto own = std::find_if(assignment.hosts.begin(), assignment.hosts.end(),
                                [&](const auto& host) { return host.name == assignment.host; });
  const NetworkInterface* const found =
      own == assignment.hosts.end() ? nullptr : with_address(present, own->address);
  return found == nullptr ? assignment.network_interface : found->name;
}

Result<void> settle_interfaces(Variables& variables, const wire::Assignment& assignment,
                               const Interfaces& present, std::vector<std::string>& notes) {
  const std::string& own = assignment.network_interface;
  for (const char* name : kVariables) {
    std::string& value = variables[name];
    const std::string asked(trim(value));
    if (asked.empty()) {
      value = own;
    } else if (is_address(asked)) {
      const NetworkInterface* const found = with_address(present, asked);
      if (found == nullptr) {
        return Error{
            Code::kInvalidArgument,
            fmt::format("{} is '{}': the name of an interface belongs there, and no interface of "
                        "this instance has that address. Leave it out for {}; there are: {}",
                        name, asked, own, listing(present))};
      }
      value = found->name;
    } else if (!needs_no_help(present, asked)) {
      notes.push_back(
          fmt::format("{}={} names no interface of this instance: {} is used.", name, asked, own));
      value = own;
    }
  }
  return {};
}

}  // namespace trainyard::instance
