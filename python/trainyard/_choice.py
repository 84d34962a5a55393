# SPDX-License-Identifier: Apache-2.0
"""Which backend carries the tensors of which kind of device. Pure, and without PyTorch.

On GPUs NCCL is left as PyTorch has it, unless TRAINYARD_WATCH_NCCL is 1: no machine with GPUs was at hand
to run the watched one on."""

WATCH_NCCL = "TRAINYARD_WATCH_NCCL"


def watches_nccl(environment):
    return environment.get(WATCH_NCCL, "") == "1"


def carriers(name, has_gpus, watches):
    """{"cpu": ..., "cuda": ...} of a group whose backend is said to be `name`; without the devices whose
    backend is not ours to choose. "cuda:..." and "cpu:..." pairs are taken as they are."""
    name = name.strip().lower()
    if ":" in name:
        return dict(pair.split(":", 1) for pair in name.split(","))
    if not has_gpus:
        return {"cpu": name} if name else {}
    if name in ("yard", "smddp") and watches:
        return {"cpu": "yard", "cuda": "yard+nccl"}
    if name == "smddp":
        return {"cuda": "nccl"}
    return {"cpu": name} if name else {}
