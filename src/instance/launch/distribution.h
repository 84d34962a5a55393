// SPDX-License-Identifier: Apache-2.0
// Decides, from the hyperparameters that SageMaker's `distribution=` becomes, how many processes a
// host runs and who starts them. Pure. When several are asked for, the first of these wins, as in
// the service's PyTorch containers: mpi, pytorchddp, torch_distributed, smdistributed's
// dataparallel, a plain process.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "instance/launch/hyperparameters.h"
#include "instance/launch/mpi_command.h"
#include "wire/messages.h"

namespace trainyard::instance {

enum class Launcher {
  kPlain,       // one process on each host
  kTorchrun,    // torchrun's ranks, started by ourselves
  kMpi,         // mpirun from the first host
  kPytorchDdp,  // the same, for torch.distributed
  kSmddp,       // the same, for scripts of smdistributed.dataparallel
};

struct Distribution {
  Launcher launcher = Launcher::kPlain;
  int processes = 1;  // on each host: what the job says, else one a GPU, else one
  CustomMpiOptions mpi = {};

  // The service starts both by one runner of its training toolkit: SMDDP's.
  bool by_smddp_runner() const {
    return launcher == Launcher::kPytorchDdp || launcher == Launcher::kSmddp;
  }
};

// kInvalidArgument for a launcher that is not there, a switch that is neither true nor false, a
// number that is none, or bad MPI options.
Result<Distribution> choose_distribution(const Hyperparameters& all,
                                         const wire::Assignment& assignment);

}  // namespace trainyard::instance
