// SPDX-License-Identifier: Apache-2.0
// Which network interface the instances of a job talk over, and what a job that names one itself
// gets. Pure; machine.h looks the interfaces up. Libraries read NCCL_SOCKET_IFNAME,
// GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME; our defaults name the interface that has the instance's
// own address, never the loopback or a bridge.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "instance/launch/environment.h"
#include "wire/messages.h"

namespace trainyard::instance {

struct NetworkInterface {
  std::string name;
  std::vector<std::string> addresses;
};

// The name of the interface that carries the assignment's own address; what the assignment says
// where none does.
std::string own_interface(const wire::Assignment& assignment,
                          const std::vector<NetworkInterface>& present);

// The job's own values of the three variables, in place: empty is automatic, an address means the
// interface that has it, a name that does not exist here is replaced and told in `notes`; lists and
// NCCL's "^" and "=" stay. kInvalidArgument for an address that no interface has.
Result<void> settle_interfaces(Variables& variables, const wire::Assignment& assignment,
                               const std::vector<NetworkInterface>& present,
                               std::vector<std::string>& notes);

}  // namespace trainyard::instance
