# SPDX-License-Identifier: Apache-2.0
"""The PyTorch backend of Trainyard's collectives library.

    torch.distributed.init_process_group("yard")

Backends: "yard" for tensors of the CPU; "yard+gloo" and "yard+nccl", where Gloo or NCCL moves the
data and the library watches: operations are numbered and compared, errors name the rank that is
late, gone, or does something else; wrap() does it with any other. With GPUs (untested on them):
init_process_group("cpu:yard,cuda:yard+nccl").
init_method="resourceconfig://?port=..." makes a world of a SageMaker job's hosts (_job.py).
Installed as a wheel, the names are known to torch.distributed by themselves; otherwise import this
module first.

Environment:
  TRAINYARD_COMM_INTERFACE   which network to use between hosts: names, a CIDR or an address, "^name"
                             to leave one out; automatic by default
  TRAINYARD_COMM_TRANSPORTS  some of "shm,tcp,fabric" (all by default): how ranks may speak
  TRAINYARD_COMM_FABRIC      a provider of libfabric, used between hosts instead of TCP; rank 0's holds for all
  TRAINYARD_COMM_HOST        ranks with the same text share memory; by default, what the machine says
  TRAINYARD_COMM_TABLE       a file with the table of algorithms, of rank 0, instead of the default
  TRAINYARD_COMM_SWEEP       for how many seconds to measure a better table when the default group is
                             made (2 is enough); it is written to TRAINYARD_COMM_TABLE, for later runs
  SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES, SMDDP_AG_SORT_BUFFER_SIZE_BYTES
                             bounds of the algorithm "mesh", as in SageMaker's library: bytes under way
                             from a rank (16 MiB), and an eighth of the largest result (128 MiB)
  TRAINYARD_COMM_BUCKETS     0: gradient buckets of DistributedDataParallel in ordinary memory
  TRAINYARD_COMM_SOCKETS     a folder for the sockets by which ranks of a host meet, across network namespaces
  TRAINYARD_COMM_STATUS      a folder where each rank shows how far it is, to other processes
  TRAINYARD_DEFAULT_BACKEND  what scripts that name no backend get for tensors of the CPU, or of each kind of
                             device ("cpu:yard,cuda:yard+nccl"); in jobs on CPUs the platform says "yard",
                             and under smdistributed "smddp" (_autoload.py)
  TRAINYARD_WATCH_NCCL       1: with GPUs, "yard" and "smddp" are yard+nccl for their tensors, in jobs also
                             for scripts that name no backend. Untested on GPUs; without it NCCL is PyTorch's own
"""
import os
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from .. import _choice, shim_build
from . import _buckets, _job  # _job registers its scheme

__all__ = ["abort", "flight_record", "register", "sweep", "table", "wrap"]

# How much longer a wrapped backend may wait than the library: the error that names ranks comes first.
_INNER_MARGIN = timedelta(seconds=10)


