# SPDX-License-Identifier: Apache-2.0
"""Faults that come several at a time, or at the worst moment: a job meets each once and completes."""
import hashlib
import os
import signal
import struct
import time

import pytest
from botocore.exceptions import ClientError
from conftest import jobs_on, wait_for
from machines import Machine, alive, finish

pytestmark = [pytest.mark.root, pytest.mark.both_ways_slow]

# Runs until the test makes a file in the container's /opt/ml.
WAITS = '''
import os, time
print("start", os.environ["SM_CURRENT_HOST"], flush=True)
while not os.path.exists("/opt/ml/finish"):
    time.sleep(0.05)
'''


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Jobs of a server that has room for six instances, and that a test may stop for a while."""
    with jobs_on(tmp_path_factory.mktemp("wide"), "capacity: {instances: 6}\n") as jobs:
        yield jobs


def starts(jobs, name):
    return sum(line.startswith("start ") for line in jobs.lines_so_far(name))


def repairs(job):
    return [t["StatusMessage"] for t in job["SecondaryStatusTransitions"] if t["StatusMessage"].startswith("Repairing")]


def without_pause(message):
    return message.split(" in ")[0] if message.endswith(" s") else message


# One event, a rack that loses its power, is one repair: also when the losses are seen one by one,
# before, while and after the first of them is repaired.
@pytest.mark.parametrize("gap", [0.1, 0.3])
def test_five_of_six_instances_that_die_one_after_another_are_one_repair(wide, gap):
    name = wide.create("five", WAITS, instances=6, torchrun=True, RetryStrategy={"MaximumRetryAttempts": 1})
    wait_for(lambda: starts(wide, name) == 6, 30, "start of the program")
    machines = [Machine(wide.server, name, f"algo-{i + 1}") for i in range(6)]
    kept = machines[0].supervisor()
    killed = []
    for machine in machines[1:]:
        killed += machine.kill()
        time.sleep(gap)
    wait_for(lambda: starts(wide, name) >= 12, 40, "the second attempt")
    assert not alive(killed) and machines[0].supervisor() == kept, "who was not lost stays"
    job = finish(wide, name, machines)
    attempts = wide.attempts(name)
    assert len(attempts) == 2 and "Cause" not in attempts[1]
    # It is told anew when more turn out to be lost, and is one repair all the same.
    assert all(told.endswith("attempt 2 of 2 follows") for told in map(without_pause, repairs(job))), repairs(job)
    assert attempts[0]["Host"] in [machine.host for machine in machines[1:]]
    assert all(m.host in attempts[0]["Cause"] for m in machines[1:3]) and "2 more" in attempts[0]["Cause"]


# As a machine does that is shut down: the programs end well, and nobody has asked for it.
def test_supervisors_that_are_told_to_leave_are_one_repair(wide):
    name = wide.create("leaving", WAITS, instances=3, torchrun=True, RetryStrategy={"MaximumRetryAttempts": 1})
    wait_for(lambda: starts(wide, name) == 3, 30, "start of the program")
    machines = [Machine(wide.server, name, f"algo-{i + 1}") for i in range(3)]
    told = [machine.supervisor() for machine in machines]
    for supervisor in told[:2]:
        os.kill(supervisor, signal.SIGTERM)
    wait_for(lambda: starts(wide, name) >= 6, 40, "the second attempt")
    assert alive(told) == told[2:] == [machines[2].supervisor()]
    job = finish(wide, name, machines)
    assert len(repairs(job)) == 1 and "stopped from outside" in repairs(job)[0], repairs(job)
    assert len(wide.attempts(name)) == 2


# The server's own silence is nobody's fault: beats and lines of nine seconds wait for it.
def test_server_that_stands_still_in_the_middle_of_a_job_blames_nobody(wide):
    name = wide.create("still", WAITS, instances=2, torchrun=True)
    wait_for(lambda: starts(wide, name) == 2, 30, "start of the program")
    machines = [Machine(wide.server, name, f"algo-{i + 1}") for i in range(2)]
    supervisors = [machine.supervisor() for machine in machines]
    wide.server.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(9)
    finally:
        wide.server.process.send_signal(signal.SIGCONT)
    since = time.monotonic()
    assert wide.describe(name)["SecondaryStatus"] == "Training"
    while time.monotonic() - since < 2:  # whoever were to be blamed would be by now
        assert wide.describe(name)["SecondaryStatus"] == "Training"
        time.sleep(0.1)
    assert [machine.supervisor() for machine in machines] == supervisors == alive(supervisors)
    job = finish(wide, name, machines)
    assert not repairs(job) and len(wide.attempts(name)) == 1 and starts(wide, name) == 2


# One file, written over and over in place: its number, what follows from the number, and a digest of both.
REWRITES = '''
import hashlib, os, struct, time
PATH, SIZE, MODE = "/opt/ml/checkpoints/last.bin", 4 << 20, os.environ["SM_HP_MODE"]
def whole(number):
    body = struct.pack("<Q", number) + bytes([number % 251]) * SIZE
    return body + hashlib.sha256(body).digest()
number = 0
if os.path.exists(PATH):
    found = open(PATH, "rb").read()
    number = struct.unpack("<Q", found[:8])[0]
    assert found == whole(number), "a torn checkpoint was restored"
print("begins with", number, flush=True)
while not os.path.exists("/opt/ml/finish"):
    number += 1
    data = whole(number)
    with open(PATH, MODE if os.path.exists(PATH) else "wb") as out:
        for at in range(0, len(data), 1 << 19):
            out.write(data[at:at + (1 << 19)])
            out.flush()
            time.sleep(0.04)
    time.sleep(0.7)
'''


def stored_number(jobs, key):
    """Which checkpoint S3 has: a whole one, or the test fails. 0: none yet."""
    try:
        found = jobs.s3.get_object(Bucket=jobs.bucket, Key=key)["Body"].read()
    except ClientError:
        return 0
    assert hashlib.sha256(found[:-32]).digest() == found[-32:], "a torn checkpoint is in S3"
    return struct.unpack("<Q", found[:8])[0]


def begun_with(jobs, name):
    return [int(line.split()[-1]) for line in jobs.lines_so_far(name) if line.startswith("begins with")]


@pytest.mark.parametrize("mode", ["wb", "r+b"])
def test_checkpoint_that_is_torn_when_its_supervisor_dies_replaces_no_whole_one(jobs, mode):
    prefix = f"in-place-{mode[0]}"
    key = f"{prefix}/last.bin"
    name = jobs.create(prefix, REWRITES, hyperparameters={"mode": mode},
                       CheckpointConfig={"S3Uri": f"s3://{jobs.bucket}/{prefix}"})
    wait_for(lambda: stored_number(jobs, key) >= 2, 30, "the second checkpoint in S3")
    machine = Machine(jobs.server, name)
    file = machine.scratch / "checkpoints" / "last.bin"
    held = wait_for(lambda: half_written(file), 20, "a checkpoint that is half written")
    os.kill(machine.supervisor(), signal.SIGKILL)
    before = stored_number(jobs, key)
    assert 2 <= before < held
    wait_for(lambda: len(begun_with(jobs, name)) == 2, 30, "the second attempt")
    assert begun_with(jobs, name)[1] == before, "what S3 had is what is restored"
    wait_for(lambda: stored_number(jobs, key) > before, 30, "a checkpoint of the second attempt")
    job = finish(jobs, name, [Machine(jobs.server, name)])
    assert len(repairs(job)) == 1 and stored_number(jobs, key) > before


def half_written(file):
    """The number of the checkpoint that is being written there right now, whose end is not."""
    try:
        data = file.read_bytes()
    except OSError:
        return 0
    number = struct.unpack("<Q", data[:8])[0] if len(data) > 2 << 20 else 0
    whole = len(data) > 32 and hashlib.sha256(data[:-32]).digest() == data[-32:]
    return 0 if whole else number


# Parts of an upload that nobody will complete take room that nobody sees.
def test_upload_that_is_cut_by_the_loss_of_its_instance_leaves_no_parts_behind(jobs):
    script = '''
import os
with open("/opt/ml/model/weights", "wb") as out:
    for _ in range(64):
        out.write(os.urandom(1 << 20))
'''

    def unfinished():
        return [u["Key"] for u in jobs.s3.list_multipart_uploads(Bucket=jobs.bucket).get("Uploads", [])]
    of_others = jobs.s3.create_multipart_upload(Bucket=jobs.bucket, Key="output/of-others")
    name = jobs.create("cut-upload", script)
    mine = f"output/{name}/output/model.tar.gz"
    wait_for(lambda: mine in unfinished(), 40, "the first part of the model")
    Machine(jobs.server, name).kill()
    wait_for(lambda: len(jobs.attempts(name)) == 2, 20, "the second attempt")
    wait_for(lambda: mine not in unfinished() or jobs.attempts(name)[1].get("EndTime"), 20, "the end of the parts")
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert len(repairs(job)) == 1 and list(jobs.artifact(name)) == ["weights"]
    assert unfinished() == ["output/of-others"]
    jobs.s3.abort_multipart_upload(Bucket=jobs.bucket, Key="output/of-others", UploadId=of_others["UploadId"])
