# SPDX-License-Identifier: Apache-2.0
"""Four stock clients on Trainyard's store and on versitygw: every step shows what it is to show.

That stands in expected/CLIENT.json. Where one of the servers shows something else, failures.json
names the step as an expected failure of that server, with the reason; what it shows instead stands
in expected/CLIENT.SERVER.json. A difference that nobody named fails, and so does one that is gone.

    YARD_RECORD=1 pytest --slow tests/conformance/store     writes expected/ anew, to be read and committed
"""
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import wait_for

HERE = Path(__file__).resolve().parent
SERVERS = ("trainyard", "versitygw")


def load(name):
    """A module of this folder, which is no package; pytest imports tests by path."""
    spec = importlib.util.spec_from_file_location(f"store_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def stored(name):
    path = HERE / "expected" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


runs = load("runs")
WHY, FAILURES = (json.loads((HERE / "failures.json").read_text())[part] for part in ("why", "failures"))
EXPECTED = {client: stored(client) for client in runs.CLIENTS}
SHOWN = {(server, client): stored(f"{client}.{server}") for server in SERVERS for client in runs.CLIENTS}


def failing(server, client):
    """Steps at which the server is known to fail: each with the name of its reason."""
    return FAILURES.get(server, {}).get(client, {})


# The first test waits for the scripts, and in the slow run for the build of versitygw.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def ran(tmp_path_factory, request):
    made = runs.Runs(tmp_path_factory.mktemp("steps"), build_peer=request.config.getoption("--slow"))
    yield made
    if os.environ.get("YARD_RECORD"):
        record(made)
    assert made.end() == [0] * len(made.servers)


def record(made):
    def write(name, found):
        path = HERE / "expected" / f"{name}.json"
        path.write_text(json.dumps(found, indent=1, sort_keys=False) + "\n") if found else path.unlink(missing_ok=True)
    for client in runs.CLIENTS:
        ours, theirs = (made.seen(server, client) for server in SERVERS)
        write(client, {step: theirs[step] if step in failing("trainyard", client) else ours[step] for step in ours})
        for server, found in zip(SERVERS, (ours, theirs)):
            write(f"{client}.{server}", {step: found[step] for step in found if step in failing(server, client)})


def observations(ran, server, client):
    if runs.why_not(client):
        pytest.skip(runs.why_not(client))
    if server not in ran.servers:
        pytest.skip(f"{ran.no_peer}; Trainyard is compared with what was recorded of it")
    return ran.seen(server, client)


@pytest.mark.parametrize("client", runs.CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_script_has_sixty_steps_or_more_and_all_are_expected(ran, server, client):
    seen = observations(ran, server, client)
    assert list(seen) == list(EXPECTED[client]) and len(seen) >= 60


@pytest.mark.parametrize("server,client,step", [
    pytest.param(server, client, step, id=f"{server}-{client}-{step}")
    for server in SERVERS for client in runs.CLIENTS for step in EXPECTED[client]])
def test_step(ran, server, client, step):
    shown = observations(ran, server, client).get(step, "the script has no such step")
    if step not in failing(server, client):
        assert shown == EXPECTED[client][step]
        return
    assert shown != EXPECTED[client][step], "this is right now: take the step out of failures.json, and record anew"
    assert shown == SHOWN[server, client].get(step), "it fails in another way than was recorded"
    pytest.xfail(f"{server}: {WHY[failing(server, client)[step]]}")


def test_a_script_of_s3fs_that_is_killed_leaves_no_mount_and_no_process(ran, tmp_path):
    observations(ran, "trainyard", "s3fs")  # has ended: this is its bucket
    command, env = ran.command("trainyard", "s3fs", tmp_path, tmp_path / "out.json")
    script = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def mounts_of_its_child():
        child = Path(f"/proc/{script.pid}/task/{script.pid}/children").read_text().strip()
        return Path(f"/proc/{child}/mounts").read_text() if child else ""
    try:
        wait_for(lambda: f" {tmp_path}/mount " in mounts_of_its_child(), 30, "the mount")
        assert processes_that_name(tmp_path) and str(tmp_path) not in Path("/proc/mounts").read_text()
    finally:
        script.kill()
        script.wait()
    wait_for(lambda: not processes_that_name(tmp_path), 10, "the end of s3fs")
    assert os.listdir(tmp_path / "mount") == []


def processes_that_name(folder):
    def words(process):
        try:
            return (process / "cmdline").read_bytes()
        except OSError:
            return b""  # it has just ended
    return [p.name for p in Path("/proc").glob("[0-9]*") if str(folder).encode() in words(p)]


def test_every_expected_failure_is_one_of_a_step_and_has_a_reason():
    used = set()
    for server in SERVERS:
        for client, steps in FAILURES.get(server, {}).items():
            assert set(steps) == set(SHOWN[server, client]) <= set(EXPECTED[client]), (server, client)
            used |= set(steps.values())
    assert used == set(WHY)
