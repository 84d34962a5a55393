// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/mpi_link.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "instance/launch/request.h"

namespace trainyard::instance {

using nlohmann::json;

std::string to_text(const MpiLink& link) {
  json hosts = json::array();
  for (const wire::Host& host : link.hosts) {
    hosts.push_back({{"name", host.name}, {"address", host.address}});
  }
  const json value = {
      {"host", link.host}, {"hosts", hosts}, {"secret", link.secret}, {"port", link.port}};
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

Result<MpiLink> mpi_link_in(const Variables& environment) {
  const auto found = environment.find(kMpiLinkVariable);
  const json value =
      found == environment.end() ? json() : json::parse(found->second, nullptr, false);
  const json& port = member(value, "port");
  MpiLink link{.host = text_at(value, "host"), .hosts = {}, .secret = text_at(value, "secret")};
  for (const json& host : member(value, "hosts")) {
    link.hosts.push_back({.name = text_at(host, "name"), .address = text_at(host, "address")});
  }
  if (link.host.empty() || link.hosts.empty() || !port.is_number_integer()) {
    return Error{Code::kInvalidArgument,
                 std::string(kMpiLinkVariable) + " does not describe an MPI job"};
  }
  link.port = port.get<std::uint16_t>();
  return link;
}

Result<wire::Host> host_named(const MpiLink& link, const std::string& name) {
  const auto found = std::find_if(link.hosts.begin(), link.hosts.end(),
                                  [&](const wire::Host& host) { return host.name == name; });
  if (found == link.hosts.end()) {
    return Error{Code::kNotFound, "'" + name + "' is not an instance of this job"};
  }
  return *found;
}

}  // namespace trainyard::instance
