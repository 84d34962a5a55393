# SPDX-License-Identifier: Apache-2.0
"""A real server for each test session, and the stock clients pointed at it.

The tests start the binary from build/release (or $YARD_BINARY) on a free port with a home of its
own. Nothing is mocked; no request leaves this machine.
"""
import contextlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import time
import urllib.request
from pathlib import Path

import boto3
import botocore.config
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("YARD_BINARY", ROOT / "build/release/bin/trainyard"))
ROLE = "arn:aws:iam::123456789012:role/trainyard"
GROUP = "/aws/sagemaker/TrainingJobs"
TERMINAL = ("Completed", "Failed", "Stopped")


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_configure(config):
    # A run in the background of a script inherits an ignored SIGINT, and so would all it starts.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "slow: runs in ./yard test all only")
    config.addinivalue_line("markers", "at_once: a failure is final, for it may be a rare loss (tools/sum_results.py)")
    config.addinivalue_line("markers", "root: needs root; skipped with its reason elsewhere")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "at_once" in item.keywords:
            item.user_properties.append(("at_once", "yes"))
        if "slow" in item.keywords and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="slow: run ./yard test all"))
        if "root" in item.keywords and "ordinary" not in item.keywords and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root: network namespaces"))


def wait_for(condition, seconds=30.0, what="condition"):
    """Polls until condition() is true, and gives its value; fails the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"{what}: not within {seconds} s")


@contextlib.contextmanager
def withheld(database):
    """Nobody else gets into the database meanwhile: who opens it waits for seconds."""
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


class Server:
    """One running `trainyard server`, its keys and its clients. `config` is the text of its config.yaml."""

    def __init__(self, home, *flags, config=None):
        self.home, self.flags, self.process, self.listen = Path(home), flags, None, "127.0.0.1:0"
        if config is not None:
            (self.home / "config.yaml").write_text(config)

    def start(self):
        """Again after kill() or stop(): on the same port, so that clients go on."""
        self.log = open(self.home / "server.log", "ab")
        self.process = self.launch()
        wait_for(self._has_started, 10, "server start")
        self.endpoint = json.loads((self.home / "server.json").read_text())["endpoint"]
        self.listen = self.endpoint.removeprefix("http://")
        return self

    def launch(self):
        return subprocess.Popen(
            [BINARY, "server", "--home", self.home, "--listen", self.listen, *self.flags],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def _has_started(self):
        if self.process.poll() is not None:
            pytest.fail("the server ended: " + (self.home / "server.log").read_text()[-2000:])
        try:
            return json.loads((self.home / "server.json").read_text())["pid"] == self.process.pid
        except (OSError, ValueError, KeyError):
            return False

    def kill(self):
        self.process.kill()
        self.process.wait(30)
        self.log.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.log.close()
        return code

    def keys(self):
        found = {}
        for line in (self.home / "credentials").read_text().splitlines():
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip()
        return found["aws_access_key_id"], found["aws_secret_access_key"]

    def environment(self):
        """A shell after `eval "$(./yard env)"`, for subprocesses, in which nothing leaves this machine."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SAGEMAKER_"))}
        clean |= {"TRAINYARD_HOME": str(self.home), "PYTHONPATH": str(ROOT / "tests/guard"),
                  "YARD_GUARD_LOG": str(self.home / "guard.log")}
        script = 'exports=$("$0" env) && eval "$exports" && exec env -0'
        done = subprocess.run(["bash", "-c", script, ROOT / "yard"], env=clean, stdout=subprocess.PIPE, check=True)
        found = dict(pair.split("=", 1) for pair in done.stdout.decode().rstrip("\0").split("\0"))
        return found | {"PATH": f"{BINARY.parent}:{found['PATH']}"}

    def left_the_machine(self):
        """What programs in environment() tried to reach that is not this machine."""
        log = self.home / "guard.log"
        return log.read_text() if log.exists() else ""

    def client(self, service, **options):
        key, secret = self.keys()
        settings = {"endpoint_url": self.endpoint, "region_name": "us-east-1",
                    "aws_access_key_id": key, "aws_secret_access_key": secret,
                    "config": botocore.config.Config(retries={"max_attempts": 0})}
        return boto3.client(service, **(settings | options))


