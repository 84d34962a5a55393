# SPDX-License-Identifier: Apache-2.0
"""The behaviours of c10d, on Gloo and on our backends, compared (ranks/semantics.py)."""
import re

import pytest
from conftest import ROOT

CASES = re.findall(r"^@case\ndef (\w+)", (ROOT / "tests/pytorch/ranks/semantics.py").read_text(), re.M)


@pytest.fixture(scope="session")
def on_yard(torch):
    return torch.run("semantics.py", 4, "yard")


@pytest.fixture(scope="session")
def on_yard_and_gloo(torch):
    return torch.run("semantics.py", 3, "yard+gloo")


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("case", CASES)
def test_yard_does_as_gloo(on_yard, case, size):
    on_yard.assert_all_well(f"{case} {size}")


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_gloo_under_watch_does_as_gloo(on_yard_and_gloo, case, size):
    on_yard_and_gloo.assert_all_well(f"{case} {size}")


def test_ranks_end_well(on_yard, on_yard_and_gloo):
    assert on_yard.codes == [0] * 4, on_yard.errors[-2000:]
    assert on_yard_and_gloo.codes == [0] * 3, on_yard_and_gloo.errors[-2000:]
