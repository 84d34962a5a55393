# SPDX-License-Identifier: Apache-2.0
"""That a wrong result is seen: by the comparison, and by ranks that run an operation again and again."""
import pytest
from results import given_by, mistake_in, result_of


def test_a_buffer_that_is_partly_reduced_is_wrong():
    wanted = result_of("all_reduce", 0, 2, turn=5, count=1000)
    own = given_by(0, 5) * 1000
    assert mistake_in(wanted, wanted) is None
    assert mistake_in(wanted[:3000] + own[3000:], wanted).startswith("byte 3002 of 4000 is the first of ")
    assert mistake_in(result_of("all_reduce", 0, 2, turn=4, count=1000), wanted) is not None
    assert mistake_in(wanted[:-4], wanted) is not None


@pytest.mark.root
def test_ranks_tell_of_a_wrong_result(make_world):
    world = make_world("shm2").create()
    world[0].begin("loop", kind="all_reduce", count=1000)
    world[1].begin("loop", kind="all_reduce", count=1000, ahead=1)
    for rank in world.ranks:
        answer = rank.answer()
        assert answer.code == "WRONG"
        assert "all_reduce came back as done in turn 0, and byte 2 of 4000 is the first of" in answer.error
