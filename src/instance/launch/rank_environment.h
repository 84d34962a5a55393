// SPDX-License-Identifier: Apache-2.0
// torch.distributed's variables for one rank of a launch, so that a script with init_method
// "env://" runs alike under every launcher. Pure. Names: PyTorch, "torchrun", Environment
// Variables. And those by which scripts know SageMaker's SMDDP runner.
#pragma once

#include <string>

#include "base/result.h"
#include "instance/launch/environment.h"

namespace trainyard::instance {

struct RankPlace {
  int rank = 0;
  int local_rank = 0;
  int world = 1;
  int local_world = 1;
  int node = 0;
  int nodes = 1;
};

// RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, NODE_RANK.
Variables rank_variables(const RankPlace& place);

// From what Open MPI gives to each rank; `node` and `nodes` are for the caller to fill in.
// kInvalidArgument outside mpirun.
Result<RankPlace> place_under_mpi(const Variables& environment);

// What the training toolkit's SMDDP runner sets on every rank (aws/sagemaker-training-toolkit,
// smdataparallel.py). Nothing listens at the server's address: the ranks reduce among themselves.
Variables smddp_variables(const wire::Assignment& assignment);

}  // namespace trainyard::instance
