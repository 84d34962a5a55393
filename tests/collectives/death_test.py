# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, stop or are cut off: what the others say, and when."""
import os
import signal
import time
from pathlib import Path

import pytest
from world import LAYOUTS, errors_after

pytestmark = pytest.mark.root


def open_files(pid):
    maps = [line.split(maxsplit=5)[5] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
            if len(line.split(maxsplit=5)) == 6]
    return maps + [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("victim", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("work", ["at_work", "at_rest"])
def test_a_killed_rank_is_named_by_all_others_within_2_s(make_world, layout, victim, work):
    world = make_world(layout).create()
    killed = world.ranks[victim]
    others = world.without(killed.number)
    if work == "at_work":
        world.loop(kind="all_reduce", count=1_000_000)
    else:
        for rank in others:
            rank.begin("run", kind="all_reduce", count=100_000)
    at = killed.kill()
    for error in errors_after(others, at, 2, "UNAVAILABLE"):
        assert f"rank {killed.number} (pid {killed.pid} on host-" in error
        assert " died" in error
    # And again: it is closed.
    assert {rank.do("run", kind="barrier").code for rank in others} == {"UNAVAILABLE"}


@pytest.mark.parametrize("layout", ["shm2", "tcp2", "mixed"])
@pytest.mark.parametrize("victim", [0, -1], ids=["first", "last"])
def test_a_killed_rank_is_named_though_a_child_of_it_lives(make_world, layout, victim):
    world = make_world(layout).create()
    assert {answer.code for answer in world.all("run", kind="barrier")} == {"OK"}
    killed = world.ranks[victim]
    child = killed.do("fork").value
    try:
        for rank in world.without(killed.number):
            rank.begin("run", kind="all_reduce", count=100_000)
        at = killed.kill()
        for error in errors_after(world.without(killed.number), at, 2, "UNAVAILABLE"):
            assert f"rank {killed.number} (pid {killed.pid} on host-" in error
            assert " died" in error
        os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_rank_that_exits_without_leaving_is_named(make_world):
    world = make_world("shm2").create()
    world[0].begin("run", kind="barrier")
    at = world[1].signal(signal.SIGTERM)
    assert "rank 1 (pid" in errors_after([world[0]], at, 2, "UNAVAILABLE")[0]
    world[1].process.wait(10)  # its last files close after its connections


def test_a_rank_that_left_is_named_by_those_that_need_it(make_world):
    world = make_world("mixed").create()
    at = time.monotonic()
    for rank in world.without(3):
        rank.begin("run", kind="barrier")
    world[3].begin("free")
    for error in errors_after(world.without(3), at, 2, "UNAVAILABLE"):
        assert f"rank 3 (pid {world[3].pid} on host-1) left the world after operation 0" in error
    assert world[3].answer().code == "OK"


@pytest.mark.parametrize("layout", ["shm4", "mixed"])
def test_a_leader_that_left_long_ago_is_named_by_those_that_need_it(make_world, layout):
    world = make_world(layout).create()
    assert {answer.code for answer in world.all("run", kind="barrier")} == {"OK"}
    assert world[0].do("free").code == "OK"  # after it has waited for the others as long as it does
    at = time.monotonic()
    for rank in world.without(0):
        rank.begin("run", kind="barrier")
    for error in errors_after(world.without(0), at, 2, "UNAVAILABLE"):
        assert f"rank 0 (pid {world[0].pid} on host-0) left the world after operation 1" in error


@pytest.mark.parametrize("how", ["stopped", "left"])
def test_an_abort_needs_no_leader_on_a_host(make_world, how):
    world = make_world("shm4").create()
    assert {answer.code for answer in world.all("run", kind="barrier")} == {"OK"}
    if how == "stopped":
        world[0].signal(signal.SIGSTOP)
        others = [rank.begin("run", kind="all_reduce", count=100_000) for rank in world.without(0, 1)]
    else:
        assert world[0].do("free").code == "OK"
        others = [rank.begin("run", kind="receive", root=1, count=100) for rank in world.without(0, 1)]
    at = time.monotonic()
    assert world[1].do("abort", reason="enough").code == "OK"
    for error in errors_after(others, at, 2, "CANCELLED"):
        assert error == "'world' was aborted by rank 1: enough"
    if how == "stopped":
        at = world[0].signal(signal.SIGCONT)
        world[0].begin("run", kind="all_reduce", count=100_000)
        errors_after([world[0]], at, 2, "CANCELLED")


def test_the_end_of_what_a_rank_sends_is_seen_though_a_child_of_it_lives(make_world):
    world = make_world("tcp2").create()
    world[1].begin("run", kind="send", root=0, count=100)
    world[0].begin("run", kind="receive", root=1, count=100)
    assert {rank.answer().code for rank in world.ranks} == {"OK"}
    child = world[1].do("fork").value
    try:
        assert world[1].do("free").code == "OK"
        at = time.monotonic()
        world[0].begin("run", kind="receive", root=1, count=100)
        assert "rank 1 (pid" in errors_after([world[0]], at, 2, "UNAVAILABLE")[0]
        os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stopped", [0, -1], ids=["first", "last"])
def test_a_stopped_rank_is_named_at_the_time_out_and_hears_of_it(make_world, layout, stopped):
    world = make_world(layout).create(timeout=1)
    one = world.ranks[stopped]
    others = world.without(one.number)
    assert {answer.code for answer in world.all("run", kind="barrier")} == {"OK"}
    one.signal(signal.SIGSTOP)
    at = time.monotonic()
    for rank in others:
        rank.begin("run", kind="all_reduce", count=100_000)
    for error in errors_after(others, at, 2, "DEADLINE"):
        assert "operation 2 of 'world', all_reduce of 100000 float32 (sum) (400000 bytes)" in error
        assert "took longer than 1000 ms" in error
        # Who tells it first has not heard from those either who had nothing to send to it.
        missing = error[error.index("not from: "):].replace(" (last in operation 1)", "")
        assert str(one.number) in missing
    at = one.signal(signal.SIGCONT)
    one.begin("run", kind="all_reduce", count=100_000)
    errors_after([one], at, 2, "DEADLINE")


@pytest.mark.parametrize("layout", ["tcp2"])
def test_a_rank_that_stops_amid_a_large_operation_and_goes_on_in_time_does_no_harm(make_world, layout):
    world = make_world(layout).create(timeout=20)
    assert {answer.code for answer in world.all("run", kind="all_reduce", count=1)} == {"OK"}
    for rank in world.ranks:
        rank.begin("run", kind="all_reduce", count=40_000_000, dtype="int8")
    time.sleep(0.01)
    world[1].signal(signal.SIGSTOP)
    time.sleep(5.5)  # longer than a silent host is given
    world[1].signal(signal.SIGCONT)
    answers = [rank.answer() for rank in world.ranks]
    assert [(answer.code, answer.error, answer.value) for answer in answers] == [("OK", "", "02" * 16)] * 2


@pytest.mark.parametrize("how", ["down", "silent"])
@pytest.mark.parametrize("layout, work", [("tcp2", "at_work"), ("mixed", "at_rest")])
def test_a_cut_cable_is_an_error_on_both_sides_within_5_s(make_world, cable, layout, work, how):
    world = make_world(layout).create()
    if work == "at_work":
        world.loop(kind="all_reduce", count=1_000_000)
        at = cable.set(how)
    else:
        world[0].begin("run", kind="all_reduce", count=100_000)
        at = cable.set(how)
        for rank in world.without(0):
            rank.begin("wait_for_fault", within=20)
    side = len(world.ranks) // 2
    for rank, error in zip(world.ranks, errors_after(world.ranks, at, 5, "UNAVAILABLE")):
        away = side if rank.number < side else 0  # the one that speaks for the other host
        assert f"rank {away} (pid {world[away].pid} on host-{away // side}) is gone" in error
        assert "out of reach" in error


def test_a_busy_rank_is_no_fault_within_the_time_out(make_world):
    world = make_world("mixed").create(timeout=20)
    for rank in world.ranks:
        rank.begin("run", kind="barrier")
    for rank in world.ranks:
        assert rank.answer().code == "OK"
    for rank in world.without(3):
        rank.begin("run", kind="all_reduce", count=1000, dtype="int8")
    world[3].begin("spin", seconds=2.5)
    world[3].begin("run", kind="all_reduce", count=1000, dtype="int8")
    assert world[3].answer().code == "OK"
    answers = [rank.answer() for rank in world.ranks]
    assert [(answer.code, answer.value) for answer in answers] == [("OK", "04" * 16)] * 4
    assert answers[0].ended - answers[0].began > 2


def test_a_world_is_killed_and_nothing_is_left(make_world, cable, status):
    world = make_world("mixed").create()
    world.loop(kind="all_reduce", count=100_000)
    held = [path for rank in world.ranks for path in open_files(rank.pid)]
    assert not [path for path in held if path.startswith("/dev/shm")]
    for rank in world.ranks:
        rank.signal(signal.SIGKILL)
    for rank in world.ranks:
        rank.process.wait(10)
    assert cable.local_sockets() == []
    assert cable.listeners(0) == cable.listeners(1) == []
    # Nobody was left to remove what they showed of themselves: the next world that begins does. Some may
    # have seen another one die, and been killed amid the writing of that.
    shown = lambda: sorted(path.name for path in status.iterdir() if not path.name.startswith("flight-"))
    assert [name for name in shown() if not name.startswith(".rank-")] == [f"rank-{n}.world" for n in range(4)]
    again = make_world("shm2", name="b").create(name="again")
    assert shown() == ["rank-0.again", "rank-1.again"]
    assert {answer.code for answer in again.all("free")} == {"OK"}
