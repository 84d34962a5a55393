# SPDX-License-Identifier: Apache-2.0
"""One rank of torch.distributed.all_reduce in fp32, by each backend in turn; every result is compared.

    all_reduce.py BACKENDS BYTES REPEATS RUNS [--latency PROGRAM]

Prints, of rank 0, the seconds of every call of each run by backend, and what PROGRAM (comm_latency) said before
and after each run.
"""
import argparse
import json
import subprocess
import time

import torch
import torch.distributed as dist

import trainyard.torch  # noqa: F401 (registers yard)

parser = argparse.ArgumentParser()
parser.add_argument("backends", type=lambda text: text.split(","))
parser.add_argument("bytes", type=int)
parser.add_argument("repeats", type=int)
parser.add_argument("runs", type=int)
parser.add_argument("--latency")


def input_of(rank, count):
    """Small whole numbers, so that sums are exact."""
    return torch.arange(count, dtype=torch.float32).remainder_(13).add_(rank)


def one_run(group, tensor, repeats):
    """The seconds of each call. The last result is compared; the values do not matter to the time."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    start = input_of(rank, tensor.numel())
    tensor.copy_(start)
    dist.barrier(group=group)
    seconds = []
    for _ in range(repeats):
        before = time.perf_counter()
        dist.all_reduce(tensor, group=group)
        seconds.append(time.perf_counter() - before)
    tensor.copy_(start)
    dist.all_reduce(tensor, group=group)
    expected = sum(input_of(other, tensor.numel()) for other in range(size))
    assert torch.equal(tensor, expected), f"wrong sum on rank {rank}"
    return seconds


def main():
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(args.backends[0])
    groups = {name: dist.new_group(backend=name) for name in args.backends}
    tensor = torch.zeros(args.bytes // 4)
    seconds = {name: [] for name in args.backends}
    latency = []

    def measure_latency():
        if dist.get_rank() == 0 and args.latency:
            latency.append(json.loads(subprocess.run([args.latency], check=True, capture_output=True).stdout)["one_way_ns"])
        dist.barrier()

    for run in range(args.runs + 1):  # the first one warms up
        if run > 0:
            measure_latency()
        for name, group in groups.items():
            taken = one_run(group, tensor, args.repeats)
            if run > 0:
                seconds[name].append(taken)
    measure_latency()
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": seconds, "one_way_ns": latency}))
    dist.destroy_process_group()


main()
