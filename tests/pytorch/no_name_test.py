# SPDX-License-Identifier: Apache-2.0
"""The backend of scripts that name none: TRAINYARD_DEFAULT_BACKEND, in jobs set by the platform
(ranks/no_name.py). The wheel is unpacked, as jobs find it."""
import pytest


def carriers(torch, wheel, size=1, **environment):
    world = torch.run("no_name.py", size, python_path=wheel / "site", SECOND_PORT=torch.free_port(), **environment)
    world.assert_all_well("no name")
    world.assert_all_well("by name")
    assert {(line["default"], line["group"]) for line in world.of("gloo")} == {("gloo", "gloo")}
    (found,) = {(line["default"], line["group"], line["gloo"]) for line in world.of("carriers")}
    return found


@pytest.mark.parametrize("name", ["yard", "smddp", "yard+gloo"])
def test_who_names_none_gets_the_default(torch, wheel, name):
    assert carriers(torch, wheel, size=2, TRAINYARD_DEFAULT_BACKEND=name) == (name, name, "gloo")


@pytest.mark.parametrize("name", ["", "gloo"])
def test_the_default_may_be_pytorchs_own(torch, wheel, name):
    assert carriers(torch, wheel, TRAINYARD_DEFAULT_BACKEND=name) == ("gloo", "gloo", "gloo")


def test_a_pytorch_that_nothing_is_compiled_for_keeps_gloo(torch, wheel, tmp_path):
    found = carriers(torch, wheel, TRAINYARD_DEFAULT_BACKEND="yard", XDG_CACHE_HOME=str(tmp_path))
    assert found == ("gloo", "gloo", "gloo")
    assert not any(tmp_path.rglob("*.so"))


def test_a_default_that_does_not_exist_is_an_error_that_names_it(torch, wheel):
    world = torch.run("no_name.py", 1, python_path=wheel / "site", SECOND_PORT=torch.free_port(),
                      TRAINYARD_DEFAULT_BACKEND="yrad")
    (line,) = world.of("no name")
    assert "yrad" in line["problem"].lower()
    world.assert_all_well("by name")
