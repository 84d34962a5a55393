# SPDX-License-Identifier: Apache-2.0
"""Who waits for a gradient in a fusion buffer learns why it does not come (ranks/fusion.py)."""
import pytest


@pytest.fixture(scope="session")
def world(torch):
    return torch.run("fusion.py", 2)


def texts(world, case):
    told = world.of(case)
    assert sorted(line["rank"] for line in told) == [0, 1], told
    assert all(line.get("kind") == "DistBackendError" for line in told), told
    return [line["text"] for line in told]


@pytest.mark.parametrize("case", ["not flushed", "not flushed, by the future"])
def test_a_missing_flush_is_named_after_the_time_out(world, case):
    assert all("not begun within 1000 ms" in text and "flush()" in text for text in texts(world, case))


def test_a_late_flush_still_gives_the_average(world):
    world.assert_all_well("flushed too late")


@pytest.mark.parametrize("case", ["aborted", "aborted, by the future"])
def test_gradients_that_wait_for_a_flush_are_told_of_an_abort(world, case):
    assert all("the loss is not a number" in text for text in texts(world, case))


@pytest.mark.parametrize("case", ["its state has ended", "its group has ended"])
def test_gradients_that_were_never_flushed_end_with_their_buffers(world, case):
    assert all("call flush() at the end of each step" in text for text in texts(world, case))


def test_buffers_end_with_their_group(world):
    world.assert_all_well("shut down")
    for case in ("flushed after the end", "added after the end"):
        assert all("was shut down" in text for text in texts(world, case))


def test_ranks_end_well(world):
    assert world.codes == [0, 0], world.errors[-3000:]
