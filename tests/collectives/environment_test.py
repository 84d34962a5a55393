# SPDX-License-Identifier: Apache-2.0
"""The library is told everything: Python's threads may set a variable while it makes a group on another one."""
import contextlib

import yard


@contextlib.contextmanager
def in_the_environment(**variables):
    """For C code alone: Python keeps what it was started with."""
    for name, value in variables.items():
        assert yard.libc.setenv(name.encode(), value.encode(), 1) == 0
    try:
        yield
    finally:
        for name in variables:
            yard.libc.unsetenv(name.encode())


def test_the_library_heeds_no_environment_variable(tmp_path, monkeypatch):
    for variable in yard.VARIABLES.values():
        monkeypatch.delenv(variable.decode(), raising=False)
    store, shown = tmp_path / "store", tmp_path / "shown"
    store.mkdir()
    shown.mkdir()
    with in_the_environment(TRAINYARD_COMM_STATUS=str(shown), TRAINYARD_COMM_SOCKETS=str(shown)):
        comm = yard.Comm(store, 0, 1)
        try:
            assert list(shown.iterdir()) == []
            (entry,) = store.glob("*rank%2F0")
            assert str(shown).encode() not in entry.read_bytes()
        finally:
            comm.free()
