# SPDX-License-Identifier: Apache-2.0
"""trainyard backup, restore and check, with the program as users run it, beside a server that works."""
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest
from conftest import BINARY, ROLE, Server, jobs_on, wait_for


@pytest.fixture
def server(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "env").mkdir()
    running = Server(home, config=f"capacity: {{instances: 1, gpus: []}}\nenvironments: {{torch: {tmp_path}/env}}\n")
    running.start()
    running.client("s3").create_bucket(Bucket="bucket")
    yield running
    if running.process.poll() is None:
        assert running.stop() == 0


def trainyard(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def stopped_job(server, name):
    """A job that has ended before anything of it ran."""
    sagemaker = server.client("sagemaker")
    arn = sagemaker.create_training_job(
        TrainingJobName=name, RoleArn=ROLE,
        AlgorithmSpecification={"TrainingImage": "trainyard/pytorch", "TrainingInputMode": "File",
                                "ContainerEntrypoint": ["/bin/true"]},
        OutputDataConfig={"S3OutputPath": "s3://bucket/output"},
        ResourceConfig={"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 60})["TrainingJobArn"]
    sagemaker.stop_training_job(TrainingJobName=name)
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "k", "Value": name}])
    return arn


class Writer(threading.Thread):
    """Puts and replaces objects until it is told to stop."""

    def __init__(self, server):
        super().__init__()
        self.s3, self.over, self.known = server.client("s3"), threading.Event(), {}

    def run(self):
        count = 0
        while not self.over.is_set():
            key, body = f"busy-{count % 5}" if count % 2 else f"new-{count}", random.Random(count).randbytes(3000)
            self.s3.put_object(Bucket="bucket", Key=key, Body=body)
            self.known[key] = hashlib.md5(body).hexdigest()
            count += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


@pytest.mark.at_once
@pytest.mark.parametrize("backup", ["b1", "b.tar.gz"])
def test_a_backup_under_writes_has_all_that_was_acknowledged_before(server, tmp_path, backup):
    arns = {name: stopped_job(server, name) for name in ("one", "two")}
    with Writer(server) as writer:
        for round in range(2):
            time.sleep(0.2)
            before = {key: value for key, value in writer.known.items() if key.startswith("new-")}
            code, out, err = trainyard("backup", tmp_path / f"b{round}", "--home", server.home, "--json")
            assert code == 0, err
            assert json.loads(out)["objects"] >= len(before)
        code, out, err = trainyard("backup", tmp_path / "b.tar.gz", "--home", server.home)
        assert code == 0 and not (server.home / "backup.in-progress").exists(), err
    assert server.stop() == 0
    code, out, err = trainyard("restore", tmp_path / backup, "--home", tmp_path / "again")
    assert code == 0, err
    assert trainyard("check", tmp_path / "again")[0] == 0
    again = Server(tmp_path / "again").start()
    try:
        s3, sagemaker = again.client("s3"), again.client("sagemaker")  # with the keys of the backup
        for key, value in before.items():
            assert hashlib.md5(s3.get_object(Bucket="bucket", Key=key)["Body"].read()).hexdigest() == value
        for name, arn in arns.items():
            assert sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] == "Stopped"
            assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": name}]
    finally:
        assert again.stop() == 0


@pytest.mark.root
def test_a_job_that_ran_begins_another_attempt_after_a_restore(tmp_path):
    (tmp_path / "home").mkdir()
    with jobs_on(tmp_path / "home") as jobs:
        name = jobs.new_name("restored")
        request = jobs.request(name)
        request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", "sleep 600"]
        jobs.sagemaker.create_training_job(**request)
        wait_for(lambda: jobs.describe(name)["SecondaryStatus"] == "Training", 30, "training")
        code, _, err = trainyard("backup", tmp_path / "b", "--home", jobs.server.home)
        assert code == 0, err
    code, _, err = trainyard("restore", tmp_path / "b", "--home", tmp_path / "again")
    assert code == 0, err
    again = Server(tmp_path / "again")
    again.listen, jobs.server = jobs.server.listen, again  # so that the clients go on
    again.start()
    try:
        wait_for(lambda: len(jobs.attempts(name)) == 2 and jobs.describe(name)["SecondaryStatus"] == "Training",
                 30, "training in the second attempt")
    finally:
        jobs.stop_all()
        assert again.stop() == 0
    assert not (tmp_path / "again/run" / name).exists()


def test_a_killed_backup_leaves_nothing_that_looks_whole(server, tmp_path):
    s3 = server.client("s3")
    for i in range(100):
        s3.put_object(Bucket="bucket", Key=str(i), Body=b"x" * i)
    target, whole = tmp_path / "backup", 0
    for i in range(12):
        running = subprocess.Popen([BINARY, "backup", target, "--home", server.home],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.005 * i)
        running.kill()
        running.wait()
        if target.exists():  # it was faster
            assert trainyard("restore", target, "--home", tmp_path / f"home{i}")[0] == 0
            shutil.rmtree(target)
            whole += 1
        else:
            code, _, err = trainyard("restore", tmp_path / "backup.partial", "--home", tmp_path / "half")
            assert code == 1 and ("no whole backup" in err) and not (tmp_path / "half").exists()
    assert whole < 12, "no kill met a backup at work"
    assert trainyard("backup", target, "--home", server.home)[0] == 0
    assert not (tmp_path / "backup.partial").exists()


