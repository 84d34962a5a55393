# SPDX-License-Identifier: Apache-2.0
"""What ranks are told when one of them disagrees, is late, gives up or dies, on each of our
backends. Each fault ends a group of its own; a plain Gloo group keeps the ranks together in between."""
import os
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from report import RANK, SIZE, tell, tell_error

import trainyard.torch

BACKENDS = ("yard", "yard+gloo")


def group(seconds=60):
    made = dist.new_group(range(SIZE), backend=BACKEND, timeout=timedelta(seconds=seconds))
    dist.all_reduce(torch.ones(1), group=made)
    dist.barrier()
    return made


def sum_of(count, made, dtype=torch.float32):
    dist.all_reduce(torch.ones(count, dtype=dtype), group=made)


def pass_on(made, count, source=0):
    """Rank 0 sends 8 to rank 1; rank 2 only hears how it ends."""
    if RANK == 0:
        dist.send(torch.ones(8), 1, group=made)
    elif RANK == 1:
        dist.recv(torch.ones(count), source, group=made)
    sum_of(8, made)


def last_state(made):
    return trainyard.torch.flight_record(made).splitlines()[-1]


dist.init_process_group("gloo", timeout=timedelta(seconds=60))
store = dist.distributed_c10d._get_default_store()
pids = [None] * SIZE
dist.all_gather_object(pids, os.getpid())

for BACKEND in BACKENDS:
    made = group()
    tell_error(f"{BACKEND}: count", lambda: sum_of(9 if RANK == 1 else 8, made))
    tell(f"{BACKEND}: record", text=last_state(made))
    tell_error(f"{BACKEND}: closed", lambda: sum_of(8, made))

    made = group()
    tell_error(f"{BACKEND}: operation", lambda: dist.broadcast(torch.ones(8), 0, group=made) if RANK == 2 else sum_of(8, made))

    made = group()
    tell_error(f"{BACKEND}: dtype", lambda: sum_of(8, made, torch.float64 if RANK == 1 else torch.float32))

    made = group()
    tell_error(f"{BACKEND}: root", lambda: (
        dist.broadcast(torch.ones(8), 2 if RANK == 2 else 0, group=made), sum_of(8, made)))  # roots only send

    made = group()
    tell_error(f"{BACKEND}: all_to_all", lambda: dist.all_to_all_single(
        torch.ones(3 * (3 if RANK == 1 else 2)), torch.ones(3 * (3 if RANK == 1 else 2)), group=made))

    # Rank 0 sends 3 rows to rank 1, which takes 2.
    made = group()
    sends = [1, 3, 1] if RANK == 0 else [1, 1, 1]
    takes = [1, 1, 1] if RANK == 0 else [1, 1, 1] if RANK == 2 else [2, 1, 1]
    tell_error(f"{BACKEND}: splits", lambda: (dist.all_to_all_single(
        torch.zeros(sum(takes)), torch.ones(sum(sends)), takes, sends, group=made), sum_of(8, made)))

    made = group()
    tell_error(f"{BACKEND}: receive", lambda: pass_on(made, 9 if RANK == 1 else 8))
    tell(f"{BACKEND}: receive record", text=trainyard.torch.flight_record(made))

    if BACKEND != "yard":
        made = group()
        tell_error(f"{BACKEND}: receive from any", lambda: pass_on(made, 9 if RANK == 1 else 8, source=None))

    made = group(seconds=2)
    if RANK == 1:
        tell_error(f"{BACKEND}: receive late", lambda: dist.recv(torch.ones(8), 0, group=made))
    dist.barrier()

    made = group()
    tell_error(f"{BACKEND}: future", lambda: dist.all_reduce(
        torch.ones(8), dist.ReduceOp.MAX if RANK == 0 else dist.ReduceOp.MIN, group=made,
        async_op=True).get_future().wait())

    made = group(seconds=2)
    if RANK != 2:
        tell_error(f"{BACKEND}: late", lambda: sum_of(8, made))
    dist.barrier()

    made = group(seconds=2)
    if RANK == 2:
        os.kill(os.getpid(), signal.SIGSTOP)  # until rank 0 has been told
        store.set(f"{BACKEND} goes on", "")
    else:
        tell_error(f"{BACKEND}: stopped", lambda: sum_of(8, made))
    while RANK == 0 and not store.check([f"{BACKEND} goes on"]):  # it may be about to stop
        os.kill(pids[2], signal.SIGCONT)
        time.sleep(0.05)
    dist.barrier()

    made = group(seconds=60)
    if RANK != 1:
        tell_error(f"{BACKEND}: monitored barrier", lambda: dist.monitored_barrier(made, timeout=timedelta(seconds=2)))
    dist.barrier()

    made = group()
    if RANK == 0:
        threading.Timer(0.3, lambda: trainyard.torch.abort("the loss is not a number", made)).start()
    tell_error(f"{BACKEND}: abort", lambda: sum_of(8, made) if RANK != 0 else (time.sleep(1), sum_of(8, made)))
    dist.barrier()

groups = []
for BACKEND in BACKENDS:
    groups.append((BACKEND, group()))
tell("before the kill", pid=os.getpid())
if RANK == 2:
    os.kill(os.getpid(), signal.SIGKILL)
for BACKEND, made in groups:
    tell_error(f"{BACKEND}: killed", lambda: sum_of(8, made))
time.sleep(1)  # the other one is to hear of this death, not of the next
os._exit(0)  # the plain group has lost a rank, and may wait for it
