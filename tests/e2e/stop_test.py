# SPDX-License-Identifier: Apache-2.0
"""StopTrainingJob against programs that save, do not listen, hide or hang."""
import os
import time

import pytest
from conftest import jobs_on, wait_for
from machines import Machine, alive, processes_with
from stuck_file import stuck_file

pytestmark = [pytest.mark.root, pytest.mark.both_ways_slow]


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """Jobs of a server that gives a stop two seconds only."""
    with jobs_on(tmp_path_factory.mktemp("impatient"), "stop_grace_seconds: 2\n") as jobs:
        yield jobs


def start(jobs, stem, script, count=1, **options):
    """A job whose program has said "ready" `count` times."""
    name = jobs.create(stem, script, **options)
    wait_for(lambda: sum(line.endswith("ready") for line in jobs.lines_so_far(name)) == count, 30, "start of the program")
    return name


def stop(jobs, name, seconds):
    """Seconds that it took, and the job's last description."""
    since = time.monotonic()
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    job = jobs.wait(name, seconds)
    assert job["TrainingJobStatus"] == "Stopped", job.get("FailureReason")
    assert len(jobs.attempts(name)) == 1, "a stop is no reason for another attempt"
    return time.monotonic() - since, job


# cases.md 60. Every other rank dies of the signal at once, which takes no time from its neighbour.
def test_ten_seconds_of_saving_are_granted_and_everything_is_uploaded(jobs):
    script = '''
import os, signal, sys, time
def save(*_):
    print("saving", flush=True)
    for part in range(10):
        time.sleep(1)
        open(f"/opt/ml/model/{os.environ['RANK']}-{part}", "w").write("saved")
    open("/opt/ml/output/data/last-" + os.environ["RANK"], "w").write("saved")
    sys.exit(0)
if os.environ["LOCAL_RANK"] == "0":
    signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(300)
'''
    name = start(jobs, "save", script, count=4, instances=2, torchrun=True,
                 hyperparameters={"sagemaker_nproc_per_node": 2})
    seconds, job = stop(jobs, name, 40)
    assert 10 <= seconds < 20
    assert sorted(jobs.artifact(name)) == sorted(f"{rank}-{part}" for rank in "02" for part in range(10))
    assert sorted(jobs.artifact(name, "output")) == ["last-0", "last-2"]
    assert [t["Status"] for t in job["SecondaryStatusTransitions"]][-2:] == ["Stopping", "Stopped"]


# cases.md 59: sh -> python -> workers, of which the shell dies at once.
def test_every_process_behind_a_shell_hears_the_stop_and_may_save(jobs):
    program = '''
import os, signal, sys, time
def save(*_):
    time.sleep(1.5)
    open(f"/opt/ml/model/{os.getpid()}", "w").write("saved"); os._exit(0)
signal.signal(signal.SIGTERM, save)
for _ in range(2):
    if os.fork() == 0:
        break
os.write(1, b"ready\\n")  # at once: three processes share the pipe
while True:
    time.sleep(1)
'''
    name = jobs.new_name("shell")
    request = jobs.request(name, files={"train.sh": "sh -c 'python train.py; echo not reached'\necho nor this\n",
                                        "train.py": program}, program="train.sh")
    jobs.sagemaker.create_training_job(**request)
    wait_for(lambda: jobs.lines_so_far(name).count("ready") == 3, 30, "three processes")
    stop(jobs, name, 30)
    assert len(jobs.artifact(name)) == 3
    assert "not reached" not in jobs.lines_so_far(name)


def test_script_that_ignores_the_stop_is_killed_and_its_files_are_kept(impatient):
    script = '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("/opt/ml/model/half", "w").write("as far as it got")
print("ready", flush=True)
time.sleep(300)
'''
    name = start(impatient, "deaf", script)
    seconds, _ = stop(impatient, name, 20)
    assert 2 <= seconds < 6
    assert impatient.artifact(name) == {"half": b"as far as it got"}


# cases.md 65
def test_nothing_that_left_its_parent_and_its_session_outlives_the_stop(impatient):
    marker = f"85{os.getpid()}.25"
    script = f'''
import subprocess, time
subprocess.Popen(["setsid", "sh", "-c", "(trap '' TERM HUP; setsid sleep {marker} & sleep {marker}) & exit 0"])
print("ready", flush=True)
time.sleep(300)
'''
    name = start(impatient, "daemons", script)
    wait_for(lambda: len(processes_with(f"sleep\0{marker}")) == 2, 10, "daemons")
    seconds, _ = stop(impatient, name, 20)
    assert seconds < 8 and not processes_with(f"sleep\0{marker}")


def test_failure_file_and_a_clean_exit_after_a_stop_are_a_stop(impatient):
    script = '''
import signal, sys, time
def leave(*_):
    open("/opt/ml/output/failure", "w").write("not a failure"); sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
time.sleep(300)
'''
    _, job = stop(impatient, start(impatient, "polite", script), 20)
    assert "FailureReason" not in job


# cases.md 64: whoever reads this file sleeps in the kernel, and no signal ends him.
def test_process_that_cannot_be_killed_holds_up_neither_recovery_nor_stop(impatient):
    with stuck_file() as path:
        script = f'''
import threading, time
print("ready", flush=True)
threading.Thread(target=lambda: open("{path}").read()).start()
'''
        name = start(impatient, "stuck", script)
        machine = Machine(impatient.server, name)
        time.sleep(0.5)
        first = machine.kill()
        wait_for(lambda: impatient.lines_so_far(name).count("ready") == 2, 15, "the second attempt")
        hung = alive(first)
        assert hung, "nothing hangs: the test shows nothing"
        time.sleep(0.5)
        impatient.sagemaker.stop_training_job(TrainingJobName=name)
        assert impatient.wait(name, 40)["TrainingJobStatus"] == "Stopped"
        said = [line for line in impatient.lines_so_far(name) if "should be restarted" in line]
        assert len(said) == 1 and "python" in said[0], said
        log = (impatient.server.home / "server.log").read_text()
        assert "hangs in the kernel" in log and not list((impatient.server.home / "run").glob(f"{name}*"))
    wait_for(lambda: not alive(hung), 10, "end of the process that hung")
