# SPDX-License-Identifier: Apache-2.0
"""What PyTorch (2.14 and newer) calls when a script names one of our backends: the wheel's entry points."""


def register():
    from . import torch
    torch.register()


def register_smddp():
    from . import torch
    torch.register_smddp()
