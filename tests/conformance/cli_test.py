# SPDX-License-Identifier: Apache-2.0
"""The trainyard program as people and scripts call it, against a real server."""
import json
import re
import subprocess

import pytest
from conftest import BINARY, wait_for
from machines import Machine


def trainyard(server, *arguments, env=None, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run([BINARY, *arguments], env=env or server.environment(), text=True, timeout=60, **options)


@pytest.fixture(scope="module")
def failed(jobs):
    """A job whose rank 1 raises an error, once rank 0 has spoken too."""
    script = '''
import os, socket, time
print("rank", os.environ["RANK"], flush=True)
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    spoken = socket.create_server(("", place[1]))
    time.sleep(60)
while True:
    try:
        socket.create_connection(place).close()
        break
    except OSError:
        time.sleep(0.05)
raise ValueError("the loss is not finite")
'''
    return jobs.run("cli-failed", script, instances=2, torchrun=True)["TrainingJobName"]


@pytest.mark.root
def test_logs_are_found_by_job_name_from_anywhere(server, failed, tmp_path):
    env = server.environment()
    # Nothing but what names the server and its keys: no home directory, no place of submission.
    bare = {name: env[name] for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    done = trainyard(server, "logs", failed, env=bare, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "algo-1 | rank 0\n" in done.stdout and "algo-2 | rank 1\n" in done.stdout


@pytest.mark.root
def test_why_explains_a_failure_in_five_lines(server, failed):
    done = trainyard(server, "why", failed)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) <= 5, done.stdout + done.stderr
    assert lines[0].startswith(f"{failed} failed after ") and " in Training: AlgorithmError: rank 1 on algo-2" in lines[0]
    assert lines[1].startswith('algo-2 | File "') and "line 14" in lines[1]
    assert lines[2] == "algo-2 | ValueError: the loss is not finite"
    assert lines[3] == f"Next: repair the program and submit it under a new name; all that it printed: trainyard logs {failed}"
    parts = json.loads(trainyard(server, "why", failed, "--json").stdout)
    assert parts["LastLines"][-1] == {"host": "algo-2", "message": "ValueError: the loss is not finite"}
    assert parts["Restarts"] == 0


@pytest.mark.root
def test_why_names_the_job_that_is_waited_for(server, jobs):
    most = next(n for n in range(64, 0, -1) if fits(jobs, n))
    first = jobs.create("cli-first", "import time; time.sleep(30)", instances=most)
    second = jobs.create("cli-second", "print(1)", instances=most)
    try:
        wait_for(lambda: "Waiting for capacity" in trainyard(server, "why", second).stdout, 10, "the second to wait")
        line = trainyard(server, "why", second).stdout
        assert f"{second} is in Starting for " in line and f"of {most} needed instances free" in line, line
        assert "it starts by itself" in line
    finally:
        for name in (first, second):
            jobs.sagemaker.stop_training_job(TrainingJobName=name)
        for name in (first, second):
            jobs.wait(name, 30)


def fits(jobs, instances):
    """Whether the machine has so many instances; nothing is created."""
    try:
        jobs.sagemaker.create_training_job(**jobs.request(
            "x", instances=instances, channels={"t": ("s3://no-such-bucket/x", "FullyReplicated")}))
    except jobs.sagemaker.exceptions.ResourceLimitExceeded:
        return False
    except jobs.sagemaker.exceptions.ClientError as error:
        return "no-such-bucket" in str(error)
    raise AssertionError("a job was created")


@pytest.mark.root
def test_an_empty_model_directory_is_told_and_makes_no_archive(server, jobs):
    job = jobs.run("cli-no-model", "print(1)")
    name = job["TrainingJobName"]
    place = f"s3://{jobs.bucket}/output/{name}/output/model.tar.gz"
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == place  # the model of the API requires it
    assert "there is no model" in job["SecondaryStatusTransitions"][-1]["StatusMessage"]
    assert jobs.s3.list_objects_v2(Bucket=jobs.bucket, Prefix=f"output/{name}/")["KeyCount"] == 0
    shown = trainyard(server, "describe", name).stdout
    assert "none: /opt/ml/model was empty" in shown and place not in shown
    assert json.loads(trainyard(server, "describe", name, "--json").stdout)["HasModelArtifacts"] is False
    full = jobs.run("cli-model", 'open("/opt/ml/model/w", "w").write("x")')["TrainingJobName"]
    assert f"output/{full}/output/model.tar.gz\n" in trainyard(server, "describe", full).stdout


def test_unknown_verbs_are_named_with_the_nearest(server):
    for word, nearest in (("bogus", "logs"), ("sumbit", "submit"), ("serve", "server")):
        done = trainyard(server, word)
        assert done.returncode == 2
        assert f"there is no verb '{word}'; did you mean '{nearest}'?" in done.stderr


def test_a_misspelt_member_never_reaches_the_server(server, tmp_path):
    (tmp_path / "job.yaml").write_text("TrainingJobName: cli-misspelt\nCheckpointConfg: {S3Uri: s3://b/c}\n")
    done = trainyard(server, "submit", tmp_path / "job.yaml")
    assert done.returncode == 1
    assert "line 2: CheckpointConfg is unknown; did you mean 'CheckpointConfig'?" in done.stderr
    (tmp_path / "job.json").write_text('{"StopingCondition": {}}')
    done = trainyard(server, "submit", tmp_path / "job.json")
    assert done.returncode == 1 and "did you mean 'StoppingCondition'?" in done.stderr


@pytest.mark.root
def test_delete_forgets_ended_jobs_only(server, jobs):
    name = jobs.create("cli-delete", "import time; time.sleep(60)")
    refused = trainyard(server, "delete", name)
    assert refused.returncode == 1 and f"trainyard stop --wait {name}" in refused.stderr
    assert trainyard(server, "stop", "--wait", name).returncode == 0
    done = trainyard(server, "delete", name, "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == {"TrainingJobName": name}
    assert "there is no training job" in trainyard(server, "describe", name).stderr


def test_every_verb_is_named_and_explains_itself(server):
    listed = re.findall(r"^  trainyard (\S+)", trainyard(server, "help").stdout, re.MULTILINE)
    assert {"server", "store", "certificate", "doctor", "submit", "delete", "instance"} <= set(listed)
    assert trainyard(server, "bogus").stderr.split("Verbs: ")[1].split(". Each")[0].split(", ") == listed
    for verb in listed:
        asked, other = trainyard(server, "help", verb), trainyard(server, verb, "--help")
        assert asked.returncode == other.returncode == 0, (verb, asked.stderr, other.stderr)
        assert asked.stdout == other.stdout and asked.stdout
        assert verb == "help" or f"trainyard {verb}" in asked.stdout, verb


@pytest.mark.parametrize("arguments", [
    ["list"], ["list", "--json"], ["describe", "JOB"], ["describe", "JOB", "--json"], ["logs", "JOB"],
    ["logs", "-f", "JOB"], ["logs", "--json", "JOB"], ["why", "JOB"], ["why", "JOB", "--json"], ["--help"], ["help"],
    ["--version"], ["submit", "--help"], ["server", "--help"]], ids=" ".join)
@pytest.mark.root
def test_verbs_fail_when_their_output_is_lost(server, failed, arguments):
    words = [failed if word == "JOB" else word for word in arguments]
    with open("/dev/full", "w") as full:
        lost = trainyard(server, *words, stdout=full)
    assert lost.returncode == 1, lost.stderr
    assert "cannot write the output" in lost.stderr


@pytest.mark.root
def test_submit_and_stop_fail_when_their_output_is_lost(server, jobs, tmp_path):
    name = jobs.new_name("cli-lost")
    (tmp_path / "job.json").write_text(json.dumps(jobs.request(name, "import time; time.sleep(60)")))
    with open("/dev/full", "w") as full:
        submitted = trainyard(server, "submit", tmp_path / "job.json", stdout=full)
        stopped = trainyard(server, "stop", name, stdout=full)
    for done in (submitted, stopped):
        assert done.returncode == 1 and "cannot write the output" in done.stderr
    assert jobs.wait(name)["TrainingJobStatus"] == "Stopped"


@pytest.mark.root
def test_why_tells_of_a_restart(server, jobs):
    name = jobs.create("cli-restart", "import time; time.sleep(60)", instances=2, torchrun=True)
    wait_for(lambda: jobs.describe(name)["SecondaryStatus"] == "Training", 30, "training")
    Machine(server, name, "algo-2").kill()
    wait_for(lambda: json.loads(trainyard(server, "why", name, "--json").stdout)["Restarts"] == 1
             and jobs.describe(name)["SecondaryStatus"] == "Training", 30, "the next attempt")
    try:
        lines = trainyard(server, "why", name).stdout.splitlines()
        assert lines[0].startswith(f"{name} is in Training for "), lines
        assert lines[1].startswith("Restarts: 1, the last because instance algo-2 was lost"), lines
        assert "(algo-2, after " in lines[1] and len(lines) == 3
    finally:
        jobs.sagemaker.stop_training_job(TrainingJobName=name)
        jobs.wait(name, 30)
