// SPDX-License-Identifier: Apache-2.0
// Judges what was found on a machine: is it fit to train on, what is in the way, and what to do
// about it. Pure. What a machine needs depends on what it is: an adapter that nobody needs is no
// fault, the same on an instance type with one is.
#pragma once

#include "doctor/facts.h"
#include "doctor/finding.h"

namespace trainyard::doctor {

Findings diagnose(const Facts& facts);

// Its parts, in that order.
Findings diagnose_fabric(const Facts& facts);     // libfabric, EFA, NCCL's plugin, GPUDirect
Findings diagnose_variables(const Facts& facts);  // of the environment
Findings diagnose_network(const Facts& facts);    // which interfaces collectives use
Findings diagnose_limits(const Facts& facts);     // of memory and files
Findings diagnose_sandbox(const Facts& facts);    // how instances can be enclosed
Findings diagnose_clock(const Facts& facts);
Findings diagnose_home(const Facts& facts);  // the disk of the server's state

}  // namespace trainyard::doctor
