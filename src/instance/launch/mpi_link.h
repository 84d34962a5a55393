// SPDX-License-Identifier: Apache-2.0
// What our own programs in the containers of an MPI job have to know of each other: the leader, the
// workers, the remote shells and the ranks. It travels in one environment variable, which the
// user's program does not get to see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "instance/launch/environment.h"
#include "wire/messages.h"

namespace trainyard::instance {

inline constexpr const char* kMpiLinkVariable = "TRAINYARD_MPI";
// Where each instance listens, at its own address only. With a network of its own no other job can
// be in the way, and no program of the user's expects this port: the service's own MPI containers
// have sshd there. On a shared network it is one of the job's ports.
inline constexpr std::uint16_t kRemoteShellPort = 22;

struct MpiLink {
  std::string host;               // this one
  std::vector<wire::Host> hosts;  // the leader first
  std::string secret;             // of the attempt
  std::uint16_t port = kRemoteShellPort;
};

std::string to_text(const MpiLink& link);
// kInvalidArgument when the variable is missing or is not ours.
Result<MpiLink> mpi_link_in(const Variables& environment);
// kNotFound for a host that is not of the job.
Result<wire::Host> host_named(const MpiLink& link, const std::string& name);

}  // namespace trainyard::instance
