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
    tell_error("not flushed, by the future", work.get_future().wait)
    dist.barrier()
    state.flush()
    work.wait()
    assert torch.equal(gradient, torch.full((8,), (SIZE - 1) / 2))


def aborted():
    group = new_group()
    state = hooks.FusionState(group)
    work = state.add(torch.ones(8))
    timer = threading.Timer(0.2, lambda: yard.abort("the loss is not a number", group))
    if RANK == 1:
        timer.start()
    tell_error("aborted", work.wait)


def aborted_for_a_future():
    group = new_group()
    state = hooks.FusionState(group)
    future = state.add(torch.ones(8)).get_future()
    if RANK == 1:
        yard.abort("the loss is not a number", group)
    tell_error("aborted, by the future", future.wait)


def dropped():
    group = new_group()
    first, second = hooks.FusionState(group), hooks.FusionState(group)
    of_first, of_second = (state.add(torch.ones(8)).get_future() for state in (first, second))
    del first
    tell_error("its state has ended", of_first.wait)
    dist.destroy_process_group(group)
    tell_error("its group has ended", of_second.wait)


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
aborted_for_a_future()
dist.barrier()
dropped()
dist.barrier()
attempt("shut down", shut_down)
dist.destroy_process_group()
