# SPDX-License-Identifier: Apache-2.0
"""./yard quickstart that is told to end, by Ctrl-C in a terminal or by a script: it says so in its exit code, and
leaves behind what it found."""
import json
import os
import re
import signal
import subprocess
from types import SimpleNamespace

import pytest
from conftest import ROOT, wait_for
from machines import Machine, alive, processes_with
from yard_command import environment, yard

PATIENCE = 240

pytestmark = pytest.mark.timeout(700)


class Quickstart:
    """One that runs in a session of its own, as a terminal's foreground job does; `cmake` is the text of the program
    that it builds with, for what there is to build has been built."""

    def __init__(self, folder, cmake="#!/bin/sh\n"):
        self.home, self.output = folder / "home", folder / "output"
        (folder / "bin").mkdir()
        (folder / "bin/cmake").write_text(cmake)
        (folder / "bin/cmake").chmod(0o755)
        corpus = folder / "corpus.txt"
        corpus.write_text((ROOT / "LICENSE").read_text() * 3)
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [ROOT / "yard", "quickstart", "--calm", "--steps", "100000", "--corpus", corpus], stdout=out,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                env=environment(self.home, PATH=f"{folder / 'bin'}:{os.environ['PATH']}"))

    def said(self):
        return self.output.read_text()

    def wait_until_it_says(self, words):
        def has_said():
            assert self.process.poll() is None or re.search(words, self.said()), self.said()
            return re.search(words, self.said())
        return wait_for(has_said, PATIENCE, words)

    def wait(self):
        return self.process.wait(PATIENCE)

    def jobs(self):
        """The status of each job; there must be a server."""
        found = yard("status", "--json", home=self.home)
        assert found.returncode == 0, found
        return {job["TrainingJobName"]: job["TrainingJobStatus"]
                for job in json.loads(found.stdout)["TrainingJobSummaries"]}


@pytest.fixture
def begin(tmp_path):
    begun = []

    def begin(**options):
        begun.append(Quickstart(tmp_path, **options))
        return begun[0]

    yield begin
    for run in begun:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
        yard("down", "--jobs", home=run.home)


def test_a_build_is_interrupted_with_all_that_it_has_started(begin, tmp_path):
    pids = tmp_path / "pids"
    assert yard("up", home=tmp_path / "home").returncode == 0
    run = begin(cmake=f"#!/bin/sh\nsleep 1000 &\necho $$ $! >'{pids}.new' && mv '{pids}.new' '{pids}'\nwait\n")
    building = [int(pid) for pid in wait_for(lambda: pids.exists() and pids.read_text(), PATIENCE, "the build").split()]
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 130, run.said()
    wait_for(lambda: not alive(building), PATIENCE, "end of the build")
    assert yard("status", home=run.home).returncode == 0, "the server was there before"


def ctrl_c(process):
    os.killpg(process.pid, signal.SIGINT)


def time_out(process):
    """As timeout(1) does it: the process, then its group."""
    process.send_signal(signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.root
@pytest.mark.parametrize("when, tell, code", [
    pytest.param(r"(?s)  environment: .*  tokenizer: .*  first step: .*    step +1 of 100000  loss ", ctrl_c, 130,
                 marks=pytest.mark.slow),
    ("created quickstart-", time_out, 143)], ids=["ctrl-c", "timeout"])
def test_one_signal_stops_the_job_and_the_server_that_came_with_it(begin, when, tell, code):
    run = begin()
    run.wait_until_it_says(when)
    tell(run.process)
    assert run.wait() == code, run.said()
    assert "Traceback" not in run.said() and "The server is down" in run.said(), run.said()
    assert not processes_with(str(run.home)) and not any((run.home / "run").iterdir()), run.said()
    assert yard("up", home=run.home).returncode == 0
    assert list(run.jobs().values()) == ["Stopped"]


@pytest.mark.root
def test_who_tells_it_twice_does_not_wait_for_the_job_and_is_told_how_to_end_it(begin):
    run = begin()
    name = run.wait_until_it_says(r"(?s)created (quickstart-\S+).*  tokenizer: ")[1]
    machine = Machine(SimpleNamespace(home=run.home), name)
    frozen = [pid for pid in machine.pids() if pid != machine.supervisor()]  # so it does not hear that it shall end
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        run.process.send_signal(signal.SIGTERM)
        run.wait_until_it_says("Stopping quickstart-")
        wait_for(lambda: run.jobs() == {name: "Stopping"}, PATIENCE, "the request to stop")
        wait_for(lambda: run.process.send_signal(signal.SIGTERM) or run.process.poll() is not None, PATIENCE, "the end")
        assert run.wait() == 143, run.said()
    finally:
        machine.wake(frozen)
    assert f"{name} is about to stop" in run.said() and "./yard down --jobs" in run.said(), run.said()
    assert list(run.jobs()) == [name]
