# SPDX-License-Identifier: Apache-2.0
"""Ranks in sibling network namespaces of one machine, as instances of a job are: those who share a folder share
memory, whatever becomes of the network between them."""
import json
import os
import signal
import tempfile
import time

import pytest
from conftest import wait_for
from world import errors_after

pytestmark = pytest.mark.root


@pytest.fixture
def folder(tmp_path):
    """Where ranks meet; nothing may be left there."""
    made = tmp_path / "meet"
    made.mkdir()
    yield made
    assert list(made.iterdir()) == []


def transports(world, status, number=0):
    """What carries the messages of a rank, as its flight record has it."""
    world[number].signal(signal.SIGUSR2)
    record = status / f"flight-rank-{number}.world.jsonl"
    wait_for(lambda: record.exists() and record.read_text(), 20, "the flight record")
    return json.loads(record.read_text().splitlines()[0])["transports"]


def sums(world):
    """16 bytes of what all ranks sum up: each adds one to a MiB of bytes."""
    return {answer.value for answer in world.all("run", kind="all_reduce", count=1 << 20, dtype="uint8")}


def test_ranks_that_share_a_folder_share_memory_and_need_no_network(make_world, cable, status, folder):
    world = make_world("tcp2", TRAINYARD_COMM_SOCKETS=str(folder)).create()
    assert list(folder.iterdir()) == [] and cable.listeners(0) == cable.listeners(1) == []
    cable.set("down")
    assert sums(world) == {"02" * 16}
    assert transports(world, status) == "shm"


def test_ranks_of_different_users_share_memory(make_world, cable):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        world = make_world("shm2", TRAINYARD_COMM_SOCKETS=folder, TRAINYARD_COMM_STATUS="")
        for rank, user in zip(world.ranks, (65532, 65533)):
            assert rank.do("become", user=user).code == "OK"
        world.create(address=f"{cable.address(0)}:29400")
        assert os.listdir(folder) == [] and cable.listeners(0) == []
        assert sums(world) == {"02" * 16}


def test_ranks_of_a_machine_meet_those_of_another_by_tcp(make_world, status, folder):
    world = make_world("mixed", TRAINYARD_COMM_SOCKETS="").create()
    assert sums(world) == {"04" * 16}
    assert transports(world, status) == "shm,tcp"


def test_ranks_without_the_folder_are_on_hosts_of_their_own(make_world, status, tmp_path):
    log = tmp_path / "log"
    missing = str(tmp_path / "nowhere")
    world = make_world("tcp2", TRAINYARD_COMM_SOCKETS=missing, RANK_LOG=str(log)).create()
    assert sums(world) == {"02" * 16}
    assert transports(world, status) == "tcp"
    assert log.read_text().count(f"there is no folder {missing}") == 2


def test_a_rank_that_dies_in_the_sibling_namespace_is_named_at_once(make_world, folder):
    world = make_world("tcp2", TRAINYARD_COMM_SOCKETS=str(folder)).create()
    world[0].begin("run", kind="all_reduce", count=100)
    at = world[1].kill()
    [error] = errors_after([world[0]], at, 2, "UNAVAILABLE")
    assert f"rank 1 (pid {world[1].pid} on host-1)" in error


def test_what_a_rank_leaves_that_is_killed_while_it_joins_goes_with_a_later_one(make_world, status, folder):
    killed = make_world("tcp2", "killed", TRAINYARD_COMM_SOCKETS=str(folder))
    killed[0].begin("create")
    [left] = wait_for(lambda: list(folder.iterdir()), 20, "a rank that waits for the others")
    killed[0].kill()
    make_world("tcp2", "next", TRAINYARD_COMM_SOCKETS=str(folder)).create()
    assert list(folder.iterdir()) == [left], "it may be about to listen"
    os.utime(left, (time.time() - 120,) * 2)
    world = make_world("tcp2", "later", TRAINYARD_COMM_SOCKETS=str(folder)).create()
    assert list(folder.iterdir()) == []
    assert sums(world) == {"02" * 16}
