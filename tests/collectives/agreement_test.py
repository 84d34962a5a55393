# SPDX-License-Identifier: Apache-2.0
"""Ranks that run different operations, and operations that somebody ends."""
import time

import pytest
from world import LAYOUTS, errors_after, patience

pytestmark = pytest.mark.root

SUM = {"kind": "all_reduce", "count": 4000, "dtype": "float32"}
# What all ranks but the last run, what the last one runs, and how errors call these.
DIFFERENT = {
    "kind": (SUM, {"kind": "all_gather", "count": 4000, "dtype": "float32"},
             "all_reduce of 4000 float32 (sum)", "all_gather of 4000 float32"),
    "count": (SUM, SUM | {"count": 2000}, "all_reduce of 4000 float32 (sum)", "all_reduce of 2000 float32 (sum)"),
    "large": (SUM | {"count": 4_000_000}, SUM | {"count": 4_000_004},
              "all_reduce of 4000000 float32 (sum)", "all_reduce of 4000004 float32 (sum)"),
    "dtype": (SUM, SUM | {"dtype": "int32"}, "all_reduce of 4000 float32 (sum)", "all_reduce of 4000 int32 (sum)"),
    "reduction": (SUM, SUM | {"reduce": "max"}, "all_reduce of 4000 float32 (sum)", "all_reduce of 4000 float32 (max)"),
    "root": ({"kind": "reduce", "count": 8, "root": 0}, {"kind": "reduce", "count": 8, "root": 1},
             "reduce of 8 float32 (sum), root 0", "reduce of 8 float32 (sum), root 1"),
    "barrier": ({"kind": "barrier"}, SUM, "barrier", "all_reduce of 4000 float32 (sum)"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("difference", DIFFERENT)
def test_both_sides_are_named_within_2_s(make_world, layout, difference):
    world = make_world(layout).create()
    most, last, of_most, of_last = DIFFERENT[difference]
    at = time.monotonic()
    for rank in world.ranks:
        rank.begin("loop", **(last if rank is world.ranks[-1] else most))
    for error in errors_after(world.ranks, at, 2, "CONFLICT"):
        assert of_most in error
        assert of_last in error
        assert f"rank {world.ranks[-1].number} " in error


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_roots_that_both_only_send_are_told_while_they_do_something_else(make_world, layout):
    world = make_world(layout).create()
    last = len(world.ranks) - 1
    at = time.monotonic()
    for rank in world.ranks:
        rank.begin("run", kind="broadcast", count=16, root=last if rank.number == last else 0)
    for rank in world.ranks:
        rank.begin("wait_for_fault", within=5)
    for rank in world.ranks:
        rank.answer()  # the roots are content, the others may not be
    for error in errors_after(world.ranks, at, 2, "CONFLICT"):
        assert "broadcast of 16 float32, root 0" in error
        assert f"broadcast of 16 float32, root {last}" in error


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rank_that_is_an_operation_ahead_is_named(make_world, layout):
    world = make_world(layout).create()
    at = time.monotonic()
    for rank in world.ranks:
        rank.begin("run", kind="broadcast", count=16, root=0)
    for rank in world.ranks:
        assert rank.answer().code == "OK"
    world[0].begin("run", kind="broadcast", count=16, root=0)
    for rank in world.ranks:
        rank.begin("run", **SUM)
    assert world[0].answer().code in ("OK", "CONFLICT")
    for error in errors_after(world.ranks, at, 2, "CONFLICT"):
        # By what they run as operation 2, or by how far they are, whichever shows first.
        assert "operation 2, " in error
        assert "operation 3, " in error or "broadcast of 16 float32, root 0" in error
        assert "rank 0 " in error and "all_reduce of 4000 float32 (sum)" in error


@pytest.mark.parametrize("layout", LAYOUTS)
def test_abort_reaches_all_within_1_s(make_world, layout):
    world = make_world(layout).create()
    last = world.ranks[-1]
    for rank in world.without(last.number):
        rank.begin("run", **SUM)
    time.sleep(0.1)
    at = time.monotonic()
    last.do("abort", reason="the loss is not a number")
    last.begin("run", **SUM)
    assert set(errors_after(world.ranks, at, 1, "CANCELLED")) == {
        f"'world' was aborted by rank {last.number}: the loss is not a number"}


# An all-gather of this size copies from process to process, where the kernel does.
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_abort_amid_operations_reaches_all_within_1_s_and_none_of_them_is_wrong(make_world, layout, kind):
    world = make_world(layout).create()
    last = world.ranks[-1]
    for rank in world.without(last.number):
        rank.begin("loop", kind=kind, count=250_000)
    last.begin("loop", kind=kind, count=250_000, abort_after=0.3)
    end = last.answer()
    assert end.code == "CANCELLED", end
    for error in errors_after(world.without(last.number), end.value, 1, "CANCELLED"):
        assert error == f"'world' was aborted by rank {last.number}: the loss is not a number"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ending", ["abort", "disagreement"])
def test_who_ends_its_process_right_after_the_fault_is_not_the_cause(make_world, layout, ending):
    world = make_world(layout).create()
    last = world.ranks[-1]
    at = time.monotonic()
    for rank in world.without(last.number):
        rank.begin("run", **SUM)
    if ending == "abort":
        last.begin("abort_and_exit", reason="the loss is not a number")
        code, cause = "CANCELLED", "the loss is not a number"
    else:
        last.begin("run_and_exit", **SUM | {"dtype": "int32"})
        code, cause = "CONFLICT", "all_reduce of 4000 int32 (sum)"
    for error in errors_after(world.without(last.number), at, 2, code):
        assert cause in error
    last.process.wait(60)  # it may still be writing its flight record


def test_abort_from_another_thread_ends_the_operation_that_runs(make_world):
    world = make_world("tcp2").create()
    begun = world[0].begin("run", abort_after=0.2, **SUM).answer()
    assert begun.code == "CANCELLED"
    assert begun.ended - begun.began < patience(1.2)
    assert world[1].do("wait_for_fault", within=2).code == "CANCELLED"


def test_a_wrong_description_is_an_error_on_its_rank_only(make_world):
    world = make_world("shm2").create()
    wrong = world[0].do("run", kind="all_reduce", count=4, dtype="float32", reduce="xor")
    assert wrong.code == "INVALID_ARGUMENT"
    assert "all_reduce" in wrong.error and "float32" in wrong.error and "xor" in wrong.error
    assert {answer.code for answer in world.all("run", **SUM)} == {"OK"}


@pytest.mark.parametrize("kind", ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"])
def test_no_elements_are_no_fault(make_world, kind):
    world = make_world("mixed").create()
    for _ in range(2):
        answers = world.all("run", kind=kind, count=0, root=0 if kind == "broadcast" else -1)
        assert {(answer.code, answer.error) for answer in answers} == {("OK", "")}
