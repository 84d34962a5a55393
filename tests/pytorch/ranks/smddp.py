# SPDX-License-Identifier: Apache-2.0
"""A script as SageMaker's documentation shows it, with the data parallel library; then the same by
the library's API before 1.4."""
import os

import torch
import torch.distributed as dist
from report import attempt, tell
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model):
    torch.manual_seed(dist.get_rank())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    total = sum(p.sum() for p in model.parameters()).detach().reshape(1)
    sums = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, total)
    assert all(torch.equal(one, total) for one in sums), "the ranks' models differ"


def new_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def documented():
    import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
    dist.init_process_group(backend="smddp")
    tell("backend", name=dist.get_backend())
    train(DDP(new_model()))
    dist.barrier()
    dist.destroy_process_group()


def older():
    import smdistributed.dataparallel.torch.distributed as smddp
    from smdistributed.dataparallel.torch.parallel import DistributedDataParallel as ShorterName
    from smdistributed.dataparallel.torch.parallel.distributed import DistributedDataParallel

    assert ShorterName is DistributedDataParallel

    for ours, mpirun in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
                         ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")):
        os.environ[mpirun] = os.environ.pop(ours)
    os.environ["MASTER_PORT"] = os.environ["SECOND_PORT"]
    smddp.init_process_group()
    assert smddp.is_initialized() and smddp.get_world_size() == 2
    train(DistributedDataParallel(new_model(), device_ids=[smddp.get_local_rank()]))
    ones = torch.ones(3)
    smddp.all_reduce(ones, op=smddp.ReduceOp.SUM)
    assert torch.equal(ones, torch.full((3,), 2.0))
    smddp.barrier()
    dist.destroy_process_group()


def by_name_alone():
    os.environ["MASTER_PORT"] = os.environ["THIRD_PORT"]
    dist.init_process_group("yard")
    ones = torch.ones(3)
    dist.all_reduce(ones)
    assert torch.equal(ones, torch.full((3,), 2.0))
    dist.destroy_process_group()


attempt("documented", documented)
attempt("older", older)
for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
    os.environ[name] = os.environ.get(name) or os.environ[f"OMPI_COMM_WORLD_{name.replace('WORLD_', '')}"]
attempt("by name alone", by_name_alone)
