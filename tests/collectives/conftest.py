# SPDX-License-Identifier: Apache-2.0
"""Hosts and worlds for the fault tests of the collectives. Nothing may be left behind by any of them."""
import pytest
import yard
from world import LAYOUTS, Cable, World


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
    """make_world(LAYOUT) starts the processes of a world; `create` joins them. At the end no socket and no
    file of theirs is left, but for what a fault wrote for people."""
    worlds = []
    cable.set("up")

    def make(layout, name="a", **environment):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        settings = {"TRAINYARD_COMM_STATUS": str(status)} | environment
        worlds.append(World(folder, [cable.place(host) for host in LAYOUTS[layout]], settings))
        return worlds[-1]

    assert cable.local_sockets() == []
    yield make
    for world in worlds:
        world.end()
    assert cable.local_sockets() == []
    assert [path.name for path in status.iterdir() if not path.name.startswith("flight-")] == []
