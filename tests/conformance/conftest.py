# SPDX-License-Identifier: Apache-2.0
"""Sessions with the stock SageMaker SDKs, each a process of its own on a server of their own.

They spend their time in the SDKs' polls of 5 and 10 s, so all that are wanted run side by side.
"""
import json
import subprocess

import pytest
from conftest import ROOT, Server, wait_for
from wheels import wheel

HERE = ROOT / "tests/conformance"
STEPS = "4"


class Sessions:
    """Programs of SDK users by name: what they printed, and the folder that they ran in."""

    def __init__(self, server, folder):
        self.server, self.folder, self.running = server, folder, {}
        text = "\n".join(p.read_text() for p in sorted(ROOT.glob("docs/**/*.md")))
        (folder / "corpus.txt").write_text(text)
        name, content = wheel("greeting", "1.0", {"greeting.py": "TEXT = 'good morning'\n"})
        (folder / name).write_bytes(content)
        self.wheel = folder / name

    def start(self, name, environment, *command):
        done = subprocess.run([ROOT / "tools/python_env", environment], stdout=subprocess.PIPE, text=True, check=True)
        place = self.folder / name
        place.mkdir()
        with (place / "printed").open("wb") as out:
            self.running[name] = subprocess.Popen(
                [f"{done.stdout.strip()}/bin/python", *command], cwd=place, env=self.server.environment(),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    def start_all(self, version):
        """The example of an SDK, and a user's session that reads back what the example did."""
        self.start(f"example{version}", f"sdk{version}", ROOT / f"examples/llm/submit_sdk{version}.py",
                   "--text", self.folder / "corpus.txt", "--steps", STEPS)
        self.start(f"user{version}", f"sdk{version}", HERE / f"sdk/user{version}.py", f"llm-sdk{version}",
                   {2: self.folder / "corpus.txt", 3: self.wheel}[version])

    def printed(self, name):
        """All that a program has printed; fails the test when it failed."""
        code = self.running[name].wait(240)
        text = (self.folder / name / "printed").read_text()
        assert code == 0, text[-6000:]
        return text

    def found(self, name):
        return json.loads(self.printed(name).splitlines()[-1])

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()
        sagemaker = self.server.client("sagemaker")
        for job in sagemaker.list_training_jobs(StatusEquals="InProgress")["TrainingJobSummaries"]:
            sagemaker.stop_training_job(TrainingJobName=job["TrainingJobName"])
        wait_for(lambda: not any(
            sagemaker.list_training_jobs(StatusEquals=status)["TrainingJobSummaries"]
            for status in ("InProgress", "Stopping")), 30, "end of all jobs")


@pytest.fixture(scope="session")
def sdk(request, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("sdk-home"), config="capacity: {instances: 20, gpus: []}\n").start()
    sessions = Sessions(server, tmp_path_factory.mktemp("sdk"))
    for version in (2, 3):
        if any(f"sdk{version}_test" in item.nodeid for item in request.session.items):
            sessions.start_all(version)
    yield sessions
    sessions.end()
    assert server.stop() == 0
