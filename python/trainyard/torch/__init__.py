# SPDX-License-Identifier: Apache-2.0
"""The PyTorch backend of Trainyard's collectives library.

    torch.distributed.init_process_group("yard")

Backends: "yard" for tensors of the CPU; "yard+gloo" and "yard+nccl", where Gloo or NCCL moves the
data and the library watches: operations are numbered and compared, errors name the rank that is
late, gone, or does something else. With GPUs: init_process_group("cpu:yard,cuda:yard+nccl").
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
  TRAINYARD_DEFAULT_BACKEND  what scripts that name no backend get for tensors of the CPU; in jobs on CPUs
                             the platform says "yard", and under smdistributed "smddp" (_autoload.py)
"""
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from .. import shim_build
from . import _buckets, _job  # _job registers its scheme

__all__ = ["abort", "flight_record", "register", "sweep", "table"]

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


def _make_inner(name, options, backend_options):
    own = dist.distributed_c10d._DistributedBackendOptions()
    own.store = dist.PrefixStore("inner/", options.store)
    own.timeout = options.timeout + _INNER_MARGIN
    for field in ("group_rank", "group_size", "group_id", "global_ranks_in_group", "process_group"):
        setattr(own, field, getattr(options, field))
    dist.Backend._ensure_backend_registered(name)  # PyTorch loads its own, too, by their first use
    plugin = dist.Backend._plugins[name.upper()]
    if plugin.extended_api:
        return plugin.creator_fn(own, backend_options)
    return plugin.creator_fn(own.store, own.group_rank, own.group_size, own.timeout)


def _make_guarded(inner_name, options, backend_options=None, name=None):
    inner = _make_inner(inner_name, options, backend_options)
    store = dist.PrefixStore("yard/", options.store)
    return shim_build.shim().guard(inner, store, name or f"yard+{inner_name}", _settings(options))


def _register(name, make, devices):
    if name.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(name, make, extended_api=True, devices=devices)


def register():
    """Makes "yard", "yard+gloo" and "yard+nccl" known to torch.distributed. Again: nothing."""
    _register("yard", _make, ["cpu"])
    _register("yard+gloo", lambda *given: _make_guarded("gloo", *given), ["cpu"])
    _register("yard+nccl", lambda *given: _make_guarded("nccl", *given), ["cuda"])


def register_smddp():
    """Makes "smddp" known, SageMaker's name: NCCL, watched, where there are GPUs, and else yard."""
    if torch.cuda.is_available():
        _register("smddp", lambda *given: _make_guarded("nccl", *given, name="smddp"), ["cuda"])
    else:
        _register("smddp", lambda *given: _make(*given, name="smddp"), ["cpu"])


def _backend_of(group):
    group = group or dist.distributed_c10d._get_default_group()
    return group._get_backend(sorted(group._device_types, key=str)[-1])


def flight_record(group=None):
    """The last 4,096 operations of this rank in `group`, one JSON object a line, oldest first: their
    numbers, what they were, in which state they are and when they began and ended (microseconds).
    ValueError for a group of another backend. From any thread, also while operations hang."""
    return shim_build.shim().flight_record(_backend_of(group))


def table(group=None):
    """The table of algorithms that `group` chooses by, as text: what TRAINYARD_COMM_TABLE may name. The
    backend must be yard."""
    return shim_build.shim().table(_backend_of(group))


def sweep(seconds=2.0, group=None):
    """Measures for at most so long which algorithms are best for `group`, and uses them from then on.
    All ranks call it, when no operation is under way. Returns the table."""
    shim_build.shim().sweep(_backend_of(group), round(seconds * 1000))
    return table(group)


def abort(reason, group=None):
    """Ends all operations of all ranks of `group`, within a second, by an error that says `reason`.
    The group cannot be used after it. From any thread."""
    shim_build.shim().abort(_backend_of(group), reason)


register()