class Jobs:
    """Makes buckets, source archives and jobs on one server, and reads back what they did."""

    def __init__(self, server):
        self.server, self.count = server, 0
        self.s3, self.sagemaker, self.logs = (server.client(s) for s in ("s3", "sagemaker", "logs"))
        self.bucket = "test-bucket"
        self.s3.create_bucket(Bucket=self.bucket)

    def new_name(self, stem):
        self.count += 1
        return f"{stem}-{os.getpid()}-{self.count}"

    def put_source(self, name, files):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            for path, text in files.items():
                data = text if isinstance(text, bytes) else text.encode()
                member = tarfile.TarInfo(path)
                member.size, member.mode = len(data), 0o755
                tar.addfile(member, io.BytesIO(data))
        key = f"{name}/source/sourcedir.tar.gz"
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=archive.getvalue())
        return f"s3://{self.bucket}/{key}"

    def request(self, name, script=None, instances=1, torchrun=False, hyperparameters=None, channels=None,
                files=None, program="train.py", **members):
        """A CreateTrainingJob request in script mode; `members` replace or add top-level members."""
        parameters = {k: str(v) for k, v in (hyperparameters or {}).items()}
        if script is not None or files is not None:
            parameters["sagemaker_submit_directory"] = self.put_source(name, files or {program: script})
            parameters["sagemaker_program"] = program
        if torchrun:
            parameters["sagemaker_torch_distributed_enabled"] = "true"
        request = {
            "TrainingJobName": name, "RoleArn": ROLE,
            "AlgorithmSpecification": {"TrainingImage": "trainyard/pytorch", "TrainingInputMode": "File"},
            "HyperParameters": parameters,
            "OutputDataConfig": {"S3OutputPath": f"s3://{self.bucket}/output"},
            "ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": instances, "VolumeSizeInGB": 10},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600}}
        if channels:
            request["InputDataConfig"] = [
                {"ChannelName": channel, "DataSource": {"S3DataSource": {
                    "S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": distribution}}}
                for channel, (uri, distribution) in channels.items()]
        return request | members

    def create(self, stem, script=None, **options):
        name = self.new_name(stem)
        self.sagemaker.create_training_job(**self.request(name, script, **options))
        return name

    def describe(self, name):
        return self.sagemaker.describe_training_job(TrainingJobName=name)

    def attempts(self, name):
        """The member Attempts of DescribeTrainingJob, which SDKs do not know and leave out."""
        body = json.dumps({"TrainingJobName": name}).encode()
        request = AWSRequest("POST", self.server.endpoint, data=body, headers={
            "X-Amz-Target": "SageMaker.DescribeTrainingJob", "Content-Type": "application/x-amz-json-1.1"})
        SigV4Auth(Credentials(*self.server.keys()), "sagemaker", "us-east-1").add_auth(request)
        signed = urllib.request.Request(self.server.endpoint, body, dict(request.headers))
        with urllib.request.urlopen(signed, timeout=10) as answer:
            return json.load(answer)["Attempts"]

    def wait(self, name, seconds=60):
        def ended():
            job = self.describe(name)
            return job if job["TrainingJobStatus"] in TERMINAL else None
        return wait_for(ended, seconds, f"end of {name}")

    def stop_all(self):
        """Ends what a failed test has left running: instances outlive their server."""
        def unfinished():
            return [job["TrainingJobName"] for status in ("InProgress", "Stopping")
                    for job in self.sagemaker.list_training_jobs(StatusEquals=status)["TrainingJobSummaries"]]
        for name in unfinished():
            self.sagemaker.stop_training_job(TrainingJobName=name)
        wait_for(lambda: not unfinished(), 150, "end of all jobs")

    def run(self, stem, script=None, seconds=60, **options):
        return self.wait(self.create(stem, script, **options), seconds)

    def streams(self, name):
        found = self.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")
        return [s["logStreamName"] for s in found["logStreams"]]

    def lines(self, name, host=None):
        """Log lines of a job (of one host, when given), in stream order."""
        lines = []
        for stream in self.streams(name):
            if host is not None and not stream.startswith(f"{name}/{host}-"):
                continue
            token = {}
            while True:
                page = self.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True, **token)
                if not page["events"]:
                    break
                lines += [event["message"] for event in page["events"]]
                token = {"nextToken": page["nextForwardToken"]}
        return lines

    def lines_so_far(self, name, host=None):
        """The same of a job that may not have said anything yet."""
        try:
            return self.lines(name, host)
        except self.logs.exceptions.ResourceNotFoundException:
            return []

    def artifact(self, name, kind="model"):
        """The members of model.tar.gz or output.tar.gz as {path: bytes}."""
        body = self.s3.get_object(Bucket=self.bucket, Key=f"output/{name}/output/{kind}.tar.gz")["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as tar:
            return {m.name.removeprefix("./"): tar.extractfile(m).read() for m in tar if m.isfile()}


@contextlib.contextmanager
def jobs_on(home, config=None):
    """Jobs of a server of one's own, which a test may kill, or stop for good."""
    server = Server(home, config=config).start()
    jobs = Jobs(server)
    yield jobs
    if server.process.poll() is None:
        jobs.stop_all()
        assert server.stop() == 0


@pytest.fixture(scope="session")
def own_server(tmp_path_factory):
    assert BINARY.is_file(), f"{BINARY} is missing: run ./yard build"
    running = Server(tmp_path_factory.mktemp("home")).start()
    yield running
    assert running.stop() == 0
    assert running.left_the_machine() == ""
    if os.environ.get("YARD_KEEP_LOG"):
        shutil.copy(running.home / "server.log", os.environ["YARD_KEEP_LOG"])


@pytest.fixture(scope="session")
def own_jobs(own_server):
    made = Jobs(own_server)
    yield made
    made.stop_all()


@pytest.fixture(scope="session")
def server(request):
    """The server of this user; for tests that run both ways (e2e/conftest.py) that of another, too."""
    return request.getfixturevalue(getattr(request, "param", "own_server"))


@pytest.fixture(scope="session")
def jobs(request):
    return request.getfixturevalue(getattr(request, "param", "own_jobs"))
