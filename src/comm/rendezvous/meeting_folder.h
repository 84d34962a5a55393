// SPDX-License-Identifier: Apache-2.0
// The folder in which ranks of one machine meet although their network namespaces differ: each that
// may lead a host has a socket in it, "comm-<24 hexadecimal digits>", while it joins. Used by
// join.h.
#pragma once

#include <string>

namespace trainyard::comm {

inline constexpr const char* kMeetingSocket = "comm-";

// `folder`, or nothing where it is none or this user may make no sockets in it. Such a folder is
// shared with nobody: the rank counts as on a host of its network namespace, with a warning in the
// log.
std::string usable_meeting_folder(const std::string& folder);

// Removes the sockets of ranks that were killed while they joined: old ones at which nobody
// listens. A young one may be between its name and its listener.
void remove_abandoned_sockets(const std::string& folder);

}  // namespace trainyard::comm
