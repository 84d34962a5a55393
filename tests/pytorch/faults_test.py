# SPDX-License-Identifier: Apache-2.0
"""When a rank disagrees, is late or dies, the others are told who and what (ranks/faults.py)."""
import json

import pytest

SLACK = 1.5  # seconds beside what is promised: three processes on as many cores as there are


@pytest.fixture(scope="session")
def world(torch):
    return torch.run("faults.py", 3)


@pytest.fixture(scope="session")
def killed(torch):
    return torch.run("killed.py", 3)


@pytest.fixture(params=["yard", "yard+gloo"])
def backend(request):
    return request.param


def assert_told(world, case, within, *texts, ranks=(0, 1, 2)):
    told = world.of(case)
    assert sorted(line["rank"] for line in told) == list(ranks), told
    for line in told:
        assert line.get("kind") == "DistBackendError", line
        assert line["seconds"] < (within + SLACK) * line["patience"], line
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


def test_both_sides_of_another_dtype_are_named(world, backend):
    assert_told(world, f"{backend}: dtype", 2, "disagree", "of 8 float32", "of 8 float64", "rank 1")


def test_both_roots_are_named(world, backend):
    theirs = ("root 0", "root 2") if backend == "yard+gloo" else ()  # yard's roots may be one operation further
    assert_told(world, f"{backend}: root", 2, "disagree", "broadcast of 8 float32, root", *theirs)


def test_both_sizes_of_an_all_to_all_are_named(world, backend):
    assert_told(world, f"{backend}: all_to_all", 2, "disagree", "all_to_all of 6 float32", "all_to_all of 9 float32")


def test_what_one_rank_sends_and_the_other_takes_is_compared(world, backend):
    texts = ["rank 0 sent 12 bytes where rank 1 expects 8" if backend == "yard" else
             "rank 0 sends 3 elements to rank 1, which takes 2"]
    assert_told(world, f"{backend}: splits", 2, *texts)


def test_both_sides_of_a_send_are_named(world, backend):
    assert_told(world, f"{backend}: receive", 2, "disagree", "rank 1 has a receive of 9 float32 from rank 0 with tag 0",
                "rank 0 has 8 float32 for it")


def test_both_sides_of_a_receive_from_any_rank_are_named(world):
    assert_told(world, "yard+gloo: receive from any", 2, "disagree",
                "rank 1 has a receive of 9 float32 from rank 0 with tag 0", "rank 0 has 8 float32 for it")


def test_sends_and_receives_are_in_the_flight_record(world, backend):
    kinds = {line["rank"]: {(r["op"], r["root"]) for r in map(json.loads, line["text"].splitlines())}
             for line in world.of(f"{backend}: receive record")}
    assert ("send", 1) in kinds[0] and ("receive", 0) in kinds[1], kinds


def test_the_rank_that_does_not_send_is_named(world, backend):
    assert_told(world, f"{backend}: receive late", 3, "receive of 8 float32 from rank 0", "took longer than 2000 ms",
                "rank 0 has not sent it", ranks=(1,))


def test_futures_end_with_the_error(world, backend):
    for line in world.of(f"{backend}: future"):
        assert "(max)" in line["text"] and "(min)" in line["text"], line
        assert line["seconds"] < (2 + SLACK) * line["patience"], line


def test_the_rank_that_is_late_is_named(world, backend):
    assert_told(world, f"{backend}: late", 3, "took longer than 2000 ms", "not from: ", "2 (last in operation 1)", ranks=(0, 1))


def test_a_stopped_rank_is_named(world, backend):
    assert_told(world, f"{backend}: stopped", 3, "took longer than 2000 ms", "not from: ", "2 (last in operation 1)",
                ranks=(0, 1))


def test_a_monitored_barrier_names_who_is_missing(world, backend):
    assert_told(world, f"{backend}: monitored barrier", 3, "barrier", "1 (last in operation 1)", ranks=(0, 2))


def test_an_abort_gives_its_reason_to_all(world, backend):
    assert_told(world, f"{backend}: abort", 1.3, "was aborted by rank 0: the loss is not a number")


def test_a_dead_rank_is_named(world, backend):
    (dead,) = (line for line in world.of("before the kill") if line["rank"] == 2)
    assert_told(world, f"{backend}: killed", 2, "rank 2", f"pid {dead['pid']}", ranks=(0, 1))
    assert world.codes == [0, 0, -9], world.errors[-2000:]


def test_a_rank_that_dies_amid_operations_is_named(killed, backend):
    (dead,) = killed.of("before the kill")
    assert_told(killed, f"{backend}: killed amid operations", 60, "rank 2", f"pid {dead['pid']}", ranks=(0, 1))
    for line in killed.of(f"{backend}: told"):
        assert line["at"] - dead["at"] < (2 + SLACK) * line["patience"], line
    assert killed.codes == [0, 0, -9], killed.errors[-2000:]
