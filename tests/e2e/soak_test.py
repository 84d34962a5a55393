# SPDX-License-Identifier: Apache-2.0
"""A day at the front, in short: fifty clients of one server, jobs that start and die under them, and
the server killed with -9 all the while. At the end everything that was acknowledged is there, and
nothing of it is left on the machine. YARD_SEED=n repeats what clients and chaos chose."""
import hashlib
import os
import random
import resource
import threading
import time
from pathlib import Path

import botocore.config
import botocore.exceptions
import pytest
from conftest import TERMINAL, jobs_on, wait_for
from machines import Machine, leftovers, processes_with

pytestmark = [pytest.mark.root, pytest.mark.at_once]

CLIENTS, JOBS_AT_ONCE = 50, 4
MIB = 1 << 20
# What an answer that did not come, or came from a server that was about to die, looks like to a client.
UNCERTAIN = (botocore.exceptions.EndpointConnectionError, botocore.exceptions.HTTPClientError,
             botocore.exceptions.ConnectionClosedError, botocore.exceptions.IncompleteReadError)
SCRIPT = 'echo "$TRAINING_JOB_NAME" > /opt/ml/model/$(hostname); echo said by $(hostname); sleep %s; exit %d'


class Shop:
    """What all clients share: the server, the jobs that run, and what went wrong."""

    def __init__(self, jobs, seed):
        self.jobs, self.seed, self.over = jobs, seed, threading.Event()
        self.places = threading.Semaphore(JOBS_AT_ONCE)
        self.running, self.hurt, self.wrong = set(), set(), []

    def client(self, service):
        return self.jobs.server.client(service, config=botocore.config.Config(
            retries={"max_attempts": 0}, connect_timeout=2, read_timeout=15, max_pool_connections=1))


class Client(threading.Thread):
    """One user. Of each of its keys it knows which contents may be there: one, or two after an answer that
    never came. None stands for no object."""

    def __init__(self, shop, number):
        super().__init__(name=f"client-{number}")
        self.shop, self.number, self.choice = shop, number, random.Random(f"{shop.seed}/{number}")
        self.s3, self.sagemaker = shop.client("s3"), shop.client("sagemaker")
        self.bucket, self.objects, self.created, self.done = shop.jobs.bucket, {}, {}, 0

    def run(self):
        actions = [self.put] * 5 + [self.put_in_parts, self.remove] + [self.get] * 4 + [self.train] * 2
        while not self.shop.over.is_set():
            try:
                self.choice.choice(actions)()
                self.done += 1
            except UNCERTAIN:
                pass
            except Exception as error:  # noqa: BLE001: whatever it was, the test must hear of it
                self.shop.wrong.append(f"{self.name}: {type(error).__name__}: {error}")
                return
            self.shop.over.wait(self.choice.uniform(0.1, 1.2))

    def change(self, key, digest, call):
        """Makes a change whose outcome is unknown until `call` has returned."""
        before = self.objects.get(key, {None})
        self.objects[key] = before | {digest}
        call()
        self.objects[key] = {digest}

    def some_key(self):
        return f"soak/{self.number}/{self.choice.randrange(6)} +é"

    def put(self):
        key, body = self.some_key(), self.choice.randbytes(self.choice.choice([0, 100, 10_000, 300_000]))
        self.change(key, hashlib.sha256(body).hexdigest(),
                    lambda: self.s3.put_object(Bucket=self.bucket, Key=key, Body=body))

    def put_in_parts(self):
        key, parts = self.some_key(), [self.choice.randbytes(5 * MIB), self.choice.randbytes(1000)]
        named = {"Bucket": self.bucket, "Key": key}
        upload = named | {"UploadId": self.s3.create_multipart_upload(**named)["UploadId"]}
        tags = [{"PartNumber": i, "ETag": self.s3.upload_part(**upload, PartNumber=i, Body=part)["ETag"]}
                for i, part in enumerate(parts, 1)]
        self.change(key, hashlib.sha256(b"".join(parts)).hexdigest(),
                    lambda: self.s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": tags}))

    def remove(self):
        key = self.some_key()
        self.change(key, None, lambda: self.s3.delete_object(Bucket=self.bucket, Key=key))

    def get(self):
        self.check(self.some_key())

    def check(self, key):
        expected = self.objects.get(key, {None})
        try:
            found = hashlib.sha256(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()).hexdigest()
        except self.s3.exceptions.NoSuchKey:
            found = None
        assert found in expected, f"{key} holds {found}, not one of {expected}"
        self.objects[key] = {found}

    def train(self):
        """A job from its create to its end, unless no place is free; some fail, some are stopped."""
        if not self.shop.places.acquire(blocking=False):
            return
        name = f"soak-{self.number}-{len(self.created)}"
        try:
            code = self.choice.choice([0, 0, 0, 3])
            request = self.shop.jobs.request(name, instances=self.choice.choice([1, 1, 2]))
            script = SCRIPT % (self.choice.choice([0, 0.5, 2]), code)
            request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", script]
            self.created[name] = None  # it may exist from now on
            self.sagemaker.create_training_job(**request)
            self.created[name] = {0: "Completed", 3: "Failed"}[code]
            self.shop.running.add(name)
            if self.choice.random() < 0.15:
                self.shop.over.wait(self.choice.uniform(0, 1.5))
                self.created[name] = "any"
                self.stop(name)
        finally:
            if self.created.get(name) is None:
                self.shop.places.release()  # nobody will wait for it
            else:
                threading.Thread(target=self.await_end, args=(name,)).start()

    def stop(self, name):
        try:
            self.sagemaker.stop_training_job(TrainingJobName=name)
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "ValidationException" and "already" in str(error), error

    def await_end(self, name):
        client = self.shop.client("sagemaker")
        while True:
            try:
                if client.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] in TERMINAL:
                    break
            except UNCERTAIN:
                pass
            except Exception as error:  # noqa: BLE001
                self.shop.wrong.append(f"{name}: {error}")
                break
            time.sleep(0.3)
        self.shop.running.discard(name)
        self.shop.places.release()


