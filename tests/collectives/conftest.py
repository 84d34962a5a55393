# SPDX-License-Identifier: Apache-2.0
"""Hosts and worlds for the fault tests of the collectives. Nothing may be left behind by any of them."""
import pytest
import yard
from conftest import wait_for
from world import LAYOUTS, Cable, World, memory_with_names


@pytest.fixture(scope="session")
def cable():
    assert yard.LIBRARY.is_file(), f"{yard.LIBRARY} is missing: run ./yard build"
    made = Cable()
    yield made
    made.remove()


@pytest.fixture
def status(tmp_path):
    """The folder in which ranks show how far they are."""
    folder = tmp_path / "status"
    folder.mkdir()
    return folder


@pytest.fixture
def make_world(cable, tmp_path, status):
    """make_world(LAYOUT) starts the processes of a world; `create` joins them. At the end no process, no socket, no
    memory and no file of theirs is left, but for what a fault wrote for people."""
    worlds = []
    cable.set("up")

    def make(layout, name="a", **environment):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        settings = {"TRAINYARD_COMM_STATUS": str(status)} | environment
        worlds.append(World(folder, [cable.place(host) for host in LAYOUTS[layout]], settings))
        return worlds[-1]

    def see_that_nothing_is_there():
        wait_for(lambda: not cable.processes(), 20, "the end of all processes")  # killed children, too
        assert cable.local_sockets() == []
        assert memory_with_names() == []

    see_that_nothing_is_there()
    yield make
    for world in worlds:
        world.end()
    see_that_nothing_is_there()
    assert [path.name for path in status.iterdir() if not path.name.startswith("flight-")] == []
