# SPDX-License-Identifier: Apache-2.0
"""A backend of somebody else's (threaded.py) under the eyes of the library. With tensors of "meta", and
between a start and an end of coalescing, its operations begin at once, as on GPUs."""
import json
from datetime import timedelta
from functools import partial

import threaded  # noqa: F401: registers the backend
import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist
from report import RANK, SIZE, attempt, tell, tell_error
from torch.distributed.distributed_c10d import _coalescing_manager

import trainyard.torch

CPU = torch.device("cpu")


def group(seconds=60):
    return dist.new_group(range(SIZE), backend=NAME, timeout=timedelta(seconds=seconds))


def begin(made, count):
    """An all-reduce as on a GPU: torch.distributed itself does nothing for "meta"."""
    tensor = torch.ones(count, device="meta")
    return made._get_backend(CPU).allreduce([tensor], c10d.AllreduceOptions())


def recorded(made):
    return [(r["op"], r["state"]) for r in map(json.loads, trainyard.torch.flight_record(made).splitlines())]


def as_it_does():
    made = group()
    total = torch.arange(5.0) + RANK
    dist.all_reduce(total, group=made)
    assert torch.equal(total, torch.arange(5.0) * SIZE + 3), total
    told = torch.full((4,), float(RANK))
    dist.broadcast(told, 1, group=made)
    assert torch.equal(told, torch.ones(4)), told
    works = [dist.all_reduce(torch.ones(n), group=made, async_op=True) for n in (1, 2, 3)]
    assert [work.get_future().wait()[0].tolist() for work in works] == [[SIZE] * n for n in (1, 2, 3)]
    got = torch.zeros(3)
    sent = dist.isend(torch.full((3,), float(RANK)), (RANK + 1) % SIZE, group=made)
    dist.recv(got, (RANK - 1) % SIZE, group=made)
    sent.wait()
    assert torch.equal(got, torch.full((3,), float((RANK - 1) % SIZE))), got
    dist.barrier(group=made)
    kinds = ["all_reduce", "broadcast", "all_reduce", "all_reduce", "all_reduce", "barrier"]
    found = recorded(made)
    assert sorted(found) == sorted((kind, "completed") for kind in [*kinds, "send", "receive"]), found


def coalesced():
    made = group()
    tensors = [torch.ones(n) for n in (3, 4)]
    with _coalescing_manager(made, device=CPU, async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor, group=made)
    manager.wait()
    assert [tensor.tolist() for tensor in tensors] == [[SIZE] * 3, [SIZE] * 4], tensors
    told = [torch.full((2,), float(RANK)) for _ in range(2)]
    with _coalescing_manager(made, device=CPU):
        dist.broadcast(told[0], 0, group=made)
        dist.broadcast(told[1], 2, group=made)
    assert [tensor.tolist() for tensor in told] == [[0, 0], [2, 2]], told
    got = torch.zeros(3)
    for work in dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.full((3,), float(RANK)), (RANK + 1) % SIZE, group=made),
            dist.P2POp(dist.irecv, got, (RANK - 1) % SIZE, group=made)]):
        work.wait()
    assert torch.equal(got, torch.full((3,), float((RANK - 1) % SIZE))), got
    dist.barrier(group=made)
    kinds = ["all_reduce", "broadcast", "broadcast", "send", "receive", "barrier"]
    assert sorted(recorded(made)) == sorted((kind, "completed") for kind in kinds), recorded(made)
    refused_while_coalescing(made)


def refused_while_coalescing(made):
    """A call that is refused ends the coalescing, which PyTorch does not; the next ones are performed."""
    made._start_coalescing(CPU)
    try:
        dist.all_gather_into_tensor(torch.zeros(SIZE + 1), torch.ones(1), group=made)
    except ValueError as error:
        assert "should have" in str(error), str(error)
    else:
        raise AssertionError("not refused")
    told = torch.full((2,), float(RANK))
    dist.broadcast(told, 1, group=made)
    assert told.tolist() == [1, 1], told


def at_once():
    made = group()
    for _ in range(3):
        begin(made, 8).wait()
    last = begin(made, 8)
    dist.barrier(group=made)
    assert last.wait()
    assert [kind for kind, _ in recorded(made)] == ["all_reduce"] * 4 + ["barrier"], recorded(made)


def sent_under_a_fault(name):
    """Ranks 0 and 2 send what rank 1 does not take, and the group ends."""
    made = dist.new_group(range(SIZE), backend=name)
    work = None if RANK == 1 else made._get_backend(CPU).send([torch.ones(8, device="meta")], 1, 0)
    dist.barrier()
    if work is not None:
        tell_error(f"{name}: send", work.wait)
    else:
        tell_error(f"{name}: end", lambda: trainyard.torch.abort("enough", made))
    dist.barrier()
    tell_error(f"{name}: shut down", lambda: dist.destroy_process_group(made))


def refused(text, body):
    try:
        body()
    except dist.DistBackendError as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"{text}: there was no error")


def one_for_each_device():
    """As "yard" is made where a job has GPUs and asks for the watched NCCL."""
    both = {"cpu": "yard", "cuda": NAME}
    trainyard.torch._register("each", partial(trainyard.torch._make_each, both), ["cpu"])
    for name in ("each", f"cpu:yard,cuda:{NAME}"):
        made = dist.new_group(range(SIZE), backend=name)
        assert made._get_backend(CPU).name() == "yard"
        assert made._get_backend(torch.device("cuda")).name() == NAME
        ones = torch.ones(3)
        dist.all_reduce(ones, group=made)
        assert ones.tolist() == [SIZE] * 3
        assert ("all_reduce", "completed") in recorded(made)  # those of all devices
        assert trainyard.torch.table(made)
        dist.barrier(group=made)
        trainyard.torch.abort("all of it", made)
        for backend in (made._get_backend(CPU), made._get_backend(torch.device("cuda"))):
            refused("was aborted by rank", lambda: backend.allreduce([torch.ones(3)], c10d.AllreduceOptions()).wait())


dist.init_process_group("gloo", timeout=timedelta(seconds=60))
tell_error("unknown", lambda: trainyard.torch.wrap("nobody"))
NAME = trainyard.torch.wrap("threaded")
tell("wrapped", name=NAME, again=trainyard.torch.wrap("threaded"))
for case in (as_it_does, coalesced, at_once, one_for_each_device):
    attempt(case.__name__, case)

disagreeing = group()
tell_error("count", lambda: begin(disagreeing, 9 if RANK == 1 else 8).wait())
late = group(seconds=2)
if RANK != 2:
    tell_error("late", lambda: begin(late, 8).wait())
dist.barrier()
tell_error("refused", lambda: dist.reduce(torch.ones(2), 0, group=group()))
dist.barrier()
aborted = group()
if RANK == 0:
    trainyard.torch.abort("enough", aborted)
tell_error("abort", lambda: begin(aborted, 8).wait())
dist.barrier()
for backend_name in (NAME, trainyard.torch.wrap("stubborn")):
    sent_under_a_fault(backend_name)
tell("end")
dist.destroy_process_group()
