# SPDX-License-Identifier: Apache-2.0
"""The checkpoint directory of whole jobs: restored before the program, mirrored while it runs."""
import json
import re
import signal
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from conftest import Jobs, Server, wait_for
from machines import Machine

pytestmark = [pytest.mark.root, pytest.mark.both_ways_slow]


def keys(jobs, prefix):
    found = {}
    for page in jobs.s3.get_paginator("list_objects_v2").paginate(Bucket=jobs.bucket, Prefix=prefix):
        for item in page.get("Contents", []):
            body = jobs.s3.get_object(Bucket=jobs.bucket, Key=item["Key"])["Body"].read()
            found[item["Key"].removeprefix(prefix)] = body.decode()
    return found


def config(jobs, prefix, path=None):
    place = {"S3Uri": f"s3://{jobs.bucket}/{prefix}"}
    return {"CheckpointConfig": place | ({"LocalPath": path} if path else {})}


# Counts steps, one checkpoint a step, from where the directory says.
STEPS = '''
import os, signal, sys, time
directory, rank, last = "/opt/ml/checkpoints", os.environ["RANK"], int(sys.argv[2])
mine = sorted(f for f in os.listdir(directory) if f.startswith(f"rank-{rank}-") and not f.endswith(".tmp"))
step = int(mine[-1].rsplit("-", 1)[1]) if mine else 0
print("begins at step", step, "with", len(os.listdir(directory)), "files", flush=True)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))  # not amid a checkpoint
while step < last and not told:
    step += 1
    path = f"{directory}/rank-{rank}-{step:04d}"
    with open(path + ".tmp", "w") as out:
        out.write(f"step {step} of rank {rank}")
    os.rename(path + ".tmp", path)
    time.sleep(0.05)
'''


@pytest.mark.both_ways
def test_two_instances_share_a_prefix_and_the_next_job_resumes_where_they_stopped(jobs):
    name = jobs.create("first", STEPS, instances=2, torchrun=True, hyperparameters={"last": 100000},
                       **config(jobs, "shared/ckpt"))
    wait_for(lambda: len(keys(jobs, "shared/ckpt/")) >= 10, 30, "ten checkpoints in S3")
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Stopped", job
    left = keys(jobs, "shared/ckpt/")
    assert not any(key.endswith(".tmp") for key in left)
    last = {rank: max(int(k.rsplit("-", 1)[1]) for k in left if k.startswith(f"rank-{rank}-")) for rank in "01"}
    for rank in "01":  # nothing is missing in between
        assert [f"rank-{rank}-{step:04d}" in left for step in range(1, last[rank] + 1)] == [True] * last[rank]

    goal = max(last.values()) + 3
    job = jobs.run("second", STEPS, instances=2, torchrun=True, hyperparameters={"last": goal},
                   **config(jobs, "shared/ckpt/"))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    for rank, host in (("0", "algo-1"), ("1", "algo-2")):
        lines = jobs.lines(job["TrainingJobName"], host)
        assert any(f"begins at step {last[rank]} with {len(left)} files" in line for line in lines), lines
    assert len(keys(jobs, "shared/ckpt/")) == 2 * goal


def begins(jobs, name, host):
    """At which step each attempt on this host began."""
    return [int(found[1]) for line in jobs.lines(name, host) if (found := re.search(r"begins at step (\d+)", line))]


