# SPDX-License-Identifier: Apache-2.0
"""What PyTorch (2.14 and newer) calls by the wheel's entry points: when a script names one of our
backends, and at the end of `import torch`, for scripts that name none."""
import os

from . import shim_build


def register():
    from . import torch
    torch.register()


def register_smddp():
    from . import torch
    torch.register_smddp()


_OURS = {"yard": register, "yard+gloo": register, "smddp": register_smddp}


def choose_default():
    """What init_process_group() and new_group() take for tensors of the CPU where no backend is named:
    what TRAINYARD_DEFAULT_BACKEND says, else PyTorch's own choice. One of ours is chosen only when it is
    compiled for this very PyTorch: a job that brings another version keeps Gloo, and compiles nothing."""
    name = os.environ.get("TRAINYARD_DEFAULT_BACKEND", "").lower()
    if not name or (name in _OURS and not shim_build.is_compiled()):
        return
    import torch.distributed as dist
    if dist.is_available():
        _OURS.get(name, lambda: None)()
        dist.Backend.default_device_backend_map["cpu"] = name
