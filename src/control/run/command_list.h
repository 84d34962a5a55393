// SPDX-License-Identifier: Apache-2.0
// The commands of one instance in one attempt, as they are stored and sent: those that it has not
// taken, and always the last one, which says where the numbers go on. An instance takes a command
// by asking for those after it. Pure; the reconciler keeps a list for each host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/messages.h"

namespace trainyard::control {

// Users may send no signal to an instance that has as many before it. Our own commands are few.
inline constexpr std::size_t kMostWaitingCommands = 128;

std::size_t count_waiting(const std::vector<wire::Command>& commands, std::int64_t taken);

// `command` gets the next number; those up to `taken` go.
void add_command(std::vector<wire::Command>& commands, wire::Command command, std::int64_t taken);

}  // namespace trainyard::control
