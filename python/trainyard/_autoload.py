# SPDX-License-Identifier: Apache-2.0
"""What PyTorch (2.14 and newer) calls by the wheel's entry points: when a script names one of our
backends, and at the end of `import torch`, for scripts that name none."""
import os

from . import _choice, _exit, shim_build


def register():
    from . import torch
    torch.register()


def register_smddp():
    from . import torch
    torch.register_smddp()


_OURS = {"yard": register, "yard+gloo": register, "yard+nccl": register, "smddp": register_smddp}


def _has_gpus():
    import torch
    return torch.cuda.is_available()


def choose_default():
    """What init_process_group() and new_group() take where no backend is named: what
    TRAINYARD_DEFAULT_BACKEND says ("yard", or "cpu:yard,cuda:yard+nccl"), else PyTorch's own choice. One of
    ours is chosen only when it is compiled for this very PyTorch: a job that brings another version keeps
    Gloo and NCCL, and compiles nothing."""
    _exit.register()
    watches = _choice.watches_nccl(os.environ)
    chosen = _choice.carriers(os.environ.get("TRAINYARD_DEFAULT_BACKEND", ""), watches and _has_gpus(), watches)
    if not chosen or (not _OURS.keys().isdisjoint(chosen.values()) and not shim_build.is_compiled()):
        return
    import torch.distributed as dist
    if dist.is_available():
        for backend in chosen.values():
            _OURS.get(backend, lambda: None)()
        dist.Backend.default_device_backend_map.update(chosen)
