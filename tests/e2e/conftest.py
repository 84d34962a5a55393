# SPDX-License-Identifier: Apache-2.0
"""Tests marked `both_ways` run twice: on network namespaces, as root, and as an ordinary user, on
addresses of the loopback. Those marked `both_ways_slow` do so the second time in `./yard test all` only, but for
what is about network namespaces themselves.
`-m ordinary` picks everything that needs no root."""
import os

import pytest
from conftest import Jobs
from ordinary_user import OrdinaryServer, OrdinaryUser

WAYS = {"root": {"server": "own_server", "jobs": "own_jobs"},
        "ordinary": {"server": "ordinary_server", "jobs": "ordinary_jobs"}}


def pytest_configure(config):
    config.addinivalue_line("markers", "both_ways: as root and as an ordinary user")
    config.addinivalue_line("markers", "both_ways_slow: the same, as an ordinary user among the slow tests")
    config.addinivalue_line("markers", "namespaces: about network namespaces, which an ordinary user's instances have not")
    config.addinivalue_line("markers", "ordinary: as an ordinary user; root makes itself one")


def pytest_generate_tests(metafunc):
    is_wanted, is_wanted_slow = (metafunc.definition.get_closest_marker(name) for name in ("both_ways", "both_ways_slow"))
    if is_wanted or is_wanted_slow and not metafunc.definition.get_closest_marker("namespaces"):
        as_user = [pytest.mark.ordinary] + ([] if is_wanted else [pytest.mark.slow])
        names = [name for name in ("server", "jobs") if name in metafunc.fixturenames]
        if not names:
            return
        metafunc.parametrize(names, [
            pytest.param(*(fixtures[name] for name in names), id=way,
                         marks=as_user if way == "ordinary" else [])
            for way, fixtures in WAYS.items()], indirect=True)


@pytest.fixture(scope="session")
def ordinary_user():
    user = OrdinaryUser()
    if forbidden := user.may_not_run_instances():
        user.remove()
        pytest.skip(f"no ordinary user can run instances here: {forbidden}")
    yield user
    if user.is_made:
        assert not user.processes(), "processes of the ordinary user are left"
    user.remove()


@pytest.fixture(scope="session")
def ordinary_server(ordinary_user):
    running = OrdinaryServer(ordinary_user).start()
    yield running
    assert running.stop() == 0
    assert running.left_the_machine() == ""
    assert not any((running.home / "run").iterdir()), "something of a job is left"


@pytest.fixture(scope="session")
def ordinary_jobs(ordinary_server):
    made = Jobs(ordinary_server)
    yield made
    made.stop_all()