@pytest.mark.parametrize("loss", ["killed", "frozen"])
def test_the_next_attempt_resumes_on_every_host_and_the_lost_one_writes_nothing_more(jobs, loss):
    prefix = f"repair-{loss}"
    name = jobs.create(prefix, STEPS, instances=2, torchrun=True, hyperparameters={"last": 100000},
                       RetryStrategy={"MaximumRetryAttempts": 1}, **config(jobs, prefix))
    wait_for(lambda: len(keys(jobs, f"{prefix}/")) >= 10, 30, "ten checkpoints in S3")
    lost = Machine(jobs.server, name, "algo-2")
    told = lost.kill() if loss == "killed" else lost.stop()
    try:
        hosts = ("algo-1", "algo-2")
        wait_for(lambda: all(len(begins(jobs, name, host)) == 2 for host in hosts), 40, "the second attempt")
    finally:
        lost.wake(told)
    firsts = [begins(jobs, name, host)[1] for host in hosts]
    assert all(step >= 4 for step in firsts), firsts
    # Each host counts on where its rank stood: what is there is without gaps, and nobody wrote it twice.
    wait_for(lambda: len(keys(jobs, f"{prefix}/")) >= 2 * max(firsts) + 6, 30, "checkpoints of the second attempt")
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    assert jobs.wait(name)["TrainingJobStatus"] == "Stopped"
    left = keys(jobs, f"{prefix}/")
    for rank in "01":
        steps = sorted(int(key.rsplit("-", 1)[1]) for key in left if key.startswith(f"rank-{rank}-"))
        assert steps == list(range(1, len(steps) + 1))
        assert all(left[f"rank-{rank}-{step:04d}"] == f"step {step} of rank {rank}" for step in steps)


SHOW = '''
import json, os
directory = json.load(open("/opt/ml/input/config/checkpointconfig.json"))["LocalPath"]
seen = {}
for folder, _, files in os.walk(directory):
    for name in files:
        path = os.path.join(folder, name)
        seen[os.path.relpath(path, directory)] = open(path).read()
print("SEEN", directory, json.dumps(seen), flush=True)
open(os.path.join(directory, "written"), "w").write("by the job")
'''


def seen(jobs, job):
    line = next(line for line in jobs.lines(job["TrainingJobName"]) if line.startswith("SEEN"))
    _, directory, files = line.split(" ", 2)
    return directory, json.loads(files)


@pytest.mark.parametrize("uri", ["restore/train", "restore/train/"])
def test_restore_takes_the_directory_and_not_its_neighbours(jobs, uri):
    for key in ("train/a", "train/deep/b", "train2/a", "train-c"):
        jobs.s3.put_object(Bucket=jobs.bucket, Key=f"restore/{key}", Body=key.encode())
    job = jobs.run("boundary", SHOW, **config(jobs, uri))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    directory, files = seen(jobs, job)
    assert directory == "/opt/ml/checkpoints/"
    files.pop("written", None)  # of the run before
    assert files == {"a": "train/a", "deep/b": "train/deep/b"}
    assert keys(jobs, "restore/train/")["written"] == "by the job"


@pytest.fixture
def place_on_the_machine():
    """A directory of the machine is mounted over."""
    Path("/yard-test-checkpoints/here").mkdir(parents=True)
    yield "/yard-test-checkpoints/here"
    Path("/yard-test-checkpoints/here").rmdir()
    Path("/yard-test-checkpoints").rmdir()


@pytest.mark.parametrize("path", ["/opt/ml/mine", "/tmp/ckpt", "/yard-test-checkpoints/here"])
def test_local_path_may_be_elsewhere(jobs, path, request):
    if path.startswith("/yard-test"):
        request.getfixturevalue("place_on_the_machine")
    prefix = f"elsewhere{path}"
    jobs.s3.put_object(Bucket=jobs.bucket, Key=f"{prefix}/a", Body=b"1")
    job = jobs.run("elsewhere", SHOW, **config(jobs, prefix, path))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert seen(jobs, job) == (path, {"a": "1"})
    assert keys(jobs, f"{prefix}/") == {"a": "1", "written": "by the job"}


def test_local_path_that_would_have_to_be_made_on_the_machine_is_refused(jobs):
    job = jobs.run("nowhere", SHOW, **config(jobs, "nowhere", "/yard-test-nowhere/deep/ck"))
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError"), job["FailureReason"]
    assert "/yard-test-nowhere/deep/ck" in job["FailureReason"]
    assert "below /opt/ml" in job["FailureReason"]
    assert not Path("/yard-test-nowhere").exists()


