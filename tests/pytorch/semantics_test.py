# SPDX-License-Identifier: Apache-2.0
"""The behaviours of c10d, on Gloo and on our backends, compared (ranks/semantics.py)."""
import re

import pytest
from conftest import ROOT

CASES = re.findall(r"^@case\ndef (\w+)", (ROOT / "tests/pytorch/ranks/semantics.py").read_text(), re.M)


@pytest.fixture(scope="session")
def world(torch):
    return torch.run("semantics.py", 4)


@pytest.mark.parametrize("backend", ["yard", "yard+gloo"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("case", CASES)
def test_our_backends_do_as_gloo(world, case, size, backend):
    world.assert_all_well(f"{case} {size} {backend}")


def test_ranks_end_well(world):
    assert world.codes == [0] * 4, world.errors[-2000:]
