# SPDX-License-Identifier: Apache-2.0
"""Instances are lost under running jobs, in every way that a machine can be; the jobs go on."""
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

import botocore.exceptions
import pytest
from conftest import BINARY, wait_for
from machines import Machine, alive, finish, processes_with

pytestmark = [pytest.mark.root, pytest.mark.both_ways_slow]

# Runs until the test makes a file in the container's /opt/ml.
WAITS = '''
import os, time
print("start", os.environ["SM_CURRENT_HOST"], flush=True)
n = 0
while not os.path.exists("/opt/ml/finish"):
    n += 1
    if n % 4 == 0:
        print("tick", n, flush=True)
    time.sleep(0.05)
print("done", flush=True)
'''


def starts(jobs, name):
    try:
        return sum(line.startswith("start ") for line in jobs.lines(name))
    except jobs.logs.exceptions.ResourceNotFoundException:
        return 0


def running_job(jobs, stem, script=WAITS, instances=2, **options):
    """A job whose program runs on every instance, and its machines."""
    name = jobs.create(stem, script, instances=instances, torchrun=True, **options)
    wait_for(lambda: starts(jobs, name) == instances, 30, "start of the program")
    return name, [Machine(jobs.server, name, f"algo-{i + 1}") for i in range(instances)]


def wait_for_attempt(jobs, name, number, seconds=30):
    """Waits until the program runs again everywhere in this attempt."""
    instances = jobs.describe(name)["ResourceConfig"]["InstanceCount"]
    wait_for(lambda: len(jobs.attempts(name)) == number and starts(jobs, name) == number * instances, seconds,
             f"attempt {number} of {name}")


def statuses(job):
    return [t["Status"] for t in job["SecondaryStatusTransitions"]]


def repairs(job):
    return [t["StatusMessage"] for t in job["SecondaryStatusTransitions"] if t["StatusMessage"].startswith("Repairing")]


@pytest.mark.both_ways
def test_killed_instance_is_replaced_and_the_healthy_one_stays(jobs):
    name, (first, second) = running_job(jobs, "killed")
    kept, token, streams = first.supervisor(), second.token(), jobs.streams(name)
    killed = second.kill()
    wait_for_attempt(jobs, name, 2)
    assert not alive(killed)
    assert first.supervisor() == kept and alive([kept]), "the healthy instance was started anew"
    assert second.token() != token
    job = finish(jobs, name, (first, second))
    # One transition for the loss, and from there everything again.
    assert statuses(job) == ["Starting", "Downloading", "Training", "Starting", "Downloading", "Training",
                             "Uploading", "Completed"]
    assert repairs(job) == [
        "Repairing: instance algo-2 was lost (its supervisor ended); attempt 2 of 3 follows"]
    times = [t["StartTime"] for t in job["SecondaryStatusTransitions"]]
    assert times == sorted(times)
    lost, last = jobs.attempts(name)
    assert (lost["Epoch"], last["Epoch"]) == (1, 2)
    assert lost["Host"] == "algo-2" and "supervisor ended" in lost["Cause"]
    assert lost["StartTime"] < lost["EndTime"] <= last["StartTime"] and "Cause" not in last
    assert jobs.streams(name) == streams, "streams are instances, whatever the attempt"


def test_stopped_instance_that_wakes_up_can_write_nothing(jobs):
    name, (first, second) = running_job(jobs, "stopped")
    old = {"Authorization": f"Bearer {second.token()}", "Yard-Protocol": "1", "Yard-Epoch": "1"}
    def ask(path, body=None):
        request = urllib.request.Request(f"{second.server_url()}/yard/v1/{path}", body, old)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
    keys = ask("credentials")[1]
    client = jobs.server.client("s3", aws_access_key_id=keys["access_key_id"], aws_session_token=keys["session_token"],
                                aws_secret_access_key=keys["secret_access_key"])
    client.put_object(Bucket=jobs.bucket, Key="by-an-instance", Body=b"alive")

    stopped = second.stop()
    since = time.monotonic()
    wait_for_attempt(jobs, name, 2)
    assert time.monotonic() - since > 4, "it was given up before its time"
    # The replacement is there, so nothing of the old one is: there is nobody to wake.
    second.wake(stopped)
    assert not alive(stopped)
    # And if something of it did live on somewhere: its token and its keys are worth nothing.
    assert ask("credentials")[0] == 403
    line = {"seq": 1000, "lines": [{"at": int(time.time() * 1000), "text": "from the grave"}]}
    assert ask("reports", json.dumps([line]).encode())[0] == 403
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        client.put_object(Bucket=jobs.bucket, Key="by-an-instance", Body=b"undead")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 403)
    assert jobs.s3.get_object(Bucket=jobs.bucket, Key="by-an-instance")["Body"].read() == b"alive"
    job = finish(jobs, name, (first, second))
    assert "algo-2 was lost" in repairs(job)[0] and "report" in repairs(job)[0]
    assert not any("from the grave" in line for line in jobs.lines(name))


@pytest.mark.namespaces
def test_cut_link_is_a_loss_like_any_other(jobs):
    name, machines = running_job(jobs, "cut")
    old = machines[0].pids()
    machines[0].cut()
    wait_for_attempt(jobs, name, 2)
    assert not alive(old)
    job = finish(jobs, name, machines)
    assert "algo-1 was lost" in repairs(job)[0]


