# SPDX-License-Identifier: Apache-2.0
"""Trains the same small model on Gloo and on our backends, in the ways that PyTorch has, and tells
the losses."""
import logging.handlers
import math
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from report import RANK, SIZE, attempt, tell
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from trainyard.torch import hooks

BACKENDS = ("gloo", "yard", "yard+gloo")
STEPS = 5


def new_model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.Tanh(), torch.nn.Linear(200, 160),
                               torch.nn.Tanh(), torch.nn.Linear(160, 8))


def batch(step):
    generator = torch.Generator().manual_seed(1000 * step + RANK)
    inputs = torch.randn(16, 64, generator=generator)
    return inputs, inputs[:, :8].tanh()


def train(model, steps=range(STEPS), rate=0.05, momentum=0.9):
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    losses = []
    for step in steps:
        inputs, targets = batch(step)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def shared_mappings():
    with open("/proc/self/maps") as maps:
        return sum("memfd:" in line for line in maps)


def ddp(name, group, **options):
    before = shared_mappings()
    model = DistributedDataParallel(new_model(), process_group=group, **options)
    tell(f"ddp {name} {len(options)}", losses=train(model), in_shared_memory=shared_mappings() > before)


def fsdp(name, group, from_group=False):
    model = new_model()
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            module = fully_shard(layer, mesh=mesh)
            if from_group:
                module.set_allocate_memory_from_process_group_for_comm(True)
    model = fully_shard(model, mesh=mesh)
    tell(f"fsdp {name}{' from group' if from_group else ''}", losses=train(model))
    return model


def with_hook(name, group, make, hook, momentum=0.9):
    model = DistributedDataParallel(new_model(), process_group=group, bucket_cap_mb=0.1)
    if hook is not None:
        model.register_comm_hook(make(model.module, group), hook)
    tell(f"hook {name}", losses=train(model, range(20), momentum=momentum))


def overflowed(name, group, make, hook):
    """Which steps give finite gradients, when a target of rank 0 is infinite in step 3; the others are
    skipped, as scripts do."""
    model = DistributedDataParallel(new_model(), process_group=group, bucket_cap_mb=0.1)
    model.register_comm_hook(make(model.module, group), hook)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    finite = []
    for step in range(7):
        inputs, targets = batch(step)
        if step == 3 and RANK == 0:
            targets[0, 0] = math.inf
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        finite.append(all(parameter.grad.isfinite().all().item() for parameter in model.parameters()))
        if finite[-1]:
            optimiser.step()
    tell(f"overflowed {name}", finite=finite)


def begun_late(name, group):
    """The norms of a matrix's gradients by PowerSGD: none at all in step 0, and none in its first rows later."""
    model = DistributedDataParallel(torch.nn.Linear(64, 40, bias=False), process_group=group)
    model.register_comm_hook(hooks.PowerSgdState(model.module, group, rank=4), hooks.power_sgd)
    norms = []
    for step in range(4):
        inputs, _ = batch(step)
        model.zero_grad()
        (model(inputs)[:, 4:].square().mean() * min(step, 1)).backward()
        norms.append(model.module.weight.grad.norm().item())
    tell(f"begun late {name}", norms=norms)


def kept_in_place(group):
    """Where the states of a hook lie after each step, once DDP has cut its buckets anew."""
    model = DistributedDataParallel(new_model(), process_group=group, bucket_cap_mb=0.1)
    state = hooks.DeepGradientState(model.module, group, density=0.05)
    model.register_comm_hook(state, hooks.deep_gradient)
    train(model, range(3), momentum=0)
    places = []
    for step in range(3, 6):
        train(model, [step], momentum=0)
        places.append([[*key, flat.data_ptr()] for key, (_, flat) in state._buckets.items()])
    tell("kept in place", places=places)


def resumed(name, group, make, hook, forget=(), **options):
    """Steps 0 to 9 at once; and the same cut in two with a state that was saved between, but for what
    is to be forgotten of it."""
    def begin(saved=None):
        model = DistributedDataParallel(new_model(), process_group=group, **options)
        state = make(model.module, group)
        if saved:
            model.module.load_state_dict(saved[0])
            state.load_state_dict(saved[1])
        model.register_comm_hook(state, hook)
        return model, state
    whole, _ = begin()
    expected = train(whole, range(10), momentum=0)
    model, state = begin()
    losses = train(model, range(5), momentum=0)
    model, _ = begin((model.module.state_dict(), state.state_dict() | {key: {} for key in forget}))
    losses += train(model, range(5, 10), momentum=0)
    tell(f"resumed {name}", losses=losses, expected=expected)


def resized(group):
    """What Int8State says and keeps when it is given the state of a world of another size."""
    model = DistributedDataParallel(new_model(), process_group=group)
    state = hooks.Int8State(model.module, group)
    model.register_comm_hook(state, hooks.int8)
    train(model, range(3))
    saved, said = state.state_dict(), logging.handlers.BufferingHandler(100)
    logging.getLogger("trainyard").addHandler(said)
    state.load_state_dict(saved)
    same = len(said.buffer), len(state.state_dict()["owned"])
    state.load_state_dict(saved | {"world": SIZE + 2})
    tell("resized", same=same, said=[record.getMessage() for record in said.buffer],
         owned=len(state.state_dict()["owned"]))
    state.load_state_dict({"kept": saved["kept"]})  # as they were before sums were part of them
    after = state.state_dict()
    tell("without sums", said=len(said.buffer), owned=len(after["owned"]), same=all(
        torch.equal(after["kept"][name], tensor) for name, tensor in saved["kept"].items()) and len(saved["kept"]) > 0)