def make_trouble(shop, seconds):
    """Kills the server every 30 s (twice in a short run) and an instance every few seconds."""
    choice, server = random.Random(f"{shop.seed}/trouble"), shop.jobs.server
    every = min(30.0, seconds / 3)
    end, next_death, deaths = time.monotonic() + seconds, time.monotonic() + every, 0
    while time.monotonic() < end and not shop.wrong:
        shop.over.wait(choice.uniform(1, 5))
        if time.monotonic() >= next_death:
            next_death += every
            server.kill()
            server.start()
            deaths += 1
        name = next(iter(sorted(shop.running)), None)
        gang = name and next((server.home / "run" / name).glob("*/gang.json"), None)
        if gang and choice.random() < 0.5:
            shop.hurt.add(name)
            try:
                Machine(server, name).kill()
            except (OSError, ValueError):
                pass  # it had just ended
    return deaths


def memory_of(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def judge_job(jobs, name, expected, was_hurt):
    job = jobs.wait(name, 120)
    status = job["TrainingJobStatus"]
    if expected != "any" and not (was_hurt and status == "Failed"):
        assert status == expected, (name, job.get("FailureReason"))
    if status == "Failed":
        assert job["FailureReason"], name
    if status == "Completed":
        hosts = {f"algo-{i + 1}" for i in range(job["ResourceConfig"]["InstanceCount"])}
        assert jobs.artifact(name) == {host: f"{name}\n".encode() for host in hosts}
        assert {f"said by {host}" for host in hosts} <= set(jobs.lines(name))


@pytest.fixture
def own(tmp_path):
    """Jobs of a server of this test's own, which it may kill."""
    with jobs_on(tmp_path) as jobs:
        yield jobs


@pytest.fixture
def empty_machine():
    return leftovers()


@pytest.mark.timeout(1200)
def test_what_was_acknowledged_is_there_and_nothing_is_left(empty_machine, own, pytestconfig):
    seconds = 600 if pytestconfig.getoption("--slow") else 60
    seed = os.environ.get("YARD_SEED", str(random.randrange(1 << 32)))
    print(f"YARD_SEED={seed}")
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server, shop = own.server, Shop(own, seed)
    clients = [Client(shop, number) for number in range(CLIENTS)]
    try:
        for client in clients:
            client.start()
        deaths = make_trouble(shop, seconds)
    finally:
        shop.over.set()
        for client in clients:
            client.join()
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    assert not shop.wrong, shop.wrong
    wait_for(lambda: not shop.running, 120, "end of all jobs")

    for client in clients:
        for key in list(client.objects):
            client.check(key)
    there = {job["TrainingJobName"] for page in shop.jobs.sagemaker.get_paginator("list_training_jobs").paginate()
             for job in page["TrainingJobSummaries"]}
    judged = 0
    for client in clients:
        for name, expected in client.created.items():
            assert expected is None or name in there, f"the acknowledged job {name} is gone"
            if name in there:
                judge_job(shop.jobs, name, expected or "any", name in shop.hurt)
                judged += 1
    memory = memory_of(server.process.pid)
    print(f"{sum(c.done for c in clients)} actions, {judged} jobs, {len(shop.hurt)} hurt, {deaths} deaths, {memory:.0f} MiB")
    assert deaths >= 2 and judged >= seconds / 6 and memory < 150

    assert server.stop() == 0
    settled = time.monotonic() + 20
    while leftovers() != empty_machine and time.monotonic() < settled:
        time.sleep(0.2)
    assert leftovers() == empty_machine
    assert not processes_with(str(server.home)) and not list((server.home / "run").glob("*"))
