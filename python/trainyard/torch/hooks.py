# SPDX-License-Identifier: Apache-2.0
"""Communication hooks for DistributedDataParallel that send gradients in fewer bytes.

    state = hooks.Int8State(model)
    model.register_comm_hook(state, hooks.int8)

  fp16, bf16     half the bytes; sums are made in fp32 where the group's backend is "yard"
  int8           a quarter: blocks of values share a scale; error feedback
  deep_gradient  the largest values only (Deep Gradient Compression, Lin et al. 2018, arXiv 1712.01887)
  power_sgd      two thin factors for each matrix (Vogels et al. 2019, arXiv 1905.13727)

Every hook gives the average over the ranks, as DDP does by itself. States have state_dict() and
load_state_dict(), by the names of the model's parameters: what was not sent yet belongs to a rank,
and to a world of this size, so each rank saves its own. Any group will do; None is the default one.

What needs several operations in a row performs all but the last before it returns: ranks must issue
operations in one order, and a bucket's second one would otherwise race with the next bucket's first.
"""
import math
import zlib

import torch
import torch.distributed as dist

__all__ = ["DeepGradientState", "Int8State", "PowerSgdState", "bf16", "deep_gradient", "fp16", "int8",
           "power_sgd"]


def _cast(group, bucket, dtype):
    buffer = bucket.buffer()
    small = (buffer / dist.get_world_size(group)).to(dtype)
    future = dist.all_reduce(small, group=group, async_op=True).get_future()
    return future.then(lambda done: buffer.copy_(done.value()[0]))


def fp16(group, bucket):
    """Gradients travel in fp16. The state is the group."""
    return _cast(group, bucket, torch.float16)


def bf16(group, bucket):
    """Gradients travel in bf16. The state is the group."""
    return _cast(group, bucket, torch.bfloat16)


class _State:
    """Flat tensors by bucket, for as long as DDP cuts its buckets alike; by parameter otherwise."""

    def __init__(self, model, group):
        self.group = group
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
        self._kept = {}     # (kind, name of a parameter) -> tensor
        self._buckets = {}  # (kind, bucket) -> (parameters, tensor)

    def _tensor(self, kind, bucket):
        """What is kept of this kind for the elements of a bucket; zeros at first. Changed in place."""
        parameters = bucket.parameters()
        order = [(kind, self._names[id(parameter)]) for parameter in parameters]
        found = self._buckets.get((kind, bucket.index()))
        if found is None or found[0] != order:
            self._put_away()
            parts = [self._kept.get(name) for name in order]
            flat = torch.cat([torch.zeros(p.numel(), device=p.device) if part is None else part.view(-1)
                              for p, part in zip(parameters, parts)])
            found = self._buckets[kind, bucket.index()] = (order, flat)
        return found[1]

    def _put_away(self):
        for order, flat in self._buckets.values():
            sizes = [self._sizes[name] for _, name in order]
            self._kept.update(zip(order, flat.split(sizes)))
        self._buckets = {}

    def state_dict(self):
        self._put_away()
        return {"kept": {name: tensor.clone() for name, tensor in self._kept.items()}}

    def load_state_dict(self, state):
        self._buckets = {}
        self._kept = {name: tensor.clone() for name, tensor in state["kept"].items()}


class Int8State(_State):
    """`block` values share a scale, their greatest magnitude / 127."""

    def __init__(self, model, group=None, block=256):
        super().__init__(model, group)
        self.block = block
        self._owned = {}  # of the sums that this rank rounds; parts are not of parameters

    def owned(self, bucket, like):
        found = self._owned.get(bucket.index())
        if found is None or found.numel() != like.numel():
            found = self._owned[bucket.index()] = torch.zeros_like(like)
        return found


