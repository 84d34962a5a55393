# SPDX-License-Identifier: Apache-2.0
"""Tables of algorithms: measured when the group is made, kept in a file, chosen by later groups; the variables
of SageMaker's library that bound the mesh; and others that the library is told of."""
import os
from pathlib import Path

import torch
import torch.distributed as dist
from report import RANK, SIZE, attempt, tell, tell_error

import trainyard.torch as yard

HOSTS = f"host {RANK}"  # each rank on a host of its own


def gathered_everywhere(group):
    out = torch.zeros(SIZE * 5000)
    dist.all_gather_into_tensor(out, torch.full((5000,), float(RANK)), group=group)
    assert torch.equal(out, torch.arange(float(SIZE)).repeat_interleave(5000))


def group_with(**environment):
    before = os.environ.copy()
    os.environ.update(environment)
    try:
        return dist.new_group(range(SIZE), backend="yard")
    finally:
        os.environ.clear()
        os.environ.update(before)


def measured_at_start():
    text = yard.table()
    tell("table", text=text)
    assert os.path.exists(os.environ["TRAINYARD_COMM_TABLE"]) or RANK != 0
    gathered_everywhere(None)


def measured_later():
    before = yard.table()
    text = yard.sweep(0.2)
    tell("measured later", text=text, changed=text != before)
    gathered_everywhere(None)


def bounded_mesh():
    table = os.environ["MESH_TABLE"]
    group = group_with(TRAINYARD_COMM_TABLE=table, TRAINYARD_COMM_HOST=HOSTS,
                       SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES="8192", SMDDP_AG_SORT_BUFFER_SIZE_BYTES="16384")
    assert "mesh 8192 16384\n" in yard.table(group)
    gathered_everywhere(group)


def half_bounded_mesh():
    with_mesh = os.environ["MESH_TABLE"] + ".bounded"
    group = group_with(TRAINYARD_COMM_TABLE=with_mesh, SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES="8192")
    assert "mesh 8192 24576\n" in yard.table(group), yard.table(group)


def read_by_rank_0():
    """Where the others have no such file, as on other hosts."""
    name = os.environ["MESH_TABLE"] if RANK == 0 else "/nowhere/table"
    assert "mesh 65536\n" in yard.table(group_with(TRAINYARD_COMM_TABLE=name))


def still_to_be_measured():
    """No rank has the file yet; only the default group measures."""
    unmeasured = yard.table(group_with(TRAINYARD_COMM_TABLE="/nowhere/table", TRAINYARD_COMM_SWEEP="10"))
    assert unmeasured == yard.table(group_with(TRAINYARD_COMM_TABLE=""))


def shown_in_a_folder():
    folder = Path(os.environ["SHOWN"])
    gathered_everywhere(group_with(TRAINYARD_COMM_STATUS=str(folder)))
    assert list(folder.glob(f"rank-{RANK}.*"))


dist.init_process_group("yard")
attempt("measured at start", measured_at_start)
dist.barrier()
os.environ.pop("TRAINYARD_COMM_SWEEP")
attempt("later group", lambda: tell("later table", text=yard.table(dist.new_group(range(SIZE), backend="yard"))))
attempt("measured later", measured_later)
attempt("bounded mesh", bounded_mesh)
attempt("half bounded mesh", half_bounded_mesh)
attempt("read by rank 0", read_by_rank_0)
attempt("still to be measured", still_to_be_measured)
attempt("shown in a folder", shown_in_a_folder)
tell_error("no such provider", lambda: group_with(TRAINYARD_COMM_FABRIC="opx", TRAINYARD_COMM_HOST=HOSTS,
                                                  FI_PROVIDER="efa"))
tell_error("odd buffer", lambda: group_with(SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES="5000"))
tell_error("no number", lambda: group_with(SMDDP_AG_SORT_BUFFER_SIZE_BYTES="large"))
dist.destroy_process_group()
