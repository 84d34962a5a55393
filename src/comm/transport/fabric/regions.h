// SPDX-License-Identifier: Apache-2.0
// The names under which libfabric's shm provider puts the memory of an endpoint into /dev/shm.
// They are only needed until all ranks have mapped it, and are taken away then: a rank that is
// killed later leaves nothing. Who is killed before that leaves a name, which says whose it was:
// the next endpoint on the machine takes away those of processes that are no more.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::comm {

inline constexpr std::string_view kRegionFolder = "/dev/shm";

// "trainyard-fabric-<pid namespace>-<pid>-<start of the process>-<number of its own>".
Result<std::string> new_region_name();
// Whether the process that a name tells of is gone, as far as it can be seen from here: one of
// another pid namespace cannot.
bool is_stale_region(std::string_view name);

void remove_region(const std::string& name, const Path& folder = kRegionFolder);
void remove_stale_regions(const Path& folder = kRegionFolder);

}  // namespace trainyard::comm
