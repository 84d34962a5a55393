# SPDX-License-Identifier: Apache-2.0
"""The API of smdistributed.dataparallel before 1.4, on torch.distributed. Each function is that of
torch.distributed with the same name; what differs is said where it does.
"""
import os

import torch.distributed as _dist
from torch.distributed import (ReduceOp, all_gather, all_reduce, all_to_all_single, barrier, broadcast,
                               gather, get_rank, get_world_size, is_initialized, new_group, reduce,
                               scatter)

from . import torch_smddp as _torch_smddp  # noqa: F401 (registers the backend)

__all__ = ["ReduceOp", "all_gather", "all_reduce", "all_to_all_single", "barrier", "broadcast", "gather",
           "get_local_rank", "get_rank", "get_world_size", "init_process_group", "is_available",
           "is_initialized", "new_group", "reduce", "scatter"]

# How mpirun says what torchrun's variables say.
_OF_MPIRUN = {"RANK": "OMPI_COMM_WORLD_RANK", "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
              "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK"}


def is_available():
    return _dist.is_available()


def init_process_group(backend="smddp", **options):
    """Ranks are those of torchrun or of mpirun; MASTER_ADDR and MASTER_PORT as for torch.distributed."""
    for name, other in _OF_MPIRUN.items():
        if name not in os.environ and other in os.environ:
            os.environ[name] = os.environ[other]
    _dist.init_process_group(backend, **options)


def get_local_rank():
    """The rank among those of this host; 0 when the launcher does not say."""
    return int(os.environ.get("LOCAL_RANK", os.environ.get(_OF_MPIRUN["LOCAL_RANK"], "0")))
