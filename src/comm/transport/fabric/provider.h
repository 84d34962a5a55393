// SPDX-License-Identifier: Apache-2.0
// A provider of libfabric's that was found fit: the endpoints of a rank are made of it. Looking for
// it costs some ten milliseconds, so it is looked for once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/transport/fabric/library.h"

namespace trainyard::comm {

struct InfoFree {
  FabricLibrary library;
  void operator()(fi_info* info) const { library.free_info(info); }
};
using FabricInfo = std::unique_ptr<fi_info, InfoFree>;

class FabricProvider {
 public:
  // `name`: "tcp;ofi_rxm", "shm", "efa", "verbs;ofi_rxm": as fi_info(1) shows it. `address`: of
  // this machine, for providers that go by IP addresses; empty: their choice. `filter`: what
  // FI_PROVIDER says, for the error when it leaves this one out. kNotFound: there is no such
  // provider for this machine, or not at this address.
  static Result<FabricProvider> find(const std::string& name, const std::string& address,
                                     const std::string& filter = "");

  const FabricLibrary& library() const { return library_; }
  const std::string& name() const { return name_; }
  // Its endpoints have names in the file system (regions.h), given by who makes them.
  bool has_names() const { return name_ == "shm"; }
  // For one endpoint, of this name if it has one.
  FabricInfo info(const std::string& region) const;

 private:
  FabricProvider(const FabricLibrary& library, std::string name)
      : library_(library), name_(std::move(name)) {}

  FabricLibrary library_;
  std::string name_;
  std::shared_ptr<const fi_info> info_;  // of all copies of this value
};

// What libfabric there is on this machine, for `trainyard doctor`.
struct FabricSurvey {
  std::string version;                 // "1.17"
  std::vector<std::string> providers;  // that the transport could use here
};
// kNotFound, with the package to install, where there is none.
Result<FabricSurvey> survey_fabric();

}  // namespace trainyard::comm
