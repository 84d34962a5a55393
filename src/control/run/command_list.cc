// SPDX-License-Identifier: Apache-2.0
#include "control/run/command_list.h"

#include <algorithm>
#include <utility>

namespace trainyard::control {

std::size_t count_waiting(const std::vector<wire::Command>& commands, std::int64_t taken) {
  return static_cast<std::size_t>(
      std::count_if(commands.begin(), commands.end(),
                    [&](const wire::Command& command) { return command.seq > taken; }));
}

void add_command(std::vector<wire::Command>& commands, wire::Command command, std::int64_t taken) {
  command.seq = commands.empty() ? 1 : commands.back().seq + 1;
  std::erase_if(commands, [&](const wire::Command& older) { return older.seq <= taken; });
  commands.push_back(std::move(command));
}

}  // namespace trainyard::control
