# SPDX-License-Identifier: Apache-2.0
"""Communication hooks for DistributedDataParallel that send gradients in fewer bytes.

    state = hooks.Int8State(model)
    model.register_comm_hook(state, hooks.int8)

  fp16, bf16     half the bytes; sums are made in fp32 where the group's backend is "yard"
  int8           a quarter: blocks of values share a scale; error feedback
  deep_gradient  the largest values only (Deep Gradient Compression, Lin et al. 2018, arXiv 1712.01887)
  power_sgd      two thin factors for each matrix (Vogels et al. 2019, arXiv 1905.13727)
  fusion         all bytes, in balanced fusion buffers, between hosts; see FusionState

Every hook gives the average over the ranks, as DDP does by itself. An infinity or NaN in a rank's gradient
shows on every rank, and in no later step: states forget it, for a step that shows it will be skipped.
States have state_dict() and load_state_dict(), by the names of the model's parameters: what was not sent
yet belongs to a rank, and to a world of this size, so each rank saves its own. Any group will do; None is
the default one.

With the backend "yard", fp32 gradients on the CPU are compressed, sent and put together by the
library, beside the backward pass. Elsewhere PyTorch's operations do it here; what needs several
operations in a row then performs all but the last before it returns: ranks must issue operations in one
order, and a bucket's second one would otherwise race with the next bucket's first.
"""
import logging
import math
import zlib

import torch
import torch.distributed as dist

from .. import shim_build

__all__ = ["DeepGradientState", "FusionState", "Int8State", "PowerSgdState", "bf16", "deep_gradient", "fp16",
           "fusion", "int8", "power_sgd"]


_log = logging.getLogger(__name__)


def _yard(group):
    """The backend of a group's tensors on the CPU, when it is yard."""
    group = group or dist.distributed_c10d._get_default_group()
    if torch.device("cpu") not in group._device_types:
        return None
    backend = group._get_backend(torch.device("cpu"))
    return backend if shim_build.shim().is_ours(backend) else None


def _library(group, buffer):
    """The backend, where the library does it all for these gradients."""
    return _yard(group) if buffer.device.type == "cpu" and buffer.dtype == torch.float32 else None


def _tensor_of(work):
    return work.get_future().then(lambda done: done.value()[0])


def _compressed(backend, buffer, codec, **options):
    return _tensor_of(shim_build.shim().compressed(backend, buffer, codec, options))


