# SPDX-License-Identifier: Apache-2.0
"""What carries the operations of a script that names no backend, and of one that does."""
import os

import torch
import torch.distributed as dist
from report import SIZE, attempt, tell


def carrier(group):
    total = torch.ones(3)
    dist.all_reduce(total, group=group)
    assert torch.equal(total, torch.full((3,), float(SIZE)))
    return group._get_backend(torch.device("cpu")).name()


def no_name():
    dist.init_process_group()
    tell("carriers", default=carrier(dist.group.WORLD), group=carrier(dist.new_group()),
         gloo=carrier(dist.new_group(backend="gloo")))
    dist.destroy_process_group()


def gloo_by_name():
    os.environ["MASTER_PORT"] = os.environ["SECOND_PORT"]
    dist.init_process_group("gloo")
    tell("gloo", default=carrier(dist.group.WORLD), group=carrier(dist.new_group()))
    dist.destroy_process_group()


attempt("no name", no_name)
attempt("by name", gloo_by_name)
