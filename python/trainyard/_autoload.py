# SPDX-License-Identifier: Apache-2.0
"""What PyTorch calls at its own start, by the entry points of the wheel."""
import torch.distributed as dist


def register_early():
    """For a PyTorch that does not look for backends when they are asked for."""
    if dist.is_available() and not hasattr(dist.Backend, "_ensure_backend_registered"):
        register()


def register():
    from . import torch as backend
    backend.register()


def register_smddp():
    from . import torch as backend
    backend.register_smddp()