def test_instance_that_is_late_by_some_beats_is_not_lost(jobs):
    name, machines = running_job(jobs, "late")
    os.kill(machines[0].supervisor(), signal.SIGSTOP)
    time.sleep(3)  # beats come every second; five seconds are the limit
    os.kill(machines[0].supervisor(), signal.SIGCONT)
    time.sleep(2.5)  # past the limit, had the beats before not counted
    finish(jobs, name, machines)
    assert len(jobs.attempts(name)) == 1


def test_program_that_prints_nothing_for_long_raises_no_alarm(jobs):
    job = jobs.run("quiet", "import time; time.sleep(8)", instances=2)
    assert job["TrainingJobStatus"] == "Completed" and len(jobs.attempts(job["TrainingJobName"])) == 1
    assert statuses(job) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]


def test_error_of_the_user_is_never_retried(jobs):
    job = jobs.run("own-fault", "import sys; print('start', flush=True); sys.exit(3)", instances=2,
                   RetryStrategy={"MaximumRetryAttempts": 5})
    assert job["TrainingJobStatus"] == "Failed" and "exit code: 3" in job["FailureReason"]
    assert len(jobs.attempts(job["TrainingJobName"])) == 1 and not repairs(job)


# cases.md 52: retries 1 are exactly 2 attempts.
def test_retries_are_counted_and_used_up(jobs):
    name, machines = running_job(jobs, "twice", instances=1, RetryStrategy={"MaximumRetryAttempts": 1})
    machines[0].kill()
    wait_for_attempt(jobs, name, 2)
    machines[0].kill()
    job = jobs.wait(name, 30)
    assert job["TrainingJobStatus"] == "Failed"
    reason = job["FailureReason"]
    assert reason.startswith("InternalServerError:") and "algo-1" in reason and "attempt 2 of 2" in reason
    assert [a["Epoch"] for a in jobs.attempts(name)] == [1, 2] and len(repairs(job)) == 1
    assert statuses(job) == ["Starting", "Downloading", "Training", "Starting", "Downloading", "Training", "Failed"]


# cases.md A 7, from the other side: one instance has finished its work when another is lost.
def test_instance_lost_after_its_program_ended_is_repaired_too(jobs):
    script = WAITS.replace("while not", "while os.environ['RANK'] != '0' and not")
    script += 'open("/opt/ml/model/" + os.environ["SM_CURRENT_HOST"], "w").write("whole")'
    name, machines = running_job(jobs, "finished-early", script)
    wait_for(lambda: "done" in jobs.lines(name, "algo-1"), 20, "end of algo-1's program")
    machines[0].kill()
    wait_for_attempt(jobs, name, 2)
    finish(jobs, name, machines)
    assert sorted(jobs.artifact(name)) == ["algo-1", "algo-2"]


# cases.md 65
def test_processes_that_left_their_parents_go_with_their_attempt(jobs):
    marker = f"86{os.getpid()}.25"
    script = f'''
import subprocess
subprocess.Popen(["setsid", "sh", "-c", "(trap '' TERM HUP; sleep {marker}) & exit 0"])
''' + WAITS
    name, machines = running_job(jobs, "daemons", script)
    first = wait_for(lambda: len(found := processes_with(f"sleep\0{marker}")) == 2 and found, 10, "daemons")
    machines[1].kill()
    wait_for_attempt(jobs, name, 2)
    second = wait_for(lambda: len(found := processes_with(f"sleep\0{marker}")) == 2 and found, 10, "daemons")
    assert not set(first) & set(second), "a daemon outlived its attempt"
    finish(jobs, name, machines)
    assert not processes_with(f"sleep\0{marker}")


def test_user_signals_reach_every_rank_of_an_instance(jobs):
    script = '''
import os, signal, sys, time
def hear(number, _):
    print("rank", os.environ["RANK"], "heard", signal.Signals(number).name, flush=True)
signal.signal(signal.SIGUSR1, hear); signal.signal(signal.SIGUSR2, hear)
''' + WAITS
    name = jobs.create("signals", script, torchrun=True, hyperparameters={"sagemaker_nproc_per_node": 3})
    wait_for(lambda: starts(jobs, name) == 0 and sum("start" in line for line in jobs.lines_so_far(name)) == 3, 30, "ranks")
    machine = Machine(jobs.server, name)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(machine.supervisor(), number)
        wait_for(lambda: sum(f"heard {number.name}" in line for line in jobs.lines_so_far(name)) == 3, 10, number.name)
    finish(jobs, name, [machine])


# cases.md 7
def test_an_instance_that_comes_after_the_end_of_its_job_leaves_well(jobs, tmp_path):
    name, machines = running_job(jobs, "late", instances=1)
    token = machines[0].token()
    finish(jobs, name, machines)
    before = jobs.lines(name)
    (tmp_path / "token").write_text(token)
    late = subprocess.run([BINARY, "instance", "--server", jobs.server.endpoint, "--scratch", tmp_path],
                          capture_output=True, text=True, timeout=60)
    assert late.returncode == 0 and "job already finished" in late.stderr, late
    assert jobs.describe(name)["TrainingJobStatus"] == "Completed"
    assert len(jobs.attempts(name)) == 1 and jobs.lines(name) == before
