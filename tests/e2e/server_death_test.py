# SPDX-License-Identifier: Apache-2.0
"""The server is killed with -9, again and again; jobs neither notice nor run twice."""
import os
import random
import tempfile
import threading
import time

import botocore.config
import botocore.exceptions
import pytest
from conftest import TERMINAL, jobs_on, wait_for
from machines import Machine

pytestmark = [pytest.mark.root, pytest.mark.at_once]

KILLS = 50


@pytest.fixture
def own(tmp_path):
    """Jobs of a server of this test's own, which it may kill."""
    with jobs_on(tmp_path) as jobs:
        yield jobs


class Ledger:
    """A FIFO on this machine to which every user process of the test writes one line when it starts: the
    one thing outside that a container may write to. What stands there has run, whatever anybody recorded."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(dir="/srv")
        self.path = f"{self.folder.name}/started"
        os.mkfifo(self.path)
        self.end, self.text = os.open(self.path, os.O_RDWR | os.O_NONBLOCK), b""
        return self

    def __exit__(self, *_):
        os.close(self.end)
        self.folder.cleanup()

    def lines(self):
        try:
            while piece := os.read(self.end, 1 << 16):
                self.text += piece
        except BlockingIOError:
            pass
        return self.text.decode().split("\n")[:-1]


class Creator(threading.Thread):
    """Creates short jobs, a few at a time, through a server that comes and goes."""

    def __init__(self, jobs, script, at_once=3):
        super().__init__()
        self.jobs, self.script, self.at_once = jobs, script, at_once
        self.acknowledged, self.over = [], threading.Event()
        self.client = jobs.server.client("sagemaker", config=botocore.config.Config(
            retries={"max_attempts": 0}, connect_timeout=2, read_timeout=10))

    def ended(self, name):
        return self.client.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] in TERMINAL

    def run(self):
        running = []
        while not self.over.is_set():
            try:
                running = [name for name in running if not self.ended(name)]
                if len(running) < self.at_once:
                    name = self.jobs.new_name("short")
                    request = self.jobs.request(name, instances=1 + self.jobs.count % 2)
                    request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", self.script]
                    self.client.create_training_job(**request)
                    self.acknowledged.append(name)
                    running.append(name)
            except (botocore.exceptions.EndpointConnectionError, botocore.exceptions.HTTPClientError,
                    botocore.exceptions.ConnectionClosedError):
                pass  # not acknowledged: it may exist or not
            time.sleep(0.02)


def test_fifty_kills_lose_no_job_and_start_none_twice(own):
    with Ledger() as ledger:
        # Each process says who it is, does a little, and leaves a model.
        script = (f'echo "$TRAINING_JOB_NAME $(hostname)" > {ledger.path}; sleep 0.3; '
                  'hostname > /opt/ml/model/$(hostname)')
        creator = Creator(own, script)
        creator.start()
        began, points = time.monotonic(), [(i + 0.5) / KILLS * 0.9 for i in range(KILLS)]
        random.Random(5).shuffle(points)
        try:
            for point in points:
                time.sleep(point)
                own.server.kill()
                own.server.start()
            took = time.monotonic() - began
        finally:
            creator.over.set()
            creator.join()
        assert took < 60
        assert len(creator.acknowledged) >= KILLS / 2, "too few jobs to meet anything"
        names = {job["TrainingJobName"] for page in own.sagemaker.get_paginator("list_training_jobs").paginate()
                 for job in page["TrainingJobSummaries"]}
        assert set(creator.acknowledged) <= names, "an acknowledged job is gone"
        for name in sorted(names):
            job = own.wait(name, 60)
            assert job["TrainingJobStatus"] == "Completed", (name, job.get("FailureReason"))
            hosts = {f"algo-{i + 1}" for i in range(job["ResourceConfig"]["InstanceCount"])}
            assert set(own.artifact(name)) == hosts
        started = ledger.lines()
    expected = sorted(f"{name} algo-{i + 1}" for name in names
                      for i in range(own.describe(name)["ResourceConfig"]["InstanceCount"]))
    assert sorted(started) == expected, "something ran twice, or not at all"


def test_running_job_goes_on_without_a_server_and_its_log_is_whole(own):
    script = 'import time\nfor i in range(60):\n    print("line", i, flush=True); time.sleep(0.05)'
    name = own.create("alone", script, instances=2, torchrun=True)
    wait_for(lambda: own.describe(name)["SecondaryStatus"] == "Training", 20, "training")
    own.server.kill()
    time.sleep(1)
    since = time.monotonic()
    own.server.start()
    assert own.describe(name)["SecondaryStatus"] == "Training" and time.monotonic() - since < 2
    job = own.wait(name)
    assert job["TrainingJobStatus"] == "Completed" and len(own.attempts(name)) == 1
    for host in ("algo-1", "algo-2"):
        assert own.lines(name, host) == [f"line {i}" for i in range(60)]


@pytest.mark.slow
def test_a_server_that_is_away_during_a_download_costs_no_attempt(own):
    for i in range(4):
        own.s3.put_object(Bucket=own.bucket, Key=f"large/{i}", Body=bytes(256 << 20))
    script = 'import os; print(sum(f.stat().st_size for f in os.scandir(os.environ["SM_CHANNEL_LARGE"])))'
    name = own.create("away", script, channels={"large": (f"s3://{own.bucket}/large/", "FullyReplicated")})
    wait_for(lambda: own.describe(name)["SecondaryStatus"] == "Downloading", 20, "downloading")
    own.server.kill()
    time.sleep(45)
    own.server.start()
    assert own.describe(name)["SecondaryStatus"] == "Downloading"
    job = own.wait(name, 90)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert own.lines(name) == [str(4 * (256 << 20))] and len(own.attempts(name)) == 1


# An instance dies while nobody watches: the server finds it dead when it comes back.
def test_instance_lost_while_the_server_is_away_is_repaired(own):
    script = 'import time; print("start", flush=True); time.sleep(4)'
    name = own.create("unseen", script, instances=2, torchrun=True)
    wait_for(lambda: own.describe(name)["SecondaryStatus"] == "Training", 20, "training")
    time.sleep(0.5)
    own.server.kill()
    Machine(own.server, name, "algo-2").kill()
    own.server.start()
    job = own.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert [a.get("Host") for a in own.attempts(name)] == ["algo-2", None]


# The server dies while an attempt is being replaced by another.
@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("delay", [0.0, 0.03, 0.06, 0.1, 0.2])
def test_repair_goes_on_after_the_death_of_the_server(own, delay, instances):
    script = 'import time; print("start", flush=True); time.sleep(1.5)'
    name = own.create("repair", script, instances=instances, torchrun=True)
    wait_for(lambda: own.describe(name)["SecondaryStatus"] == "Training", 20, "training")
    Machine(own.server, name, "algo-1").kill()
    time.sleep(delay)
    own.server.kill()
    own.server.start()
    job = own.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert [a["Epoch"] for a in own.attempts(name)][0] == 1 and len(own.attempts(name)) == 2