def _encode(values, block):
    """Rows of values as rows of bytes: all scales of a row (fp32), then its codes. A block with an
    infinity or NaN decodes to NaN."""
    rows = values.size(0)
    blocks = values.view(rows, -1, block)
    scales = blocks.abs().amax(dim=2) / 127
    scales[~scales.isfinite()] = math.nan
    codes = (blocks / scales.clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(2)).round_()
    codes = codes.nan_to_num_(0).clamp_(-127, 127).to(torch.int8)
    return torch.cat([scales.view(torch.uint8).view(rows, -1), codes.view(torch.uint8).view(rows, -1)], 1)


def _decode(message, block):
    rows = message.size(0)
    blocks = message.size(1) // (block + 4)
    scales = message[:, :4 * blocks].contiguous().view(torch.float32)
    codes = message[:, 4 * blocks:].contiguous().view(torch.int8).view(rows, blocks, block)
    return (codes * scales.unsqueeze(2)).view(rows, -1)


def _left_out(values, message, block):
    """What the message leaves out, for the next step; nothing of a block that overflowed."""
    return (values - _decode(message, block)).nan_to_num_(0, 0, 0)


def int8(state, bucket):
    """Each rank sends each part of the bucket to its owner, who sums, and sends the sum to all; both
    times in int8, each with error feedback."""
    buffer, block = bucket.buffer(), state.block
    world = dist.get_world_size(state.group)
    part = -(-buffer.numel() // (world * block)) * block
    values = torch.zeros(world, part, dtype=torch.float32, device=buffer.device)
    values.view(-1)[:buffer.numel()] = buffer
    residual = state._tensor("residual", bucket)
    values.view(-1)[:buffer.numel()] += residual
    message = _encode(values, block)
    residual.copy_(_left_out(values, message, block).view(-1)[:buffer.numel()])
    parts = torch.empty_like(message)
    dist.all_to_all_single(parts, message, group=state.group)

    own = _decode(parts, block).sum(dim=0, keepdim=True).div_(world)
    residual = state.owned(bucket, own)
    own += residual
    message = _encode(own, block)
    residual.copy_(_left_out(own, message, block))
    result = message.new_empty(world, message.size(1))
    future = dist.all_gather_into_tensor(result, message, group=state.group, async_op=True).get_future()
    return future.then(lambda _: buffer.copy_(_decode(result, block).view(-1)[:buffer.numel()]))


class DeepGradientState(_State):
    """`density` is the share of the elements that is sent after `warmup_steps`; it falls
    exponentially until then. The momentum is in what is sent, so the optimiser must be SGD without
    momentum. `clip_norm` bounds the norm of each bucket's gradient, for the whole world; 0: not."""

    def __init__(self, model, group=None, density=0.001, momentum=0.9, warmup_steps=0, clip_norm=0.0):
        super().__init__(model, group)
        self.density, self.momentum = density, momentum
        self.warmup_steps, self.clip_norm = warmup_steps, clip_norm
        self.step = 0

    def density_now(self):
        done = min(1.0, (self.step + 1) / (self.warmup_steps + 1))
        return self.density ** done

    def state_dict(self):
        return super().state_dict() | {"step": self.step}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.step = state["step"]


def deep_gradient(state, bucket):
    """Momentum correction, local clipping and momentum factor masking as in the paper: u = m u + g,
    v = v + u; the largest of v are sent, and forgotten in both."""
    buffer = bucket.buffer()
    world = dist.get_world_size(state.group)
    gradient = buffer.float()
    if state.clip_norm > 0:
        most = state.clip_norm / math.sqrt(world)
        gradient = gradient * (most / gradient.norm().clamp_min(most))
    velocity = state._tensor("velocity", bucket)
    unsent = state._tensor("unsent", bucket)
    unsent += velocity.mul_(state.momentum).add_(gradient)
    count = max(1, math.ceil(state.density_now() * buffer.numel()))
    chosen = unsent.abs().topk(count, sorted=False).indices
    message = torch.cat([chosen.int().view(torch.uint8), unsent[chosen].view(torch.uint8)])
    velocity[chosen] = 0
    unsent[chosen] = 0
    if bucket.is_last():
        state.step += 1
    result = message.new_empty(world, message.numel())
    future = dist.all_gather_into_tensor(result, message, group=state.group, async_op=True).get_future()

    def add_all(_):
        indices = result[:, :4 * count].contiguous().view(torch.int32).view(-1).long()
        values = result[:, 4 * count:].contiguous().view(torch.float32).view(-1)
        total = torch.zeros(buffer.numel(), dtype=torch.float32, device=buffer.device)
        return buffer.copy_(total.index_add_(0, indices, values).div_(world))

    return future.then(add_all)


class PowerSgdState(_State):
    """Matrices are sent by factors of `rank`, from `start_step` on; what has one dimension, or would
    not be smaller, is sent as it is. `seed` is the same on all ranks."""

    def __init__(self, model, group=None, rank=4, start_step=0, seed=0):
        super().__init__(model, group)
        self.rank, self.start_step, self.seed = rank, start_step, seed
        self.step = 0
        self._factors = {}

    def factor(self, parameter, columns, rank):
        """The Q that the last step left, or a random one, the same on all ranks."""
        name = self._names[id(parameter)]
        found = self._factors.get(name)
        if found is None or found.shape != (columns, rank):
            generator = torch.Generator().manual_seed(self.seed + zlib.crc32(name.encode()))
            found = torch.randn(columns, rank, generator=generator).to(parameter.device)
        return found

    def set_factor(self, parameter, factor):
        self._factors[self._names[id(parameter)]] = factor

    def state_dict(self):
        return super().state_dict() | {
            "step": self.step, "factors": {k: t.clone() for k, t in self._factors.items()}}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.step = state["step"]
        self._factors = {k: t.clone() for k, t in state["factors"].items()}


def _average(tensors, group):
    """All of them as one operation."""
    if not tensors:
        return tensors
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    dist.all_reduce(flat, group=group)
    flat /= dist.get_world_size(group)
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor) for part, tensor in zip(parts, tensors)]


