# SPDX-License-Identifier: Apache-2.0
"""Any backend can be wrapped (ranks/wrapped.py), and which carries what is chosen (trainyard/_choice.py)."""
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
from trainyard import _choice  # noqa: E402

SLACK = 1.5  # seconds, as in faults_test.py


@pytest.fixture(scope="session")
def world(torch):
    return torch.run("wrapped.py", 3)


def test_a_wrapped_backend_has_a_name_of_its_own(world):
    assert {(line["name"], line["again"]) for line in world.of("wrapped")} == {("yard+threaded",) * 2}
    for line in world.of("unknown"):
        assert line["kind"] == "ValueError" and "no backend 'nobody'" in line["text"] and "gloo" in line["text"], line


@pytest.mark.parametrize("case", ["as_it_does", "coalesced", "at_once", "one_for_each_device"])
def test_it_does_what_it_does_unwrapped(world, case):
    world.assert_all_well(case)


@pytest.mark.parametrize(("case", "ranks", "within", "texts"), [
    ("count", 3, 2, ["disagree", "of 8 float32", "of 9 float32", "rank 1"]),
    ("late", 2, 3, ["took longer than 2000 ms", "not from: 2"]),
    ("abort", 3, 1, ["aborted by rank 0: enough"])])
def test_what_begins_at_once_is_compared_all_the_same(world, case, ranks, within, texts):
    told = world.of(case)
    assert len(told) == ranks, told
    for line in told:
        assert line.get("kind") == "DistBackendError" and line["seconds"] < (within + SLACK) * line["patience"], line
        assert all(text in line["text"] for text in texts), line


def test_what_one_rank_refuses_ends_the_group(world):
    told = {line["rank"]: line for line in world.of("refused")}
    assert "not on this rank" in told[1]["text"]
    for rank in (0, 2):
        assert told[rank]["kind"] == "DistBackendError" and told[rank]["seconds"] < (2 + SLACK) * told[rank]["patience"], told
        assert "aborted by rank 1: " in told[rank]["text"] and "not on this rank" in told[rank]["text"], told


@pytest.mark.parametrize("name", ["yard+threaded", "yard+stubborn"])
def test_a_send_ends_with_its_group_whatever_the_backend_throws_then(world, name):
    told = world.of(f"{name}: send")
    assert len(told) == 2, told
    for line in told:
        assert line["kind"] == "DistBackendError" and "aborted by rank 1: enough" in line["text"], line
        assert line["seconds"] < (2 + SLACK) * line["patience"], line


def test_what_a_backend_throws_when_it_is_to_end_is_told_to_who_ends_it(world):
    (line,) = world.of("yard+stubborn: end")
    assert line["kind"] == "RuntimeError" and "stubborn cannot be aborted" in line["text"], line
    for line in world.of("yard+stubborn: shut down"):
        assert line["kind"] == "RuntimeError" and "stubborn cannot be shut down" in line["text"], line


def test_ranks_end_well(world):
    assert world.codes == [0, 0, 0], world.errors[-3000:]


@pytest.mark.parametrize(("name", "has_gpus", "watches", "chosen"), [
    ("", False, False, {}),
    ("", True, True, {}),
    ("yard", False, False, {"cpu": "yard"}),
    ("YARD", False, True, {"cpu": "yard"}),
    ("yard", True, False, {"cpu": "yard"}),
    ("yard", True, True, {"cpu": "yard", "cuda": "yard+nccl"}),
    ("smddp", False, False, {"cpu": "smddp"}),
    ("smddp", True, False, {"cuda": "nccl"}),
    ("smddp", True, True, {"cpu": "yard", "cuda": "yard+nccl"}),
    ("gloo", True, True, {"cpu": "gloo"}),
    ("cpu:yard,cuda:yard+nccl", True, False, {"cpu": "yard", "cuda": "yard+nccl"})])
def test_nccl_is_watched_only_where_that_is_asked_for(name, has_gpus, watches, chosen):
    assert _choice.carriers(name, has_gpus, watches) == chosen


def test_only_one_word_asks_for_it():
    assert [_choice.watches_nccl({_choice.WATCH_NCCL: text}) for text in ("1", "", "0", "yes")] == [True, False, False, False]
    assert not _choice.watches_nccl({})
