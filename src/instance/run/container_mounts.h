// SPDX-License-Identifier: Apache-2.0
// Decides what a job's container sees of the machine: all of it read-only, minus homes, run-time
// state, secrets and our own, plus the job's own directories and devices. Pure; main.cc looks up
// the facts and makes the directories.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "instance/launch/environment.h"
#include "sandbox/container.h"

namespace trainyard::instance {

// Where a container sees the two folders of its ranks (run/rank_places.h). Short: the name of a
// socket has room for 107 bytes.
inline constexpr const char* kMeetingPlace = "/run/trainyard/comm";
inline constexpr const char* kStatusPlace = "/run/trainyard/status";

struct OptEntry {
  std::string name;
  std::string link = {};  // where it leads, when it is a symbolic link
};

struct ContainerPlaces {
  std::string scratch;         // holds ml, tmp, var-tmp, checkpoints, hosts, resolv.conf, sys
  std::string home;            // $TRAINYARD_HOME: hidden
  std::string user_home = {};  // of who runs this, without root: hidden
  // Without root /opt/ml cannot be made on the machine: an /opt of the container's own then shows
  // these, by their names in it.
  std::vector<OptEntry> opt = {};
  bool own_opt = false;
  std::string python_environment;  // empty: none to bind
  bool python_is_layered = false;  // it has a layer of this job's own: writable
  std::string resolver;            // where /etc/resolv.conf leads, links resolved
  // Of secret_places(), and the server's own key: those that are there, links resolved.
  std::vector<std::string> secret_directories;
  std::vector<std::string> secret_files;
  std::vector<VisibleFile> devices;  // device nodes of this instance's GPUs, and no others
  std::vector<VisibleFile> files;    // certificates
  std::string checkpoints;           // where the container sees them; empty: nowhere
  std::string meeting = {};          // run/rank_places.h; empty: none
  std::string status = {};           // the same
  std::uint64_t shared_memory = 0;   // bytes of /dev/shm
  bool own_sysfs = false;            // <scratch>/sys is mounted
};

// Directories of the machine that are empty in a container.
std::vector<std::string> hidden_directories(const ContainerPlaces& places);
// Files and directories that hold secrets of machines. A server that runs as root starts jobs that
// may read every file which they see.
std::vector<std::string> secret_places();

std::vector<sandbox::ContainerMount> container_mounts(const ContainerPlaces& places);

// Whether bubblewrap can make a missing `directory` where something is to be mounted: below one of
// `mounts` that is writable, and not on the machine's own root.
bool can_be_made(const std::vector<sandbox::ContainerMount>& mounts, std::string_view directory);

}  // namespace trainyard::instance