def test_hostile_keys_are_named_and_the_job_goes_on(jobs):
    for key in ("../../escaped", "good", "x", "x/y"):
        jobs.s3.put_object(Bucket=jobs.bucket, Key=f"hostile/{key}", Body=b"1")
    job = jobs.run("hostile", SHOW, **config(jobs, "hostile"))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert seen(jobs, job)[1] == {"good": "1", "x/y": "1"}
    lines = jobs.lines(job["TrainingJobName"])
    assert any("'hostile/../../escaped'" in line for line in lines), lines
    assert any("'hostile/x'" in line for line in lines), lines


# For S3 a key is a name: ".." in it leads nowhere, and least of all out of a directory.
def test_dots_in_uris_are_part_of_the_key(jobs):
    name = jobs.new_name("dots")
    script = SHOW + 'open("/opt/ml/model/w", "w").write("1")'
    request = jobs.request(name, script, **config(jobs, "../up/./ckpt"))
    request["OutputDataConfig"]["S3OutputPath"] = f"s3://{jobs.bucket}/../up/out"
    jobs.s3.put_object(Bucket=jobs.bucket, Key="../up/./ckpt/a", Body=b"1")
    jobs.s3.put_object(Bucket=jobs.bucket, Key="up/ckpt/b", Body=b"another key")
    jobs.sagemaker.create_training_job(**request)
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert seen(jobs, job)[1] == {"a": "1"}
    assert keys(jobs, "../up/./ckpt/") == {"a": "1", "written": "by the job"}
    assert keys(jobs, "up/") == {"ckpt/b": "another key"}
    listed = jobs.s3.list_objects_v2(Bucket=jobs.bucket, Prefix="../up/out/")["Contents"]
    assert [item["Key"] for item in listed] == [f"../up/out/{name}/output/model.tar.gz"]
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{jobs.bucket}/../up/out/{name}/output/model.tar.gz"


def test_failing_program_leaves_its_last_checkpoint_in_s3(jobs):
    script = '''
import os, sys
open("/opt/ml/checkpoints/last", "w").write("just before the end")
os.symlink("/etc/passwd", "/opt/ml/checkpoints/passwd")
sys.exit(3)
'''
    job = jobs.run("failing", script, **config(jobs, "failing"))
    assert job["TrainingJobStatus"] == "Failed"
    assert keys(jobs, "failing/") == {"last": "just before the end"}
    assert any("/opt/ml/checkpoints/passwd is not mirrored" in line for line in jobs.lines(job["TrainingJobName"]))


@pytest.mark.parametrize("mode", ["wb", "r+b"])
@pytest.mark.parametrize("below_shell", [False, True])
def test_checkpoint_whose_writer_is_killed_replaces_no_whole_one(jobs, mode, below_shell):
    prefix = f"killed/{mode[0]}{below_shell}"
    jobs.s3.put_object(Bucket=jobs.bucket, Key=f"{prefix}/last.pt", Body=b"whole")
    script = """
import os, time
file = open("/opt/ml/checkpoints/last.pt", "MODE")
for _ in range(3):
    file.write(b"t"); file.flush(); time.sleep(0.5)
os.kill(os.getpid(), 9)
""".replace("MODE", mode)
    if below_shell:  # which lives on, and tells by its code
        script = f"import subprocess, sys\nsys.exit(subprocess.call(['sh', '-c', 'python3 -c \"$0\"; exit $?', {script!r}]))"
    job = jobs.run("killed", script, **config(jobs, prefix))
    assert job["TrainingJobStatus"] == "Failed"
    assert keys(jobs, f"{prefix}/") == {"last.pt": "whole"}
    assert any("last.pt is not mirrored" in line for line in jobs.lines(job["TrainingJobName"]))


