// SPDX-License-Identifier: Apache-2.0
// Who gets the machine: a pure function from all unfinished jobs to one verdict for each waiting
// one. A gang is granted whole or not at all, in order of creation. A gang that does not fit keeps
// its place and blocks nobody: a later one that fits may run (backfill). One job in its source
// check keeps its place the same way, so that milliseconds of checking never cost a turn.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/job/job.h"

namespace trainyard::control {

struct Machine {
  int instances = 4;
  std::vector<std::string> gpus = {};       // device numbers
  std::string gpu_device = "/dev/nvidia*";  // the device node of a GPU; '*' is its number
};

// "/dev/nvidia3" for number 3.
std::string gpu_node(const Machine& machine, const std::string& number);

// The verdict for one job.
struct CapacityView {
  bool granted = false;
  std::vector<std::vector<std::string>> gpus = {};  // of each instance, when granted
  int total = 0;                                    // instances of the machine
  int free = 0;                                     // instances that nobody holds
  int total_gpus = 0;
  int free_gpus = 0;       // GPUs that nobody holds
  std::string ahead = {};  // the first job before this one that also waits; empty: none

  bool operator==(const CapacityView&) const = default;
};

// `jobs` in any order, finished ones allowed. Has an entry for each job that is in kWaiting.
std::map<std::string, CapacityView> plan_queue(const std::vector<const Job*>& jobs,
                                               const Machine& machine);

// "Waiting for capacity: 2 of 3 needed instances free; job x is ahead", or that the machine has
// become too small for it.
std::string waiting_message(const Job& job, const CapacityView& view);

// GPUs of one instance of this AWS type; 0 for CPU types and names that we do not know.
int gpus_of_type(std::string_view instance_type);
std::string instance_type(const Job& job);

// What an instance of the job's type is on this machine, as a sentence: "ml.p4d.24xlarge is mapped
// to 2 GPUs of this machine, not 8."
std::string mapping_of(const Job& job);
bool has_gpu_type(const Job& job);

// How many of the machine's GPUs each instance gets: what its type has, less when the machine has
// less, none when it has none at all (the job then runs on CPU). kExhausted when the instances
// outnumber the machine or its GPUs: such a job could never run.
Result<int> fit_to_machine(const Job& job, const Machine& machine, int instances_in_use);

}  // namespace trainyard::control
