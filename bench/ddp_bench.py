# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch by the backend yard beside Gloo: tokens a second of two ranks of one thread each.

ddp-b4t256, ddp-b1t64   DistributedDataParallel; a batch of 4 rows of 256 tokens on each rank, or 1 of 64
fsdp-b1t64              FSDP2 (fully_shard of each layer and of the whole)

The model is torch_ranks/llama.py, the optimiser PyTorch's fused AdamW. Both backends train in the same two
processes, in turn, from the same weights on the same batches; their losses must be equal to the last bit.
"""
import torch_world
from cores import add_latency, latency
from figures import case

RANKS = 2
# name -> (way, batch, length, steps of a run, least ratio). A run takes some seconds.
CASES = {"ddp-b4t256": ("ddp", 4, 256, 1, 1.05), "ddp-b1t64": ("ddp", 1, 64, 4, 1.3), "fsdp-b1t64": ("fsdp", 1, 64, 4, 1.4)}
RUNS = 7  # cheap beside the start of a case


def measure(name, tiny):
    way, batch, length, steps, least = CASES[name]
    if tiny:
        batch, length, steps = 1, 16, 2
    before = latency()
    found = torch_world.run("training.py", RANKS, way, "gloo,yard", batch, length, steps, 1 if tiny else RUNS,
                            *(["--tiny"] if tiny else []))
    tokens = RANKS * batch * length * steps
    own, peer = ([tokens / taken for taken in found["seconds"][backend]] for backend in ("yard", "gloo"))
    entry = case(name, "tokens/s", own, better="higher", peer=peer, peer_name="gloo", target_ratio=least)
    entry["losses"] = [found["losses"][0], found["losses"][-1]]
    after = latency()
    return add_latency(entry, [(before, after)] * len(own))


def run(runs, only=None):
    return [measure(name, runs == 1) for name in CASES if not only or name in only]
