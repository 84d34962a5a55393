# SPDX-License-Identifier: Apache-2.0
"""A script on plain Gloo that ends right after its last gradients, and leaves its model to the interpreter."""
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
layers = torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(40)])
model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=1e-6)  # an all-reduce each
sys.setswitchinterval(100)  # a thread that wants the interpreter's lock gets it when this one waits, not before
for _ in range(3):
    model(torch.ones(8, 1)).square().mean().backward()
dist.destroy_process_group()
