# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed, from its own environment, on yard: what it says in the words of its users' scripts is
dist_backend="yard" (ranks/zero2.py)."""
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def worlds(deepspeed, wheel):
    return {backend: deepspeed.run("zero2.py", 2, backend, seconds=400, python_path=wheel / "site",
                                   DS_ACCELERATOR="cpu")
            for backend in ("gloo", "yard")}


def test_zero_2_has_the_losses_on_yard_that_it_has_on_gloo(worlds):
    expected, found = ({line["rank"]: line["losses"] for line in worlds[backend].of("zero2")}
                       for backend in ("gloo", "yard"))
    assert found == expected
    assert expected[0][-1] < expected[0][0]


def test_gradients_and_weights_go_by_yard(worlds):
    for line in worlds["yard"].of("zero2"):
        assert line["stage"] == 2
        assert line["partition"] < 0.6 * line["parameters"], "every rank holds the whole optimizer state"
        steps = len(line["losses"]) // 2  # two micro-batches in each
        assert line["operations"]["all_reduce"] >= steps and line["operations"]["all_gather"] >= steps, line
    assert worlds["yard"].codes == [0, 0], worlds["yard"].errors[-3000:]
