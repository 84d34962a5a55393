// SPDX-License-Identifier: Apache-2.0
// Changes of a job's status, as pure functions: which transition is legal, what a client sees in
// SecondaryStatusTransitions, which times are set on the way. Timestamps never decrease, whatever
// the wall clock does, and every transition carries a StatusMessage (clients index it).
#pragma once

#include <string_view>

#include "control/job/job.h"

namespace trainyard::control {

// Starting -> Downloading -> Training -> Uploading -> Completed; any of these -> Stopping ->
// Stopped, MaxRuntimeExceeded or MaxWaitTimeExceeded; any -> Failed; back to Starting for a new
// attempt. Nothing leaves a terminal status.
bool is_legal(Secondary from, Secondary to);

// Opens the first transition of a new job.
void begin(Job& job, std::string_view message, WallTime now);

// Closes the current transition and opens the next. An illegal one is a bug and aborts.
void set_status(Job& job, Secondary to, std::string_view message, WallTime now);

// Replaces the message of the current transition. False when it says so already.
bool set_message(Job& job, std::string_view message, WallTime now);

// The first outcome stays, with two exceptions: a stop or limit replaces "will complete", and a
// failure replaces "will complete" and a failure that did not happen before it.
void conclude(Job& job, const Outcome& outcome);

// Begins the next attempt under the job's epoch. One that is still open goes on under it: the
// server was restarted before its instances ran.
void open_attempt(Job& job, WallTime now);
// Nothing when none is open.
void close_attempt(Job& job, std::string_view cause, std::string_view host, WallTime now);
// The one whose end is being repaired, or was. Null: none has ended.
const Attempt* last_ended_attempt(const Job& job);
// All of them.
void set_also_lost(Job& job, const std::vector<std::string>& hosts);

// How long the next repair waits after so many that followed each other without the job having
// trained: the first not at all, then 1 s, 2 s, 4 s, ... up to a minute.
Duration repair_pause(int repairs);

}  // namespace trainyard::control
