// SPDX-License-Identifier: Apache-2.0
// The two folders by which the ranks of a job reach beyond their container. In one, which all
// instances of the gang on this machine share, they find each other and so share memory, although
// each instance has a network of its own (comm/rendezvous); in the other one, of this instance
// alone, they show how far they are and leave their flight records (comm/health). Both begin empty
// with each attempt.
#pragma once

#include "base/file.h"
#include "base/result.h"
#include "instance/launch/environment.h"
#include "instance/run/container_mounts.h"

namespace trainyard::instance {

// Makes `<folder>/<epoch>` and gives it; the instances of an attempt may do so at the same time.
// What attempts before have left there, sockets of killed ranks, goes.
Result<Path> make_meeting_place(const Path& folder, int epoch);

// Makes `<scratch>/status` and gives it: in memory, which ranks map and a full disk cannot take
// from them; on the disk, with a line in our log, where none can be mounted.
Result<Path> make_status_place(const Path& scratch);

// Both, for the container. An empty `folder`: nothing is shared with other instances.
Result<void> make_rank_places(const Path& folder, int epoch, ContainerPlaces& places);

// How the collectives library of a program is told of them.
Variables rank_place_variables(const ContainerPlaces& places);

}  // namespace trainyard::instance