def _where(store):
    """Where the store is, for errors: "10.0.0.5:29500", or the kind of store."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if hasattr(store, "host") and hasattr(store, "port"):
        return f"{store.host}:{store.port}"
    return getattr(store, "path", type(store).__name__)


def _name(options):
    """The same on all ranks. Errors count ranks inside a group, so its name says who they are."""
    ranks = list(options.global_ranks_in_group)
    if not ranks or ranks == list(range(len(ranks))):
        return f"group {options.group_id}"
    return f"group {options.group_id} of ranks {','.join(map(str, ranks))}"


def _number(variable, unit=1):
    """What the environment says, in parts of `unit`; 0 where it says nothing."""
    text = os.environ.get(variable)
    if not text:
        return 0
    try:
        number = round(float(text) * unit) if unit != 1 else int(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise ValueError(f"{variable} is {text!r}: it wants a number above 0")
    return number


def _table_file():
    name = os.environ.get("TRAINYARD_COMM_TABLE")
    return Path(name) if name else None


def _table_of(options):
    """The text of the table that rank 0 gives to all; one that a sweep makes may not be there yet."""
    file = _table_file()
    if file is None or options.group_rank != 0:
        return ""
    try:
        return file.read_text()
    except FileNotFoundError:
        if os.environ.get("TRAINYARD_COMM_SWEEP"):
            return ""
        raise


def _sweep_ms(options):
    """Only of the default group, whose options name no ranks: smaller ones choose by its table."""
    return 0 if options.global_ranks_in_group else _number("TRAINYARD_COMM_SWEEP", 1000)


# What the library is told as the environment has it, in TRAINYARD_COMM_<NAME>.
_TEXTS = ("interface", "host", "sockets", "status", "transports", "fabric")


def _settings(options, sweep_ms=0):
    """All that the environment says, read here: the library, on whose threads a variable may be set
    meanwhile, reads none."""
    return {
        "name": _name(options),
        "rank": options.group_rank,
        "size": options.group_size,
        "timeout_ms": round(options.timeout / timedelta(milliseconds=1)),
        "where": _where(options.store),
        **{name: os.environ.get(f"TRAINYARD_COMM_{name.upper()}", "") for name in _TEXTS},
        "fabric_filter": os.environ.get("FI_PROVIDER", ""),
        "table": _table_of(options),
        "mesh_scratch": _number("SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES"),
        "mesh_sort": _number("SMDDP_AG_SORT_BUFFER_SIZE_BYTES"),
        "sweep_ms": sweep_ms,
    }


def _write(file, text):
    """Whole, or not at all: other ranks and jobs may read it."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.write_text(text)
    os.replace(unfinished, file)


def _make(options, _backend_options=None, name="yard"):
    sweep_ms = _sweep_ms(options)
    backend = shim_build.shim().make(options.store, name, _settings(options, sweep_ms))
    if sweep_ms and _table_file() and options.group_rank == 0:
        _write(_table_file(), shim_build.shim().table(backend))
    if os.environ.get("TRAINYARD_COMM_BUCKETS", "1") != "0":
        _buckets.install()
    return backend


def _under(prefix, options, timeout):
    """The same group, with a part of its store."""
    own = dist.distributed_c10d._DistributedBackendOptions()
    own.store = dist.PrefixStore(prefix, options.store)
    own.timeout = timeout
    for field in ("group_rank", "group_size", "group_id", "global_ranks_in_group", "process_group"):
        setattr(own, field, getattr(options, field))
    return own


def _is_known(name):
    dist.Backend._ensure_backend_registered(name)  # PyTorch loads its own, too, by their first use
    return name.upper() in dist.Backend._plugins


def _make_other(name, options, backend_options=None):
    """A backend of PyTorch's, or of somebody else's."""
    if not _is_known(name):
        raise ValueError(f"this PyTorch has no backend {name!r}")
    plugin = dist.Backend._plugins[name.upper()]
    if plugin.extended_api:
        return plugin.creator_fn(options, backend_options)
    return plugin.creator_fn(options.store, options.group_rank, options.group_size, options.timeout)


def _make_guarded(inner_name, options, backend_options=None):
    inner = _make_other(inner_name, _under("inner/", options, options.timeout + _INNER_MARGIN), backend_options)
    if isinstance(inner, dist.ProcessGroup):
        raise TypeError(f"yard+{inner_name}: {inner_name!r} makes a whole ProcessGroup; only a Backend can be wrapped")
    store = dist.PrefixStore("yard/", options.store)
    return shim_build.shim().guard(inner, store, f"yard+{inner_name}", _settings(options))


_MAKERS = {"yard": _make, "smddp": partial(_make, name="smddp"), "nccl": partial(_make_other, "nccl"),
           "yard+gloo": partial(_make_guarded, "gloo"), "yard+nccl": partial(_make_guarded, "nccl")}
_TYPES = dist.ProcessGroup.BackendType


def _make_each(chosen, options, backend_options=None):
    """A backend for each kind of device of `chosen`. torch.distributed gets the first, and the group is
    told of the others."""
    (_, first), *others = chosen.items()
    for device, name in others:
        own = _under(f"yard-{device}/", options, options.timeout)
        options.process_group._register_backend(torch.device(device), _type_of(name, device), _make_other(name, own))
    return _MAKERS[first](options, backend_options)


