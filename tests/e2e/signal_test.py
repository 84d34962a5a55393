# SPDX-License-Identifier: Apache-2.0
"""`trainyard signal`: SIGUSR1 and SIGUSR2 of a user for every rank of a job, whoever has started it."""
import json
import subprocess

import pytest
from conftest import BINARY, wait_for

pytestmark = pytest.mark.root

TORCHRUN = {"sagemaker_torch_distributed_enabled": "true", "sagemaker_nproc_per_node": "2"}
MPI = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "2"}

# Counts what it hears, and ends once it has heard two of USR2.
COUNT = '''
import os, signal, time
rank, heard = os.environ["RANK"], {"USR1": 0, "USR2": 0}
def hear(number, _):
    name = signal.Signals(number).name.removeprefix("SIG")
    heard[name] += 1
    print("heard", name, heard[name], "rank", rank, flush=True)
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, hear)
print("listening", rank, flush=True)
while heard["USR2"] < 2:
    time.sleep(0.02)
print("total", heard["USR1"], heard["USR2"], "rank", rank, flush=True)
'''


def trainyard(server, *words):
    return subprocess.run([BINARY, *words], env=server.environment(), capture_output=True, text=True, timeout=60)


def said(jobs, name, start):
    """What ranks have said that begins so, without the number of the rank that the log puts before it."""
    lines = (line.split("] ", 1)[-1] for line in jobs.lines_so_far(name))
    return sorted(line for line in lines if line.startswith(start))


def from_all_ranks(text):
    return [f"{text}{rank}" for rank in range(4)]


@pytest.mark.both_ways
@pytest.mark.parametrize("launcher", [TORCHRUN, MPI], ids=["torchrun", "mpi"])
def test_every_rank_on_every_instance_gets_each_signal_once(jobs, server, launcher):
    name = jobs.create("signal", COUNT, instances=2, hyperparameters=launcher)
    wait_for(lambda: said(jobs, name, "listening") == from_all_ranks("listening "), 60, "start of all ranks")
    for sent, heard in (("USR1", "heard USR1 1 rank "), ("usr2", "heard USR2 1 rank "), ("SIGUSR2", "heard USR2 2 rank ")):
        done = trainyard(server, "signal", name, sent)
        assert (done.returncode, done.stderr) == (0, ""), done
        assert done.stdout.endswith(f"is on its way to the processes of {name} on algo-1, algo-2\n")
        wait_for(lambda: said(jobs, name, heard) == from_all_ranks(heard), 30, f"{sent} in all ranks")
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert said(jobs, name, "total") == from_all_ranks("total 1 2 rank ")
    assert len(said(jobs, name, "heard")) == 12


# The library installs its own handler when a rank makes a group.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("launcher", [TORCHRUN, pytest.param(MPI, marks=pytest.mark.slow)], ids=["torchrun", "mpi"])
def test_usr2_makes_every_rank_write_its_flight_record(jobs, server, launcher):
    script = '''
import glob, os, time
import torch
import torch.distributed as dist
dist.init_process_group("yard")
dist.all_reduce(torch.ones(10))
print("listening", dist.get_rank(), flush=True)
while not glob.glob(os.environ["TRAINYARD_COMM_STATUS"] + f"/flight-rank-{dist.get_rank()}.*.jsonl"):
    time.sleep(0.05)
dist.barrier()
dist.destroy_process_group()
'''
    name = jobs.create("flight", script, instances=2, hyperparameters=launcher)
    wait_for(lambda: said(jobs, name, "listening") == from_all_ranks("listening "), 600, "start of all ranks")
    assert trainyard(server, "signal", name, "USR2").returncode == 0
    job = jobs.wait(name, 200)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    records = sorted(path.rsplit(".", 2)[0] for path in jobs.artifact(name, "output") if path.startswith("flight-"))
    assert records == [f"flight-algo-{1 + rank // 2}-rank-{rank}" for rank in range(4)], records


def test_whoever_does_not_expect_a_signal_lives_on(jobs, server):
    script = '''
import signal, subprocess, time
sleeper, heard = subprocess.Popen(["sleep", "300"]), []
signal.signal(signal.SIGUSR1, lambda *_: heard.append("heard"))
print("listening", flush=True)
while not heard:
    time.sleep(0.02)
print(*heard, sleeper.poll(), flush=True)
sleeper.kill()
'''
    name = jobs.create("spared", script)
    wait_for(lambda: said(jobs, name, "listening"), 60, "start of the program")
    done = trainyard(server, "signal", "--json", name, "USR1")
    assert json.loads(done.stdout) == {"Hosts": ["algo-1"]}, done
    assert jobs.wait(name)["TrainingJobStatus"] == "Completed"
    assert said(jobs, name, "heard") == ["heard None"]


def test_signals_that_cannot_be_sent_are_refused_with_the_reason(jobs, server):
    name = jobs.create("ended", "pass")
    assert jobs.wait(name)["TrainingJobStatus"] == "Completed"
    for words, code, reason in (
            ((name, "USR1"), 1, f"USR1 cannot be sent to the training job '{name}': it is Completed."),
            (("no-such-job", "USR1"), 1, "there is no training job 'no-such-job'; see trainyard list"),
            ((name, "TERM"), 2, "'TERM' is neither USR1 nor USR2; to end a job: trainyard stop NAME")):
        done = trainyard(server, "signal", *words)
        assert done.returncode == code and reason in done.stderr and not done.stdout, done
    assert "USR2" in trainyard(server, "signal", "--help").stdout


# cases.md 62: the signal of a stop that hits one rank alone. What is promised of it is in docs/operations.md.
def test_a_rank_that_dies_of_a_signal_of_its_own_is_named_and_the_others_may_save(jobs):
    script = '''
import os, signal, socket, sys, time
rank, place = os.environ["RANK"], ("algo-2", 5555)
def save(*_):
    open(f"/opt/ml/output/data/saved-{rank}", "w").write("saved"); sys.exit(0)
if rank == "2":
    listener = socket.create_server(place)
    others = [listener.accept() for _ in range(3)]
    os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, save)
while True:
    try:
        ready = socket.create_connection(place, 5)
        break
    except OSError:
        time.sleep(0.05)
while True:
    time.sleep(0.05)
'''
    job = jobs.run("lone-signal", script, instances=2, hyperparameters=TORCHRUN)
    assert job["TrainingJobStatus"] == "Failed", job
    assert "rank 2 on algo-2" in job["FailureReason"] and "SIGTERM" in job["FailureReason"], job["FailureReason"]
    assert sorted(jobs.artifact(job["TrainingJobName"], "output")) == ["saved-0", "saved-1", "saved-3"]
    assert len(jobs.attempts(job["TrainingJobName"])) == 1
