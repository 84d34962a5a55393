# SPDX-License-Identifier: Apache-2.0
"""Importing it makes the backend "smddp" known to torch.distributed:

    import smdistributed.dataparallel.torch.torch_smddp
    torch.distributed.init_process_group(backend="smddp")

It is Trainyard's "yard" on hosts without GPUs, and NCCL on others (with TRAINYARD_WATCH_NCCL=1, which is
untested on GPUs, watched). Unlike SageMaker's it has new_group() and barrier() with any arguments.
"""
from trainyard import torch as _backend

_backend.register_smddp()