@pytest.mark.root
def test_a_full_disk_is_an_error_and_leaves_nothing(server, tmp_path):
    s3 = server.client("s3")
    for i in range(8):
        s3.put_object(Bucket="bucket", Key=str(i), Body=os.urandom(1 << 20))
    (tmp_path / "small").mkdir()
    script = 'mount -t tmpfs -o size=4m none "$1" && ! "$2" backup "$1/backup" --home "$3" && [ -z "$(ls -A "$1")" ]'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", tmp_path / "small", BINARY, server.home],
                          stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0 and b"No space left on device" in done.stderr, done.stderr
    s3.put_object(Bucket="bucket", Key="after", Body=b"the server goes on")


def remove(backup):
    shutil.rmtree(backup) if backup.is_dir() else backup.unlink()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["backup", "backup.tar.gz"])
def test_a_signal_ends_a_backup_that_leaves_nothing(server, tmp_path, name, number):
    for i in range(4):  # packing them takes about a second
        server.client("s3").put_object(Bucket="bucket", Key=str(i), Body=os.urandom(8 << 20))
    began = time.monotonic()
    assert trainyard("backup", tmp_path / name, "--home", server.home)[0] == 0
    took = time.monotonic() - began
    remove(tmp_path / name)
    before, met = set(os.listdir(server.home)), 0
    for i in range(60):  # at every twentieth of the time that a whole one takes
        if met == 3:
            break
        running = subprocess.Popen([BINARY, "backup", tmp_path / name, "--home", server.home],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(took * (i % 20 + 1) / 20)
        running.send_signal(number)
        err = running.communicate(timeout=60)[1].decode()
        if running.returncode == 0:  # it was faster
            remove(tmp_path / name)
        elif running.returncode == 1:
            assert "stopped by a signal" in err
            met += 1
        else:  # before it had begun
            assert running.returncode == -number
        assert not [entry for entry in os.listdir(tmp_path) if entry.startswith("backup")]
        assert set(os.listdir(server.home)) - before <= {"backup.lock"}
    assert met, "no signal met a backup at work"
    assert trainyard("backup", tmp_path / name, "--home", server.home)[0] == 0


def test_a_home_may_be_a_link(server, tmp_path):
    server.client("s3").put_object(Bucket="bucket", Key="k", Body=b"content")
    (tmp_path / "disk").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "disk")
    assert trainyard("backup", tmp_path / "b", "--home", server.home)[0] == 0
    code, _, err = trainyard("restore", tmp_path / "b", "--home", tmp_path / "linked")
    assert code == 0, err
    assert (tmp_path / "linked").is_symlink() and (tmp_path / "disk" / "trainyard.db").exists()
    code, out, _ = trainyard("check", tmp_path / "linked")
    assert code == 0 and "all is well" in out
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    code, _, err = trainyard("restore", tmp_path / "b", "--home", tmp_path / "nowhere")
    assert code == 1 and "leads nowhere" in err and (tmp_path / "nowhere").is_symlink()


@pytest.mark.parametrize("root", ["objects", "."])
def test_a_store_alone_is_backed_up_too(tmp_path, root):
    home, files = tmp_path / "home", tmp_path / "files"
    home.mkdir()
    files.mkdir()
    (files / "a").write_text("content")
    store = ["--root", home / root]
    assert trainyard("store", "import", files, "s3://bucket", *store)[0] == 0
    (home / root / "credentials").write_text("[default]\n")
    assert trainyard("backup", tmp_path / "b.tar.gz", "--home", home)[0] == 0
    code, _, err = trainyard("restore", tmp_path / "b.tar.gz", "--home", tmp_path / "again")
    assert code == 0, err
    code, out, _ = trainyard("check", tmp_path / "again", "--json")
    assert code == 0 and json.loads(out)["objects"] == 1
    assert (tmp_path / "again" / root / "credentials").read_text() == "[default]\n"


def test_the_verbs_explain_and_refuse(server, tmp_path):
    for verb in ("backup", "restore", "check"):
        code, out, _ = trainyard(verb, "--help")
        assert code == 0 and verb in out
    assert trainyard("backup")[0] == 2
    code, _, err = trainyard("backup", tmp_path / "b", "--home", tmp_path / "nowhere")
    assert code == 1 and "is not the home of a server" in err
    assert trainyard("backup", tmp_path / "b", "--home", server.home)[0] == 0
    code, _, err = trainyard("restore", tmp_path / "b", "--home", server.home)
    assert code == 1 and "is not empty" in err
    assert trainyard("check", server.home, "--json")[0] == 0


def test_a_check_finds_a_lost_content(server):
    server.client("s3").put_object(Bucket="bucket", Key="k", Body=b"content")
    contents = [path for path in (server.home / "objects/data").rglob("*") if path.is_file()]
    for content in contents:  # the object's, and any that is kept ready for the next one
        content.unlink()
    code, out, _ = trainyard("check", server.home)
    assert code == 1 and sum(str(content) in out for content in contents) == 1
