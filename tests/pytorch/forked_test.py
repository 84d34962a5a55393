# SPDX-License-Identifier: Apache-2.0
"""Children of fork() (ranks/forked.py)."""


def test_a_child_of_a_process_that_has_used_the_library_uses_it_too(torch):
    world = torch.run("forked.py", 2, torch.free_port(), seconds=120)
    world.assert_all_well("parent")
    assert [line["code"] for line in world.of("end")] == [0, 0], world.errors[-3000:]
    world.assert_all_well("child")
