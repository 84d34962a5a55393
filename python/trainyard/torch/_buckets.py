# SPDX-License-Identifier: Apache-2.0
"""Gradient buckets of DistributedDataParallel in memory that the ranks of a host share.

The reducer makes its buckets in C++, with PyTorch's allocator of CPU memory, when it is made and
when it orders them anew after the first step. This subclass stands in for it and, for groups of the
backend "yard", routes those two moments to the group's memory: all-reduces of the buckets then need
no staging. Everything else is the reducer's.
"""
import contextlib

import torch
import torch.distributed as dist

from .. import shim_build


@contextlib.contextmanager
def shared_memory(backend):
    """Large tensors that this thread makes inside lie in `backend`'s memory; None: as always."""
    if backend is None:
        yield
        return
    shim = shim_build.shim()
    shim.route_memory(backend)
    try:
        yield
    finally:
        shim.route_memory(None)


def _yard_backend(arguments):
    for one in arguments:
        if isinstance(one, dist.ProcessGroup) and torch.device("cpu") in one._device_types:
            backend = one._get_backend(torch.device("cpu"))
            return backend if shim_build.shim().is_ours(backend) else None
    return None


_Plain = dist.Reducer


class Reducer(_Plain):
    def __init__(self, *arguments, **named):
        self._yard_backend = _yard_backend([*arguments, *named.values()])
        with shared_memory(self._yard_backend):
            super().__init__(*arguments, **named)

    def _rebuild_buckets(self):
        with shared_memory(self._yard_backend):
            return super()._rebuild_buckets()


def install():
    """For all reducers made from here on, whatever backend their group has."""
    dist.Reducer = Reducer