def test_deleted_checkpoints_go_from_s3_and_others_stay(jobs):
    script = '''
import os, time
root = "/opt/ml/checkpoints"
for step in range(1, 21):
    os.makedirs(f"{root}/step-{step}")
    for shard in range(3):
        open(f"{root}/step-{step}/shard-{shard}", "w").write(str(step))
    if step > 2:
        for shard in range(3):
            os.remove(f"{root}/step-{step - 2}/shard-{shard}")
        os.rmdir(f"{root}/step-{step - 2}")
    time.sleep(0.1)
'''
    jobs.s3.put_object(Bucket=jobs.bucket, Key="rotated-other/x", Body=b"1")
    job = jobs.run("rotated", script, **config(jobs, "rotated"))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert sorted(keys(jobs, "rotated/")) == [f"step-{s}/shard-{i}" for s in (19, 20) for i in range(3)]
    assert keys(jobs, "rotated-other/") == {"x": "1"}


def test_spot_without_checkpoints_is_warned_of(jobs):
    job = jobs.run("spot", "pass", EnableManagedSpotTraining=True,
                   StoppingCondition={"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 600})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    first = job["SecondaryStatusTransitions"][0]
    assert first["Status"] == "Starting" and "warning: EnableManagedSpotTraining without" in first["StatusMessage"], first
    assert any("without CheckpointConfig" in line for line in jobs.lines(job["TrainingJobName"]))


FIFTY = '''
import os, time
for i in range(50):
    path = f"/opt/ml/checkpoints/file-{i}"
    with open(path + ".tmp", "w") as out:
        out.write(str(i))
    os.rename(path + ".tmp", path)
    time.sleep(0.2)
'''


def test_all_files_arrive_although_the_store_is_away_for_a_while(tmp_path):
    """The store stops answering (SIGSTOP: calls hang) and comes back; then it is killed and started anew."""
    server = Server(tmp_path).start()
    try:
        jobs = Jobs(server)
        name = jobs.create("outage", FIFTY, **config(jobs, "outage"))
        wait_for(lambda: len(keys(jobs, "outage/")) >= 5, 30, "the first checkpoints")
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: len(keys(jobs, "outage/")) >= 20, 30, "checkpoints after the pause")
        server.process.kill()
        server.process.wait()
        time.sleep(2)
        server.start()
        jobs.s3, jobs.sagemaker, jobs.logs = (server.client(s) for s in ("s3", "sagemaker", "logs"))
        job = jobs.wait(name)
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        assert keys(jobs, "outage/") == {f"file-{i}": str(i) for i in range(50)}
    finally:
        if server.process.poll() is None:
            server.stop()


@pytest.mark.slow
def test_stop_ends_and_names_what_is_missing_although_the_store_fails_for_ever(jobs):
    script = '''
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("begun", flush=True)
i = 0
while True:
    i += 1
    open(f"/opt/ml/checkpoints/file-{i}", "w").write("x")
    time.sleep(1)
'''
    jobs.s3.create_bucket(Bucket="going-away")
    name = jobs.create("endless", script, CheckpointConfig={"S3Uri": "s3://going-away/ckpt"})

    def is_emptied():
        for item in jobs.s3.list_objects_v2(Bucket="going-away").get("Contents", []):
            jobs.s3.delete_object(Bucket="going-away", Key=item["Key"])
        try:
            return "begun" in jobs.lines(name) and jobs.s3.delete_bucket(Bucket="going-away")
        except ClientError:
            return False
    wait_for(is_emptied, 30, "the end of the bucket")
    wait_for(lambda: "Checkpoints lag behind" in jobs.describe(name)["SecondaryStatusTransitions"][-1]["StatusMessage"],
             30, "a word on the lag")
    began = time.monotonic()
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    assert jobs.wait(name, 100)["TrainingJobStatus"] == "Stopped"
    assert time.monotonic() - began < 80
    assert any("Missing: file-" in line and "NoSuchBucket" in line for line in jobs.lines(name))
