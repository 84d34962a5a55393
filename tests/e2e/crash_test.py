# SPDX-License-Identifier: Apache-2.0
"""Nothing that anyone was told is lost: not when the server is killed, not when the power goes.

crash_world.py does it, on a machine of its own made of namespaces. YARD_SEED=N draws the same moments and the same
losses; what the clients do between them depends on this machine's time as well, so a finding comes with the
command that makes exactly its state again, and asks a server about it:

    crash_test.py FOLDER --at BYTES [--seed N]
"""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.at_once]
WORLD = Path(__file__).resolve().parent / "crash_world.py"


def world(folder, mode, *arguments, seconds=600):
    """The outcome, of namespaces whose end is the end of all that was started in them."""
    command = ["unshare", "--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child",
               sys.executable, str(WORLD), mode, str(folder), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()[-3000:]}"
    return json.loads(done.stdout.decode().splitlines()[-1])


def run_world(folder, mode, *arguments, seconds):
    seed = os.environ.get("YARD_SEED") or str(int.from_bytes(os.urandom(2), "big"))
    outcome = world(folder, mode, "--seed", seed, *arguments, seconds=seconds)
    problems = "\n".join(outcome["problems"])
    assert not problems, f"YARD_SEED={seed}:\n{problems}"
    if mode == "power":
        (folder / "journal").unlink()  # a hundred megabytes that nobody will ask for
    return outcome


def test_no_loss_of_power_loses_what_was_told(tmp_path):
    outcome = run_world(tmp_path, "power", "--states", "6", seconds=120)
    assert outcome["told"] > 100 and outcome["checked"] > 300, outcome
    assert outcome["without SYNC"] > 0 and outcome["without SYNC_DIR"] > 0, "this test does not see a missing sync"
    assert outcome["taken_back"] or not outcome["between"]["row"], outcome


def test_no_kill_loses_what_was_told(tmp_path):
    outcome = run_world(tmp_path, "kill", "--kills", "8", seconds=120)
    assert outcome["told"] > 100 and outcome["checked"] > 80, outcome


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("run", range(5))
def test_no_loss_of_power_loses_what_was_told_in_many_states(tmp_path, run):
    outcome = run_world(tmp_path, "power", "--states", "46", "--seconds", "12", seconds=900)
    assert outcome["taken_back"] and all(outcome["between"].values()), outcome


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_kills_lose_nothing_that_was_told(tmp_path):
    run_world(tmp_path, "kill", "--kills", "50", seconds=300)


if __name__ == "__main__":
    print("\n".join(world(*sys.argv[1:2], "check", *sys.argv[2:])["problems"]) or "all is well")