def _cast(group, bucket, dtype):
    buffer = bucket.buffer()
    if backend := _library(group, buffer):
        return _compressed(backend, buffer, "fp16" if dtype == torch.float16 else "bf16")
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
            if found is not None or self._is_elsewhere(order):
                self._put_away()
            parts = [self._kept.pop(name, None) for name in order]
            flat = torch.cat([torch.zeros(p.numel(), device=p.device) if part is None else part.view(-1)
                              for p, part in zip(parameters, parts)])
            found = self._buckets[kind, bucket.index()] = (order, flat)
        return found[1]

    def _is_elsewhere(self, order):
        """Whether another bucket holds some of it: DDP cuts its buckets anew after the first step."""
        return any(not set(order).isdisjoint(held) for held, _ in self._buckets.values())

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
        self._owned = {}  # bucket -> (parameters, what was lost of the sums that this rank rounds)
        self._saved = {}  # parameters -> such, until DDP has cut a bucket of just them

    def owned(self, bucket):
        """What was lost of the part that this rank sums: whole blocks, as many for each rank."""
        buffer, world = bucket.buffer(), dist.get_world_size(self.group)
        names = tuple(self._names[id(parameter)] for parameter in bucket.parameters())
        count = -(-buffer.numel() // (world * self.block)) * self.block
        found = self._owned.get(bucket.index())
        if found is None or found[0] != names:
            lost = self._saved.pop(names, None)
            if lost is None or lost.numel() != count:
                lost = torch.zeros(count)
            found = self._owned[bucket.index()] = (names, lost.to(buffer.device))
        return found[1]

    def state_dict(self):
        owned = self._saved | dict(self._owned.values())
        return super().state_dict() | {
            "world": dist.get_world_size(self.group), "owned": {k: t.clone() for k, t in owned.items()}}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        own = dist.get_world_size(self.group)
        world, owned = state.get("world", own), state.get("owned", {})  # earlier states have neither
        self._owned = {}
        self._saved = {k: t.clone() for k, t in owned.items()} if world == own else {}
        if world != own:
            _log.warning("int8: the state is of %d ranks, and there are %d now: what each rank had lost in "
                         "rounding its part of the sums is dropped, for parts are others", world, own)


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
    residual, owned = state._tensor("residual", bucket), state.owned(bucket)
    if backend := _library(state.group, buffer):
        return _compressed(backend, buffer, "int8", block=block, residual=residual, owned=owned)
    world = dist.get_world_size(state.group)
    values = torch.zeros(world, owned.numel(), dtype=torch.float32, device=buffer.device)
    values.view(-1)[:buffer.numel()] = buffer
    values.view(-1)[:buffer.numel()] += residual
    message = _encode(values, block)
    residual.copy_(_left_out(values, message, block).view(-1)[:buffer.numel()])
    parts = torch.empty_like(message)
    dist.all_to_all_single(parts, message, group=state.group)

    own = _decode(parts, block).sum(dim=0, keepdim=True).div_(world)
    own += owned
    message = _encode(own, block)
    owned.copy_(_left_out(own, message, block).view(-1))
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
    buffer, density = bucket.buffer(), state.density_now()
    velocity = state._tensor("velocity", bucket)
    unsent = state._tensor("unsent", bucket)
    if bucket.is_last():
        state.step += 1
    if backend := _library(state.group, buffer):
        return _compressed(backend, buffer, "deep_gradient", density=density, momentum=state.momentum,
                           clip_norm=state.clip_norm, velocity=velocity, unsent=unsent)
    world = dist.get_world_size(state.group)
    gradient = buffer.float()
    if state.clip_norm > 0:
        most = state.clip_norm / math.sqrt(world)
        norm = gradient.norm().nan_to_num(0, math.inf)  # one NaN must not take all others along
        gradient = gradient * (most / norm.clamp_min(most))
    unsent += velocity.mul_(state.momentum).add_(gradient)
    count = max(1, math.ceil(density * buffer.numel()))
    # What is not finite is larger than all else: some of it is sent, and so seen; the rest is forgotten.
    chosen = unsent.abs().nan_to_num_(math.inf, math.inf).topk(count, sorted=False).indices
    message = torch.cat([chosen.int().view(torch.uint8), unsent[chosen].view(torch.uint8)])
    velocity[chosen] = 0
    unsent[chosen] = 0
    for kept in (velocity, unsent):
        kept.nan_to_num_(0, 0, 0)
    result = message.new_empty(world, message.numel())
    future = dist.all_gather_into_tensor(result.view(-1), message, group=state.group,
                                         async_op=True).get_future()

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


def _rank_of(state, gradient):
    """By what rank a gradient is sent; 0: as it is."""
    if gradient.dim() < 2 or not gradient.numel():
        return 0
    rows = gradient.size(0)
    columns = gradient.numel() // rows
    rank = min(state.rank, rows, columns)
    return rank if rank * (rows + columns) < gradient.numel() else 0


def _matrices(state, bucket):
    """(where in the bucket, error, Q by rows) of what is worth it; the library changes both in place."""
    found, at = [], 0
    errors = state._tensor("error", bucket).split([p.numel() for p in bucket.parameters()])
    for parameter, gradient, error in zip(bucket.parameters(), bucket.gradients(), errors):
        rank = _rank_of(state, gradient)
        if rank:
            error = error.view(gradient.size(0), -1)
            q = state.factor(parameter, error.size(1), rank).t().contiguous()
            state.set_factor(parameter, q.t())
            found.append((at, error, q))
        at += gradient.numel()
    return found


def _orthonormal(p):
    """NaN as a whole, if anything of it is not finite: no other factor may look sound."""
    return torch.linalg.qr(p.nan_to_num(0, 0, 0)).Q.masked_fill(~p.isfinite().all(), math.nan)


def _next_factor(last, mean, overflowed):
    """The Q that the next step starts from, decided without waiting for the device. What is all zero would
    leave no direction but that of the first rows, which may never get a gradient: there the last one stays.
    After an overflow it does as well, at length one, lest itself is what overflows."""
    directions = torch.nn.functional.normalize(last.double(), dim=0).to(last.dtype)
    kept = torch.where(overflowed, directions, last)
    return torch.where(overflowed | (mean == 0).all(dim=0), kept, mean)


def power_sgd(state, bucket):
    """P = M Q, averaged and made orthonormal; Q = M^T P, averaged; the gradient becomes P Q^T, and
    each rank keeps what its own factors leave out of M, for the next step."""
    buffer = bucket.buffer()
    if bucket.is_last():
        state.step += 1
    if state.step <= state.start_step:
        return _done(buffer.copy_(_average([buffer], state.group)[0]))
    if backend := _library(state.group, buffer):
        return _compressed(backend, buffer, "power_sgd", matrices=_matrices(state, bucket))
    plain, matrices = [], []
    errors = state._tensor("error", bucket).split([p.numel() for p in bucket.parameters()])
    for parameter, gradient, error in zip(bucket.parameters(), bucket.gradients(), errors):
        rank = _rank_of(state, gradient)
        if not rank:
            plain.append(gradient)
            continue
        matrix = gradient.view(gradient.size(0), -1)
        error = error.view_as(matrix)
        error += matrix  # M, until the end
        matrices.append((parameter, matrix, error, state.factor(parameter, matrix.size(1), rank)))
    left = _average([error @ q for _, _, error, q in matrices] + plain, state.group)
    for gradient, mean in zip(plain, left[len(matrices):]):
        gradient.copy_(mean)
    ps = [_orthonormal(p) for p in left[:len(matrices)]]
    own = [error.t() @ p for (_, _, error, _), p in zip(matrices, ps)]
    means = _average(own, state.group)
    for (parameter, matrix, error, last), p, q, mean in zip(matrices, ps, own, means):
        overflowed = ~mean.isfinite().all()  # the same on all ranks
        state.set_factor(parameter, _next_factor(last, mean, overflowed))
        matrix.copy_(p @ mean.t()).masked_fill_(overflowed, math.nan)
        error.sub_(p @ q.t()).masked_fill_(overflowed, 0)
    return _done(buffer)


class FusionState:
    """Balanced fusion buffers, as SageMaker's data parallel library has them: DDP's buckets are copied
    one after another into buffers of `buffer_mb`, each of which is reduced when it is full; every host
    combines an equal share. DDP's own buckets lie in memory that needs no staging and are reduced between
    hosts in near-equal parts of ranks: of a megabyte or more, they are faster without this. It is for many
    small ones (a small `bucket_cap_mb`, gradients that are reduced one by one), and for hosts with unequal
    numbers of ranks.

    A gradient may lie in a buffer that is not full until flush(): call it, on all ranks alike, at the end of
    a step and before anything waits for the gradient. Who waits without it gets an error after the group's
    time-out; gradients that were never flushed end with an error when the state or the group does."""

    def __init__(self, group=None, buffer_mb=25.0):
        self.group = group
        self._bytes = int(buffer_mb * 2**20)
        self._buffers = {}  # by dtype
        self._backend = _yard(group)
        if self._backend is None:
            raise ValueError("hooks.fusion: the group has another backend than yard")

    def add(self, gradient):
        shim = shim_build.shim()
        if gradient.dtype not in self._buffers:
            self._buffers[gradient.dtype] = shim.fusion(self._backend, gradient, self._bytes)
        return shim.fused(self._backend, self._buffers[gradient.dtype], gradient)

    def flush(self):
        for buffers in self._buffers.values():
            buffers.flush()


def fusion(state, bucket):
    """The average, by balanced fusion buffers; the last bucket of a step sends what is left."""
    work = state.add(bucket.buffer())
    if bucket.is_last():
        state.flush()
    return _tensor_of(work)
