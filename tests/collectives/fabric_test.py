# SPDX-License-Identifier: Apache-2.0
"""Ranks that speak over libfabric, by the providers that need no hardware: over TCP between two hosts, and by
memory of one machine."""
import os
import signal
import time
from pathlib import Path

import pytest
from conftest import wait_for
from joining_test import entry_of, fields_of, path_of
from world import errors_after

pytestmark = pytest.mark.root

PROVIDERS = {"tcp": "tcp;ofi_rxm", "shm": "shm"}
SUM = {"kind": "all_reduce", "count": 100_000, "dtype": "float32"}
# How soon a fault is told is measured in death_test.py and agreement_test.py; here, that it is.
SOON = 10


def names():
    """What libfabric has in /dev/shm for us."""
    return [path.name for path in Path("/dev/shm").iterdir() if path.name.startswith("trainyard-fabric-")]


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return PROVIDERS[request.param]


@pytest.fixture
def make_fabric_world(make_world, provider):
    """Each rank on a host of its own, all over libfabric; nothing of it has a name while and after they run."""

    def make(layout="tcp2", **options):
        world = make_world(layout, TRAINYARD_COMM_FABRIC=provider).create(transports="fabric", **options)
        assert own_names(world) == []
        return world

    def own_names(world):
        return [name for name in names() for rank in world.ranks if f"-{rank.pid}-" in name]

    yield make


