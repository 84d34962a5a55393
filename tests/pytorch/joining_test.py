# SPDX-License-Identifier: Apache-2.0
"""What a world says that cannot be made: who is missing, who is there already, who is of another version
(ranks/joining.py)."""
import re

import pytest

@pytest.fixture(scope="session")
def world(torch):
    return torch.run("joining.py", 2)


@pytest.fixture
def pids(world):
    return {line["rank"]: line["pid"] for line in world.of("process")}


def test_a_world_that_never_completes_names_who_is_missing_and_where_the_others_are(world, pids):
    told = world.of("never complete")
    assert len(told) == 2
    for line in told:
        assert line.get("kind") == "DistBackendError" and line["seconds"] < 20, line
        assert re.search(r'world ".+" of 4 ranks did not complete within 5 s: missing 2 and 3; there are ', line["text"])
        for rank in (0, 1):
            assert re.search(rf"rank {rank} \(pid {pids[rank]} on \S+, [0-9a-f.:]+", line["text"]), line
        assert re.search(r"they meet at 127\.0\.0\.1:\d+$", line["text"].strip()), line


def test_two_worlds_under_one_name_are_told_who_has_it(world, pids):
    told = {line["rank"]: line["text"] for line in world.of("one name")}
    (second,) = (rank for rank, text in told.items() if "already" in text)
    first = 1 - second
    assert f"rank 0 (pid {pids[first]} on" in told[second] and "has this number in the world" in told[second]
    assert "missing 1" in told[first] and f"pid {pids[first]}" in told[first]


def test_both_versions_of_the_protocol_are_named(world):
    (line,) = world.of("version")
    assert line.get("kind") == "DistBackendError" and line["seconds"] < 20, line  # far from the time to join
    assert "entry of rank 1" in line["text"]
    assert "version 9 of the protocol, this side version 2" in line["text"], line


def test_both_sizes_of_a_world_are_named(world):
    for line in world.of("sizes"):
        assert line.get("kind") == "DistBackendError" and line["seconds"] < 20, line
        assert "has two sizes" in line["text"], line
        assert {"2", "3"} <= set(re.findall(r"\b\d+\b", line["text"])), line


def test_ranks_end_well(world):
    assert world.codes == [0, 0], world.errors[-2000:]
