# SPDX-License-Identifier: Apache-2.0
"""When a rank disagrees, is late or dies, the others are told who and what (ranks/faults.py)."""
import json

import pytest

SLACK = 1.5  # seconds beside what is promised: three processes on busy cores


@pytest.fixture(scope="session")
def world(torch):
    return torch.run("faults.py", 3)


@pytest.fixture(params=["yard", "yard+gloo"])
def backend(request):
    return request.param


def assert_told(world, case, within, *texts, ranks=(0, 1, 2)):
    told = world.of(case)
    assert sorted(line["rank"] for line in told) == list(ranks), told
    for line in told:
        assert line.get("kind") == "DistBackendError", line
        assert line["seconds"] < within + SLACK, line
        for text in texts:
            assert text in line["text"], line


def test_both_sides_of_a_different_count_are_named(world, backend):
    assert_told(world, f"{backend}: count", 2, "disagree", "of 8 float32", "of 9 float32", "rank 1")


def test_the_flight_record_shows_the_operation_that_failed(world, backend):
    records = [json.loads(line["text"]) for line in world.of(f"{backend}: record")]
    second = [record for record in records if record["sequence"] == 2]  # a rank may be told before it begins
    assert second and all(r["op"] == "all_reduce" and r["state"] == "failed" for r in second), records


def test_a_group_stays_closed(world, backend):
    assert_told(world, f"{backend}: closed", 0.5, "disagree")


def test_both_sides_of_another_operation_are_named(world, backend):
    assert_told(world, f"{backend}: operation", 2, "disagree", "broadcast of 8 float32", "all_reduce of 8 float32", "rank 2")


def test_futures_end_with_the_error(world, backend):
    for line in world.of(f"{backend}: future"):
        assert "(max)" in line["text"] and "(min)" in line["text"], line
        assert line["seconds"] < 2 + SLACK


def test_the_rank_that_is_late_is_named(world, backend):
    assert_told(world, f"{backend}: late", 3, "took longer than 2000 ms", "not from: ", "2 (last in operation 1)", ranks=(0, 1))


def test_a_monitored_barrier_names_who_is_missing(world, backend):
    assert_told(world, f"{backend}: monitored barrier", 3, "barrier", "1 (last in operation 1)", ranks=(0, 2))


def test_an_abort_gives_its_reason_to_all(world, backend):
    assert_told(world, f"{backend}: abort", 1.3, "was aborted by rank 0: the loss is not a number")


def test_a_dead_rank_is_named(world, backend):
    (dead,) = (line for line in world.of("before the kill") if line["rank"] == 2)
    assert_told(world, f"{backend}: killed", 2, "rank 2", f"pid {dead['pid']}", ranks=(0, 1))
    assert world.codes == [0, 0, -9], world.errors[-2000:]
