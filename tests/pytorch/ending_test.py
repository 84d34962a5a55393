# SPDX-License-Identifier: Apache-2.0
"""What else goes on while a group ends (ranks/ending.py)."""
import pytest

SLACK = 1.5  # seconds, as in faults_test.py


def run(torch, case):
    world = torch.run("ending.py", 2, case, seconds=120)
    world.assert_all_well(case)
    assert world.codes == [0, 0], world.errors[-3000:]
    return world


@pytest.mark.parametrize("case", ["collective", "receive", "own_receive"])
def test_a_rank_that_leaves_an_operation_open_is_gone_when_that_ends(torch, case):
    world = run(torch, case)
    (left,) = world.of("left")
    assert any(name.startswith("comm-watch") for name in left["begun"]) and left["threads"] == [], left
    (told,) = world.of("told")
    assert told.get("kind") == "DistBackendError" and "rank 0" in told["text"], told
    assert told["seconds"] < SLACK * told["patience"], told


@pytest.mark.parametrize("case", ["recorded", "aborted"])
def test_other_threads_may_ask_while_a_group_ends(torch, case):
    run(torch, case)


def test_a_script_on_gloo_may_end_right_after_its_last_gradients(torch, wheel):
    """PyTorch would abort more than half of such worlds; what it calls after `import torch` waits for Gloo's threads."""
    for _ in range(6):
        world = torch.run("exiting.py", 2, seconds=120, python_path=wheel / "site")
        assert world.codes == [0, 0], world.errors[-2000:]


def test_other_threads_allocate_while_memory_is_routed(torch):
    run(torch, "routed")