def tensors_over_a_mesh(group):
    mesh = DeviceMesh.from_group(group, "cpu")
    whole = torch.arange(24.0).view(6, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)
    copies = distribute_tensor(whole.t().contiguous(), mesh, [Replicate()], src_data_rank=None)
    assert torch.equal((sharded @ copies).full_tensor(), whole @ whole.t())
    other = sharded.redistribute(mesh, [Shard(1)])
    assert torch.equal(other.redistribute(mesh, [Replicate()]).to_local(), whole)


def saved_and_loaded(group, model, save=checkpoint.save):
    folder = [tempfile.mkdtemp()] if RANK == 0 else [None]
    dist.broadcast_object_list(folder, group=group, group_src=0)
    state = {"model": model.state_dict()}
    saved = save(state, checkpoint_id=folder[0], process_group=group)
    if save is checkpoint.async_save:
        saved.result()
    expected = {name: value.full_tensor().clone() for name, value in state["model"].items()}
    for value in state["model"].values():
        value.to_local().zero_()
    checkpoint.load(state, checkpoint_id=folder[0], process_group=group)
    for name, value in state["model"].items():
        assert torch.equal(value.full_tensor(), expected[name])


def pipeline(group):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    torch.manual_seed(3)
    layers = [torch.nn.Linear(8, 8) for _ in range(SIZE)]
    inputs, targets = torch.randn(12, 8), torch.randn(12, 8)
    stage = PipelineStage(layers[RANK], RANK, SIZE, torch.device("cpu"), group=group)
    schedule = Schedule1F1B(stage, 4, loss_fn=torch.nn.functional.mse_loss)
    losses = []
    if RANK == 0:
        schedule.step(inputs)
    else:
        schedule.step(target=targets, losses=losses)
    expected = torch.nn.Sequential(*layers)
    expected.zero_grad()
    parts = [torch.nn.functional.mse_loss(expected(a), b) for a, b in zip(inputs.chunk(4), targets.chunk(4))]
    if RANK == SIZE - 1:
        torch.testing.assert_close(torch.stack(losses), torch.stack(parts))


dist.init_process_group("gloo")
groups = {name: dist.new_group(range(SIZE), backend=name) for name in BACKENDS}
for backend, made in groups.items():
    ddp(backend, made)
    ddp(backend, made, gradient_as_bucket_view=True, static_graph=True)
    sharded_model = fsdp(backend, made)
    attempt(f"mesh {backend}", lambda: tensors_over_a_mesh(made))
    attempt(f"checkpoint {backend}", lambda: saved_and_loaded(made, sharded_model))
    attempt(f"async checkpoint {backend}", lambda: saved_and_loaded(made, sharded_model, checkpoint.async_save))
    attempt(f"pipeline {backend}", lambda: pipeline(made))
yard = groups["yard"]
fsdp("yard", yard, from_group=True)
with_hook("none", yard, None, None)
with_hook("fp16", yard, lambda model, group: group, hooks.fp16)
with_hook("bf16", yard, lambda model, group: group, hooks.bf16)
with_hook("int8", yard, hooks.Int8State, hooks.int8)
with_hook("deep_gradient", yard, lambda model, group: hooks.DeepGradientState(model, group, density=0.05),
          hooks.deep_gradient, momentum=0)
with_hook("power_sgd", yard, lambda model, group: hooks.PowerSgdState(model, group, rank=4), hooks.power_sgd)
for backend in ("yard", "gloo"):  # by the library, and by PyTorch's operations
    with_hook(f"int8 {backend}", groups[backend], hooks.Int8State, hooks.int8)
    with_hook(f"fp16 {backend}", groups[backend], lambda model, group: group, hooks.fp16)
    with_hook(f"bf16 {backend}", groups[backend], lambda model, group: group, hooks.bf16)
    with_hook(f"power_sgd {backend}", groups[backend],
              lambda model, group: hooks.PowerSgdState(model, group, rank=4), hooks.power_sgd)
    with_hook(f"deep_gradient {backend}", groups[backend],
              lambda model, group: hooks.DeepGradientState(model, group, density=0.05, clip_norm=1.0),
              hooks.deep_gradient, momentum=0)
    overflowed(f"power_sgd {backend}", groups[backend],
               lambda model, group: hooks.PowerSgdState(model, group, rank=4), hooks.power_sgd)
    overflowed(f"deep_gradient {backend}", groups[backend],
               lambda model, group: hooks.DeepGradientState(model, group, density=0.05, clip_norm=1.0),
               hooks.deep_gradient)
    begun_late(backend, groups[backend])
os.environ["TRAINYARD_COMM_HOST"] = f"host {RANK}"
far = dist.new_group(range(SIZE), backend="yard")
del os.environ["TRAINYARD_COMM_HOST"]
for where, made in (("one host", yard), ("two hosts", far)):
    with_hook(f"fusion on {where}", made, lambda model, group: hooks.FusionState(group, buffer_mb=0.03),
              hooks.fusion)
kept_in_place(yard)
resumed("deep_gradient", yard, lambda model, group: hooks.DeepGradientState(model, group, density=0.05),
        hooks.deep_gradient)
resumed("power_sgd", yard, lambda model, group: hooks.PowerSgdState(model, group, rank=2), hooks.power_sgd)
# Blocks of int8 lie across parameters: the same ones while DDP keeps its first buckets.
resumed("int8", yard, hooks.Int8State, hooks.int8, find_unused_parameters=True)
resumed("int8 without its sums", yard, hooks.Int8State, hooks.int8, ["owned"], find_unused_parameters=True)
resized(yard)
tell("end")
dist.destroy_process_group()
