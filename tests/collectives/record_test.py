# SPDX-License-Identifier: Apache-2.0
"""What a world tells of itself while it runs, on a signal, and when it ends by a fault."""
import json
import signal
import time

import pytest
from conftest import wait_for
from world import patience, progress

pytestmark = pytest.mark.root


def operations(text):
    return [json.loads(line) for line in text.splitlines()]


def test_progress_is_readable_from_outside_while_it_runs(make_world, status):
    world = make_world("mixed").create()
    files = [status / f"rank-{number}.world" for number in range(4)]
    assert [progress(file) for file in files] == [(0, 0, 0)] * 4
    world.all("run", kind="barrier")
    for rank in world.without(3):
        rank.begin("run", kind="all_reduce", count=100)
    wait_for(lambda: [progress(file) for file in files] == [(2, 2, 1)] * 3 + [(1, 1, 1)], 5, "three that wait")
    world[3].begin("run", kind="all_reduce", count=100)
    assert {rank.answer().code for rank in world.ranks} == {"OK"}
    assert [progress(file) for file in files] == [(2, 2, 2)] * 4


def test_the_flight_record_is_written_on_sigusr2_amid_an_operation(make_world, status):
    world = make_world("tcp2").create()
    world.all("run", kind="barrier")
    world[0].begin("run", kind="all_reduce", count=100)
    time.sleep(0.1)
    at = world[0].signal(signal.SIGUSR2)
    record = status / "flight-rank-0.world.jsonl"
    wait_for(record.exists, 5, "the flight record")
    assert time.monotonic() - at < patience(1)
    head, *rest = operations(record.read_text())
    assert head == {"communicator": "world", "rank": 0, "transports": "tcp"}
    assert [(one["sequence"], one["op"], one["count"], one["state"]) for one in rest] == [
        (1, "barrier", 0, "completed"), (2, "all_reduce", 100, "started")]
    world[1].begin("run", kind="all_reduce", count=100)
    assert {rank.answer().code for rank in world.ranks} == {"OK"}


def test_a_fault_writes_the_flight_record_of_each_rank_that_sees_it(make_world, status):
    world = make_world("mixed").create()
    world.all("run", kind="barrier")
    for rank in world.without(2):
        rank.begin("run", kind="all_reduce", count=100)
    time.sleep(0.1)
    world[2].kill()
    for rank in world.without(2):
        assert rank.answer().code == "UNAVAILABLE"
        file = status / f"flight-rank-{rank.number}.world.jsonl"
        wait_for(file.exists, 20, "its flight record")
        head, *rest = operations(file.read_text())
        assert head["rank"] == rank.number
        assert head["communicator"] == "world"
        assert f"rank 2 (pid {world[2].pid} on host-1)" in head["fault"]
        assert [one["op"] for one in rest] == ["barrier", "all_reduce"]
        assert rest[0]["state"] == "completed" and rest[1]["state"] in ("started", "failed")


def test_a_fault_shows_its_last_operations_on_the_log_when_there_is_no_folder(make_world, tmp_path):
    world = make_world("shm2", TRAINYARD_COMM_STATUS="", RANK_LOG=str(tmp_path / "log")).create()
    for _ in range(20):
        world.all("run", kind="barrier")
    world[0].begin("run", kind="all_reduce", count=100)
    time.sleep(0.1)
    world[1].kill()
    assert world[0].answer().code == "UNAVAILABLE"
    lines = wait_for(lambda: len(said := (tmp_path / "log").read_text().splitlines()) >= 17 and said, 20, "its log")
    assert "'world' ends on rank 0" in lines[0] and f"rank 1 (pid {world[1].pid} on host-0) died" in lines[0]
    shown = [json.loads(line[line.index("{"):]) for line in lines[1:]]
    assert [one["sequence"] for one in shown] == list(range(6, 22))
    assert shown[-1]["op"] == "all_reduce" and shown[-1]["state"] in ("started", "failed")


def test_a_world_works_on_where_nobody_can_look_on(make_world, tmp_path):
    missing = tmp_path / "nowhere"
    world = make_world("shm2", TRAINYARD_COMM_STATUS=str(missing), RANK_LOG=str(tmp_path / "log")).create()
    assert {answer.code for answer in world.all("run", kind="barrier")} == {"OK"}
    assert (tmp_path / "log").read_text().count("'world' shows nobody how far it is") == 2
    assert not missing.exists()
