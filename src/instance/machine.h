// SPDX-License-Identifier: Apache-2.0
// Looks at this machine for what container_mounts.h needs to know, and makes the directories of the
// scratch that a container is given, for each attempt anew.
#pragma once

#include "base/file.h"
#include "base/result.h"
#include "instance/launch/environment.h"
#include "instance/launch/interfaces.h"
#include "instance/run/container_mounts.h"
#include "instance/transfer/checkpoint_place.h"
#include "wire/messages.h"

namespace trainyard::instance {

// The environment variables of this process.
Variables own_environment();

// The network interfaces of this process's namespace that are up, with their addresses.
std::vector<NetworkInterface> network_interfaces();

// $TRAINYARD_HOME, else what lies above the engine's `run` directory, else the scratch's parent.
Path home_of(const Path& scratch, const Variables& environment);

// Clears away what an attempt has left, before another one on the same machine: mounts (the layer
// over `layered`, when that is not empty) and files. Channels that were complete stay, whatever
// user code did to them; nothing that it may have made in their place is followed. Code and
// checkpoints are brought anew.
Result<void> clear_scratch(const Path& scratch, const std::string& layered);

// Makes ml, tmp, var-tmp, hosts, resolv.conf below `scratch`, /opt/ml on the machine where that is
// possible, and the files of the container contract. `files` of the result are still to be filled
// in. `without_root`: we are root in a user namespace only, on the machine's network.
Result<ContainerPlaces> make_places(const wire::Assignment& assignment, const Path& scratch,
                                    const Variables& environment, bool without_root = false);

// Makes the directory of the checkpoints, below the scratch. In the container it is mounted where
// the job owns what lies above, or over a directory of the machine: nothing is made there, so
// kInvalidArgument for any other LocalPath, and for one that leads through a link.
Result<void> make_checkpoint_place(const CheckpointPlace& place, ContainerPlaces& places);

}  // namespace trainyard::instance