def _type_of(name, device):
    """A group has one backend of each type (c10d's ProcessGroup::setBackend): those of its kinds of devices
    need different ones, as in "cpu:yard,cuda:yard+nccl". What has the type of Gloo or NCCL is taken for the
    very class, so wrapped ones have types that PyTorch has no classes for, or none in this process."""
    if name == "nccl":
        return _TYPES.NCCL
    if not name.startswith("yard+"):
        return _TYPES.CUSTOM
    return _TYPES.MPI if device == "cpu" else _TYPES.UCC


def _register(name, make, devices, carrier=None):
    if name.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(name, make, extended_api=True, devices=devices)
        dist.Backend.backend_type_map[name] = _type_of(carrier or name, devices[0])


def _register_chosen(name):
    watches = _choice.watches_nccl(os.environ)
    chosen = _choice.carriers(name, (watches or name == "smddp") and torch.cuda.is_available(), watches)
    device, first = next(iter(chosen.items()))
    _register(name, partial(_make_each, chosen), [device], first)


def register():
    """Makes "yard", "yard+gloo" and "yard+nccl" known to torch.distributed. Again: nothing."""
    _register_chosen("yard")
    _register("yard+gloo", _MAKERS["yard+gloo"], ["cpu"])
    _register("yard+nccl", _MAKERS["yard+nccl"], ["cuda"])


def register_smddp():
    """Makes "smddp" known, SageMaker's name: yard, and where there are GPUs, NCCL for their tensors,
    under the eyes of the library where TRAINYARD_WATCH_NCCL asks."""
    _register_chosen("smddp")


def wrap(name):
    """Makes the backend `name`, any that torch.distributed knows, available under the eyes of the library:
    as "yard+" and its name, which this returns, for init_process_group() and new_group(). On all ranks.
    ValueError where there is no such backend. Its operations begin when all ranks have come to them, where
    tensors are of the CPU, and else at once; then its Work must say by itself when it has ended, as NCCL's
    does (isCompleted of C++), or the group's time-out holds for what has."""
    if not _is_known(name):
        raise ValueError(f"trainyard.torch.wrap: torch.distributed knows no backend {name!r}, only "
                         f"{', '.join(sorted(map(str.lower, dist.Backend._plugins)))}")
    own = f"yard+{name.lower()}"
    _register(own, partial(_make_guarded, name.lower()), dist.Backend.backend_capability[name.lower()])
    return own


def _backends_of(group):
    """One for each kind of device, or one for several."""
    group = group or dist.distributed_c10d._get_default_group()
    found = []
    for device in sorted(group._device_types, key=str):
        backend = group._get_backend(device)
        if backend not in found:
            found.append(backend)
    return found


def _of_each(group, ask):
    """What those of the group's backends answer that are Trainyard's; ValueError when none is."""
    answers, refusal = [], None
    for backend in _backends_of(group):
        try:
            answers.append(ask(backend))
        except ValueError as error:
            refusal = error
    if not answers:
        raise refusal
    return answers


def _yard_of(group):
    backends = _backends_of(group)
    return next(filter(shim_build.shim().is_ours, backends), backends[0])


def flight_record(group=None):
    """The last 4,096 operations of this rank in `group`, one JSON object a line, oldest first: their
    numbers, what they were, in which state they are and when they began and ended (microseconds).
    ValueError for a group of another backend. From any thread, also while operations hang."""
    return "".join(_of_each(group, shim_build.shim().flight_record))


def table(group=None):
    """The table of algorithms that `group` chooses by, as text: what TRAINYARD_COMM_TABLE may name. The
    backend must be yard."""
    return shim_build.shim().table(_yard_of(group))


def sweep(seconds=2.0, group=None):
    """Measures for at most so long which algorithms are best for `group`, and uses them from then on.
    All ranks call it, when no operation is under way. Returns the table."""
    shim_build.shim().sweep(_yard_of(group), round(seconds * 1000))
    return table(group)


def abort(reason, group=None):
    """Ends all operations of all ranks of `group`, within a second, by an error that says `reason`.
    The group cannot be used after it. From any thread."""
    _of_each(group, lambda backend: shim_build.shim().abort(backend, reason))


register()