def test_operations_of_all_kinds_and_sizes_come_out_right(make_fabric_world):
    world = make_fabric_world("mixed")
    for count in (4, 1000, 300_000, 4_000_000):
        for kind, value in [("all_reduce", "04"), ("all_gather", "01"), ("reduce_scatter", "04"), ("all_to_all", "01")]:
            answers = world.all("run", kind=kind, count=count, dtype="uint8")
            assert [answer.code for answer in answers] == ["OK"] * 4, answers
            size = min(16, count // 4 if kind == "reduce_scatter" else count)
            assert [answer.value for answer in answers] == [value * size] * 4
    for root in range(4):
        answers = world.all("run", kind="broadcast", count=100_000, dtype="uint8", root=root)
        assert [answer.code for answer in answers] == ["OK"] * 4, answers


def test_ranks_of_one_host_share_memory_and_only_the_others_take_libfabric(make_world, provider):
    world = make_world("mixed", TRAINYARD_COMM_FABRIC=provider).create()
    for count in (1, 1000, 2_000_000):
        answers = world.all("run", kind="all_reduce", count=count, dtype="uint8")
        assert [answer.value for answer in answers] == ["04" * min(16, count)] * 4


@pytest.mark.parametrize("victim", [0, -1], ids=["first", "last"])
def test_a_killed_rank_is_named_by_all_others(make_fabric_world, provider, victim):
    world = make_fabric_world("mixed")
    world.all("run", kind="barrier")
    killed = world.ranks[victim]
    others = world.without(killed.number)
    # libfabric's shm holds locks in shared memory while it sends: who is killed then may stop the others for
    # good, inside libfabric. So there the victim is one that does nothing.
    for rank in world.ranks if provider != "shm" else others:
        rank.begin("loop", **SUM)
    time.sleep(0.1)
    at = killed.kill()
    for error in errors_after(others, at, SOON, "UNAVAILABLE"):
        assert f"rank {killed.number} (pid {killed.pid} on host-" in error
        assert " died" in error
    assert not [name for name in names() if f"-{killed.pid}-" in name]


def test_a_rank_in_another_operation_is_an_error_on_both_sides(make_fabric_world):
    world = make_fabric_world()
    at = time.monotonic()
    world[0].begin("loop", **SUM)
    world[1].begin("loop", **SUM | {"count": 50_000})
    for error in errors_after(world.ranks, at, SOON, "CONFLICT"):
        assert "all_reduce of 100000 float32 (sum)" in error
        assert "all_reduce of 50000 float32 (sum)" in error


def test_a_stopped_rank_is_named_at_the_time_out(make_fabric_world):
    world = make_fabric_world(timeout=1)
    world.all("run", kind="barrier")
    world[1].signal(signal.SIGSTOP)
    at = time.monotonic()
    world[0].begin("run", **SUM)
    for error in errors_after([world[0]], at, SOON, "DEADLINE"):
        assert "took longer than 1000 ms" in error
        assert "not from: 1" in error
    at = world[1].signal(signal.SIGCONT)
    world[1].begin("run", **SUM)
    errors_after([world[1]], at, SOON, "DEADLINE")


def test_abort_reaches_all(make_fabric_world):
    world = make_fabric_world()
    world[0].begin("run", **SUM)
    time.sleep(0.1)
    at = time.monotonic()
    world[1].do("abort", reason="enough")
    world[1].begin("run", **SUM)
    assert set(errors_after(world.ranks, at, SOON, "CANCELLED")) == {"'world' was aborted by rank 1: enough"}


def test_a_rank_that_leaves_has_sent_what_it_sent(make_fabric_world):
    world = make_fabric_world()
    for rank in world.ranks:
        rank.begin("run", kind="broadcast", count=50_000, dtype="uint8", root=0)
    assert world[0].answer().code == "OK"
    world[0].begin("free")
    assert world[1].answer().code == "OK"
    world[1].begin("free")
    assert [rank.answer().code for rank in world.ranks] == ["OK", "OK"]


def test_names_that_a_killed_rank_left_are_taken_away_by_the_next(make_world):
    first = make_world("tcp2", "first")
    first[0].kill()
    namespace = os.stat("/proc/self/ns/pid").st_ino
    left = Path("/dev/shm") / f"trainyard-fabric-{namespace}-{first[0].pid}-1-0011223344556677"
    left.write_bytes(b"")
    other = Path("/dev/shm") / f"trainyard-fabric-{namespace}-{os.getpid()}-{started(os.getpid())}-0011223344556677"
    other.write_bytes(b"")
    try:
        world = make_world("tcp2", "second", TRAINYARD_COMM_FABRIC="shm").create(transports="fabric")
        assert {answer.code for answer in world.all("run", kind="barrier")} == {"OK"}
        assert not left.exists()
        assert other.exists()  # of a process that lives
    finally:
        other.unlink(missing_ok=True)
        left.unlink(missing_ok=True)


def started(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_a_provider_that_is_not_there_is_named_by_all_at_once(make_world):
    world = make_world("tcp2", TRAINYARD_COMM_FABRIC="opx")
    for answer in world.all("create", transports="fabric"):
        assert answer.ended - answer.began < 10
        assert answer.code in ("NOT_FOUND", "UNAVAILABLE")
        assert 'has no provider "opx" for this machine' in answer.error


def test_a_provider_with_too_few_receives_for_the_ranks_is_named_by_all(make_world):
    world = make_world("tcp2", TRAINYARD_COMM_FABRIC="tcp;ofi_rxm", FI_OFI_RXM_RX_SIZE="2")
    for answer in world.all("create", transports="fabric"):
        assert answer.code in ("EXHAUSTED", "UNAVAILABLE")
        assert "holds 2 receives, and 1 ranks of other hosts need 4 each" in answer.error


def test_what_the_environment_leaves_out_is_said(make_world):
    world = make_world("tcp2", TRAINYARD_COMM_FABRIC="tcp;ofi_rxm", FI_PROVIDER="efa")
    assert all("FI_PROVIDER=efa leaves others out" in answer.error
               for answer in world.all("create", transports="fabric"))


def test_libfabric_that_is_not_allowed_is_said(make_world):
    world = make_world("tcp2", TRAINYARD_COMM_FABRIC="tcp;ofi_rxm")
    for answer in world.all("create", transports="tcp"):
        assert answer.code == "INVALID_ARGUMENT"
        assert '"fabric" is not among the transports allowed' in answer.error


def test_a_rank_of_another_version_is_named(make_world):
    world = make_world("tcp2", TRAINYARD_COMM_FABRIC="tcp;ofi_rxm")
    world[0].begin("create", transports="fabric")
    own = wait_for(lambda: path_of(world, "rank", 0).exists() and path_of(world, "rank", 0).read_bytes(), 10,
                   "the entry of rank 0")
    path_of(world, "fabric", 1).write_bytes(entry_of([b"fabric 99", b"tcp;ofi_rxm", b"", b"x", b"y"], like=own))
    world[1].begin("create", transports="fabric")
    answer = world[0].answer()
    assert answer.code == "CONFLICT"
    assert "rank 1 (pid" in answer.error
    assert "it speaks fabric 99 over tcp;ofi_rxm, this one fabric 2 over tcp;ofi_rxm" in answer.error
    assert world[1].answer().code != "OK"