def _done(tensor):
    future = torch.futures.Future()
    future.set_result(tensor)
    return future


def power_sgd(state, bucket):
    """P = M Q, averaged and made orthonormal; Q = M^T P, averaged; the gradient becomes P Q^T, and
    each rank keeps what its own factors leave out of M, for the next step."""
    buffer = bucket.buffer()
    if bucket.is_last():
        state.step += 1
    if state.step <= state.start_step:
        return _done(buffer.copy_(_average([buffer], state.group)[0]))
    plain, matrices = [], []
    errors = state._tensor("error", bucket).split([p.numel() for p in bucket.parameters()])
    for parameter, gradient, error in zip(bucket.parameters(), bucket.gradients(), errors):
        matrix = gradient.view(gradient.size(0), -1) if gradient.dim() > 1 else None
        rank = 0 if matrix is None else min(state.rank, *matrix.shape)
        if matrix is None or rank * sum(matrix.shape) >= matrix.numel():
            plain.append(gradient)
            continue
        error = error.view_as(matrix)
        error += matrix  # M, until the end
        matrices.append((parameter, matrix, error, state.factor(parameter, matrix.size(1), rank)))
    left = _average([error @ q for _, _, error, q in matrices] + plain, state.group)
    for gradient, mean in zip(plain, left[len(matrices):]):
        gradient.copy_(mean)
    ps = [torch.linalg.qr(p).Q for p in left[:len(matrices)]]
    own = [error.t() @ p for (_, _, error, _), p in zip(matrices, ps)]
    means = _average(own, state.group)
    for (parameter, matrix, error, _), p, q, mean in zip(matrices, ps, own, means):
        state.set_factor(parameter, mean)
        matrix.copy_(p @ mean.t())
        error -= p @ q.t()
    return _done(buffer)
