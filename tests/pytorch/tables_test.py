# SPDX-License-Identifier: Apache-2.0
"""Tables of algorithms, measured and kept (ranks/tables.py)."""
import os
import subprocess

import pytest
from conftest import ROOT

FIRST_LINE = "trainyard choices 1"


@pytest.fixture(scope="session")
def folder(torch, tmp_path_factory):
    """One for each version of PyTorch."""
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="session")
def world(torch, folder):
    mesh = folder / "mesh"
    mesh.write_text(f"{FIRST_LINE}\nall_gather private any any any mesh 65536\n")
    shown = folder / "shown"
    shown.mkdir()
    (folder / "mesh.bounded").write_text(f"{FIRST_LINE}\nmesh 16384 24576\n")
    return torch.run("tables.py", 2, TRAINYARD_COMM_SWEEP="10", TRAINYARD_COMM_TABLE=str(folder / "table"),
                     MESH_TABLE=str(mesh), SHOWN=str(shown))


def tables(world, case):
    return {line["text"] for line in world.of(case) if "text" in line}


def test_a_group_may_measure_its_table_when_it_is_made(world, folder):
    world.assert_all_well("measured at start")
    (text,) = tables(world, "table")
    assert "all_gather private 1 2 " in text
    assert (folder / "table").read_text() == text


def test_later_groups_choose_by_the_file(world):
    world.assert_all_well("later group")
    assert tables(world, "later table") == tables(world, "table")


def test_ranks_may_measure_later_and_get_one_table(world):
    world.assert_all_well("measured later")
    assert len(tables(world, "measured later")) == 1


def test_the_mesh_works_in_the_buffers_that_it_is_given(world):
    world.assert_all_well("bounded mesh")


def test_a_buffer_that_is_not_given_is_that_of_the_table(world):
    world.assert_all_well("half bounded mesh")


def test_only_rank_0_needs_the_file(world):
    world.assert_all_well("read by rank 0")


def test_a_file_that_is_still_to_be_measured_may_be_missing(world):
    world.assert_all_well("still to be measured")


def test_buffers_that_smddp_would_not_take_are_refused(world):
    for line in world.of("odd buffer"):
        assert "SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES" in line["text"]
        assert "multiple of 8192" in line["text"]
    for line in world.of("no number"):
        assert line["text"] == "SMDDP_AG_SORT_BUFFER_SIZE_BYTES is 'large': it wants a number above 0"


def test_the_library_is_told_what_else_the_environment_says(world):
    world.assert_all_well("shown in a folder")
    for line in world.of("no such provider"):
        assert 'has no provider "opx"' in line["text"]
        assert "FI_PROVIDER=efa leaves others out" in line["text"]


def test_a_command_measures_and_writes_a_table(torch, folder):
    port, file = torch.free_port(), folder / "by command"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "MASTER_ADDR": "127.0.0.1",
                                "MASTER_PORT": port, "WORLD_SIZE": "2"}
    ranks = [subprocess.Popen([torch.python, "-m", "trainyard.torch.measure", file, "--seconds", "0.3"],
                              stdout=subprocess.PIPE, text=True, env=environment | {"RANK": str(rank)})
             for rank in range(2)]
    printed = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert printed[0] == file.read_text()
    assert printed[0].startswith(FIRST_LINE)
    assert printed[1] == ""
