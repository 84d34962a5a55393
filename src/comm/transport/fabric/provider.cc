// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/provider.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "comm/transport/fabric/regions.h"

namespace trainyard::comm {
namespace {

// What the transport asks for: reliable datagrams with tags, progress only when it is looked at,
// one thread at a time. Of any provider when `name` is empty.
FabricInfo make_hints(const FabricLibrary& library, const std::string& name) {
  FabricInfo hints(library.copy(nullptr), InfoFree{library});
  hints->caps = FI_TAGGED;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  if (!name.empty()) {
    hints->fabric_attr->prov_name = ::strdup(name.c_str());  // freed with the hints
  }
  return hints;
}

// Of an endpoint that goes by one; empty otherwise.
std::string ip_address_of(const fi_info& info) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool goes_by_ip = info.addr_format == FI_SOCKADDR || info.addr_format == FI_SOCKADDR_IN ||
                          info.addr_format == FI_SOCKADDR_IN6;
  if (!goes_by_ip || info.src_addr == nullptr) {
    return {};
  }
  const auto* address = static_cast<const sockaddr*>(info.src_addr);
  const void* bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&static_cast<const sockaddr_in*>(info.src_addr)->sin_addr)
          : &static_cast<const sockaddr_in6*>(info.src_addr)->sin6_addr;
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr ? ""
                                                                                     : text.data();
}

struct Wanted {
  const std::string& name;
  const std::string& filter;
};

Error missing(const FabricLibrary& library, const Wanted& wanted, const std::string& where,
              const std::string& why) {
  return {Code::kNotFound,
          fmt::format("libfabric {} has no provider \"{}\" for this machine{}: {}{}",
                      library.version(), wanted.name, where, why,
                      wanted.filter.empty()
                          ? ""
                          : fmt::format("; FI_PROVIDER={} leaves others out", wanted.filter))};
}

}  // namespace

Result<FabricProvider> FabricProvider::find(const std::string& name, const std::string& address,
                                            const std::string& filter) {
  const Wanted wanted{.name = name, .filter = filter};
  YARD_TRY(const FabricLibrary library, FabricLibrary::load());
  FabricProvider provider(library, name);
  if (provider.has_names()) {
    remove_stale_regions();
  }
  const auto found = library.find(*make_hints(library, name));
  if (!found) {
    return missing(library, wanted, "", found.error().message);
  }
  const FabricInfo all(*found, InfoFree{library});
  const fi_info* chosen = all.get();
  std::string addresses;
  while (chosen != nullptr && !address.empty()) {
    const std::string one = ip_address_of(*chosen);
    if (one.empty() || one == address) {
      break;
    }
    addresses += (addresses.empty() ? "" : ", ") + one;
    chosen = chosen->next;
  }
  if (chosen == nullptr) {
    return missing(library, wanted, " at " + address, "it is at " + addresses);
  }
  provider.info_ = std::shared_ptr<const fi_info>(
      library.copy(chosen), [library](fi_info* info) { library.free_info(info); });
  return provider;
}

FabricInfo FabricProvider::info(const std::string& region) const {
  FabricInfo own(library_.copy(info_.get()), InfoFree{library_});
  if (has_names()) {
    // A name that is taken as it is, fi_shm(7).
    const std::string address = "fi_ns://" + region;
    std::free(own->src_addr);
    own->src_addr = ::strdup(address.c_str());
    own->src_addrlen = address.size() + 1;
  }
  return own;
}

Result<FabricSurvey> survey_fabric() {
  YARD_TRY(const FabricLibrary library, FabricLibrary::load());
  FabricSurvey survey{.version = library.version(), .providers = {}};
  const auto found = library.find(*make_hints(library, ""));
  if (!found) {
    return survey;  // a library without a provider for this machine
  }
  const FabricInfo all(*found, InfoFree{library});
  for (const fi_info* one = all.get(); one != nullptr; one = one->next) {
    const std::string name = one->fabric_attr->prov_name;
    if (std::ranges::find(survey.providers, name) == survey.providers.end()) {
      survey.providers.push_back(name);
    }
  }
  return survey;
}

}  // namespace trainyard::comm
