# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's ZeRO stage 2 on CPUs, by the backend that the first argument names: gradients and the
optimizer's state are in parts, one a rank. Tells the losses, and what the backend was asked for."""
import json
import sys
from collections import Counter

import deepspeed
import torch
import torch.distributed as dist
from report import RANK, tell

CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 8192, "allgather_bucket_size": 8192},
}


def new_model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.Tanh(), torch.nn.Linear(200, 8))


def train(engine, steps=6):
    generator = torch.Generator().manual_seed(RANK)
    losses = []
    for _ in range(steps):
        inputs = torch.randn(8, 64, generator=generator)
        loss = torch.nn.functional.mse_loss(engine(inputs), inputs[:, :8].tanh())
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses


def operations(group):
    if sys.argv[1] == "gloo":
        return {}
    from trainyard.torch import flight_record
    return Counter(json.loads(line)["op"] for line in flight_record(group).splitlines())


# DeepSpeed's own way over shared memory, for inference: it would be compiled here, for a minute, and not used.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed(dist_backend=sys.argv[1])
model = new_model()
engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
losses = train(engine)
tell("zero2", losses=losses, stage=engine.zero_optimization_stage(), operations=operations(optimizer.dp_process_group),
     partition=sum(p.numel() for p in optimizer.single_partition_of_fp32_groups),
     parameters=sum(p.numel() for p in model.parameters()))
dist.destroy_process_group()
