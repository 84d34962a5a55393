# SPDX-License-Identifier: Apache-2.0
"""One rank of a training, by each backend in turn, in one process: the same model, batches and optimiser, and
the losses must be the same to the last bit.

    training.py ddp|fsdp BACKENDS BATCH LENGTH STEPS RUNS [--tiny]

A run is STEPS steps by each backend. Prints, of rank 0, the seconds of a run's steps by backend, and the losses.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from llama import SIZES, TINY, Llama
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import trainyard.torch  # noqa: F401 (registers yard)

parser = argparse.ArgumentParser()
parser.add_argument("way", choices=["ddp", "fsdp"])
parser.add_argument("backends", type=lambda text: text.split(","))
parser.add_argument("batch", type=int)
parser.add_argument("length", type=int)
parser.add_argument("steps", type=int)
parser.add_argument("runs", type=int)
parser.add_argument("--tiny", action="store_true")


def spread(way, model, group):
    if way == "ddp":
        return DistributedDataParallel(model, process_group=group)
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


class Training:
    def __init__(self, args, group):
        self.args, self.group, self.step, self.losses = args, group, 0, []
        self.sizes = TINY if args.tiny else SIZES
        torch.manual_seed(7)
        self.model = spread(args.way, Llama(**self.sizes, length=args.length), group)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)

    def batch(self):
        """A function of the step and the rank: both backends see the same words."""
        generator = torch.Generator().manual_seed(1000 * self.step + dist.get_rank())
        words = torch.randint(self.sizes["words"], (self.args.batch, self.args.length + 1), generator=generator)
        return words[:, :-1], words[:, 1:]

    def train(self):
        inputs, targets = self.batch()
        loss = F.cross_entropy(self.model(inputs).flatten(0, 1), targets.flatten())
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.losses.append(loss.item())
        self.step += 1

    def run(self, steps):
        dist.barrier(group=self.group)
        start = time.perf_counter()
        for _ in range(steps):
            self.train()
        dist.barrier(group=self.group)
        return time.perf_counter() - start


def main():
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(args.backends[0])
    trainings = {name: Training(args, dist.new_group(backend=name)) for name in args.backends}
    for training in trainings.values():
        training.run(2)  # DDP orders its buckets anew after the first step
    seconds = {name: [] for name in args.backends}
    for _ in range(args.runs):
        for name, training in trainings.items():
            seconds[name].append(training.run(args.steps))
    losses = [training.losses for training in trainings.values()]
    assert all(found == losses[0] for found in losses), f"losses differ: {losses}"
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": seconds, "losses": losses[0]}))
    dist.destroy_process_group()


main()
