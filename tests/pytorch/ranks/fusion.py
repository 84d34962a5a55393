# SPDX-License-Identifier: Apache-2.0
"""Fusion buffers that nobody flushes: while the group lives, when it is aborted, and after its end."""
import threading
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from report import RANK, SIZE, attempt, tell_error

import trainyard.torch as yard
from trainyard.torch import hooks

LONG = timedelta(seconds=300)


def new_group():
    return dist.new_group(range(SIZE), backend="yard", timeout=LONG)


def threads():
    return len(list(Path("/proc/self/task").iterdir()))


def flushed_too_late():
    group = new_group()
    state = hooks.FusionState(group)
    gradient = torch.full((8,), float(RANK))
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), group)  # ranks may take longer to meet
    work = state.add(gradient)
    tell_error("not flushed", work.wait)
    dist.barrier()
    state.flush()
    work.get_future().wait()
    assert torch.equal(gradient, torch.full((8,), (SIZE - 1) / 2))


def aborted():
    group = new_group()
    state = hooks.FusionState(group)
    work = state.add(torch.ones(8))
    timer = threading.Timer(0.2, lambda: yard.abort("the loss is not a number", group))
    if RANK == 1:
        timer.start()
    tell_error("aborted", work.wait)


def shut_down():
    before = threads()
    group = new_group()
    state = hooks.FusionState(group)
    state.add(torch.ones(8))
    assert threads() > before
    dist.destroy_process_group(group)
    assert threads() == before  # the buffers that Python holds keep none of it
    tell_error("flushed after the end", state.flush)
    tell_error("added after the end", lambda: state.add(torch.ones(8)))


dist.init_process_group("yard", timeout=LONG)
attempt("flushed too late", flushed_too_late)
aborted()
dist.barrier()
attempt("shut down", shut_down)
dist.destroy_process_group()
