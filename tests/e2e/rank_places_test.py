# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a job share beyond their containers: memory with those of its other instances on this
machine, although each has a network of its own; and what they show of their collectives, while a job runs
and after it went wrong."""
import json
import os
import struct
import subprocess

import pytest
from conftest import ROOT, wait_for
from machines import Machine, finish

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]

PATIENCE = 600  # seconds; only a job that hangs takes them

# Sums up, then has the library write down what it has done and by what it was carried.
REDUCES = '''
import glob, json, os, signal, time
import torch
import torch.distributed as dist

dist.init_process_group("yard")
rank = dist.get_rank()
numbers = torch.full((1 << 20,), float(rank + 1))
dist.all_reduce(numbers)
assert numbers.eq(3).all(), numbers
os.kill(os.getpid(), signal.SIGUSR2)
pattern = os.environ["TRAINYARD_COMM_STATUS"] + f"/flight-rank-{rank}.*.jsonl"
while not glob.glob(pattern):
    time.sleep(0.01)
head = json.loads(open(glob.glob(pattern)[0]).readline())
print(json.dumps({"rank": rank, "transports": head["transports"],
                  "left": os.listdir("/run/trainyard/comm")}), flush=True)
dist.barrier()
dist.destroy_process_group()
'''

# Rank 1 fails amid a hundred operations; rank 0 lives until its own error has come.
FAILS = '''
import os, signal
import torch
import torch.distributed as dist

signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("yard")
for step in range(100):
    if dist.get_rank() == 1 and step == 90:
        os._exit(3)
    dist.all_reduce(torch.ones(10))
'''

# Goes on until it is told to end, by all ranks together.
REDUCES_ON = '''
import os
import torch
import torch.distributed as dist

dist.init_process_group("yard")
print("start", flush=True)
end = torch.zeros(1)
while not end:
    end = torch.ones(1) if os.path.exists("/opt/ml/finish") else torch.zeros(1)
    dist.all_reduce(end, dist.ReduceOp.MAX)
dist.destroy_process_group()
'''

# Shows what is in the place where ranks meet, and leaves there what a rank leaves that is killed.
LEAVES = '''
import os, socket, time
print("start", os.environ["SM_CURRENT_HOST"], os.listdir("/run/trainyard/comm"), flush=True)
socket.socket(socket.AF_UNIX).bind("/run/trainyard/comm/comm-" + os.environ["SM_CURRENT_HOST"])
while not os.path.exists("/opt/ml/finish"):
    time.sleep(0.05)
'''

# Listens there; its own peer reaches it.
LISTENS = '''
import os, socket, threading, time
door = "/run/trainyard/comm/door"
if os.environ["SM_CURRENT_HOST"] == "algo-1":
    visits = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(door)
    listener.listen()
    def count():
        while True:
            visits.append(listener.accept()[0].recv(10))
    threading.Thread(target=count, daemon=True).start()
else:
    visit = socket.socket(socket.AF_UNIX)
    while visit.connect_ex(door) != 0:
        time.sleep(0.05)
    visit.sendall(b"peer")
print("start", os.environ["SM_CURRENT_HOST"], flush=True)
while not os.path.exists("/opt/ml/finish"):
    time.sleep(0.05)
if os.environ["SM_CURRENT_HOST"] == "algo-1":
    print("visits", visits)
'''

SPIES = '''
import glob, json, os, socket
given = json.loads(os.environ["SM_HPS"])
seen = []
for folder in ["/run/trainyard/comm", given["folder"], os.path.dirname(given["folder"]),
               *(f"/proc/{pid}/root{given['folder']}" for pid in filter(str.isdigit, os.listdir("/proc")))]:
    try:
        seen += [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        pass
    for door in (folder + "/door", folder + "/1/door"):
        if socket.socket(socket.AF_UNIX).connect_ex(door) == 0:
            seen.append("opened " + door)
print("seen", json.dumps(seen))
'''


@pytest.fixture(scope="module", autouse=True)
def backend():
    """The collectives library in the Python environment of jobs, as ./yard build leaves it there."""
    subprocess.run([ROOT / "tools/torch_backend"], check=True, timeout=PATIENCE)


def completed(jobs, name):
    job = jobs.wait(name, PATIENCE)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return jobs.lines(name)


def carried(jobs, stem, torchrun=True, **options):
    """What each of two ranks, on an instance each, says of what has carried its sums."""
    name = jobs.create(stem, REDUCES, instances=2, torchrun=torchrun, **options)
    said = [json.loads(line[line.index("{"):]) for line in completed(jobs, name) if '{"rank"' in line]
    return name, sorted(said, key=lambda one: one["rank"])


def running(jobs, stem, script, **options):
    """A job on two instances whose program has begun on both, and its machines."""
    name = jobs.create(stem, script, instances=2, torchrun=True, **options)
    wait_for_starts(jobs, name, 2)
    return name, [Machine(jobs.server, name, f"algo-{i + 1}") for i in range(2)]


def starts(jobs, name):
    return [line for line in jobs.lines_so_far(name) if line.startswith("start")]


def wait_for_starts(jobs, name, count):
    wait_for(lambda: len(starts(jobs, name)) >= count, PATIENCE, f"{count} starts of the program")


@pytest.mark.both_ways
def test_two_instances_of_a_job_share_memory(jobs):
    name, said = carried(jobs, "shared")
    assert said == [{"rank": rank, "transports": "shm", "left": []} for rank in range(2)]
    # What was asked for by SIGUSR2 comes with the output, too, and the log says so.
    output = jobs.artifact(name, "output")
    for rank in range(2):
        record = next(f for f in output if f.startswith(f"flight-algo-{rank + 1}-rank-{rank}."))
        assert any(f"flight records are in output.tar.gz: {record}" in line for line in jobs.lines(name))
        assert b'"all_reduce"' in output[record]


def test_ranks_under_mpirun_share_memory_too(jobs):
    _, said = carried(jobs, "mpirun", torchrun=False, hyperparameters={"sagemaker_pytorch_ddp_enabled": "true"})
    assert said == [{"rank": rank, "transports": "shm", "left": []} for rank in range(2)]


def test_instances_without_the_folder_go_by_tcp(jobs):
    _, said = carried(jobs, "apart", Environment={"TRAINYARD_COMM_SOCKETS": "/nowhere"})
    assert said == [{"rank": rank, "transports": "tcp", "left": []} for rank in range(2)]


@pytest.mark.both_ways_slow
def test_a_failed_job_leaves_its_last_operations_with_its_output(jobs):
    name = jobs.create("fails", FAILS, instances=2, torchrun=True)
    assert jobs.wait(name, PATIENCE)["TrainingJobStatus"] == "Failed"
    output = jobs.artifact(name, "output")
    record = next(file for file in output if file.startswith("flight-algo-1-rank-0."))
    head, *operations = [json.loads(line) for line in output[record].splitlines()]
    assert head["rank"] == 0 and "rank 1" in head["fault"] and "algo-2" in head["fault"]
    sums = [one for one in operations if one["op"] == "all_reduce"]
    # All of them, and not the last 16; one more, unless the error came before it was asked for.
    assert [one["state"] for one in sums[:90]] == ["completed"] * 90 and len(sums) in (90, 91)
    assert any(record in line for line in jobs.lines(name, "algo-1"))


@pytest.mark.both_ways_slow
def test_progress_is_readable_from_outside_while_a_job_runs(jobs):
    name, machines = running(jobs, "watched", REDUCES_ON)

    def completed_by(rank):
        """The last operation that a rank has completed: words of src/comm/health/recorder.h."""
        folder = f"/proc/{machines[rank].supervisor()}/root{machines[rank].scratch}/status"
        file = next(file for file in os.listdir(folder) if file.startswith(f"rank-{rank}."))
        with open(f"{folder}/{file}", "rb") as record:
            magic, version, _, _, done = struct.unpack("<8s4Q", record.read(40))
        assert (magic, version) == (b"yardrec1", 1)
        return done
    before = [completed_by(rank) for rank in range(2)]
    wait_for(lambda: all(completed_by(rank) > before[rank] + 10 for rank in range(2)), 60, "progress of both ranks")
    finish(jobs, name, machines)


@pytest.mark.both_ways_slow
def test_a_new_attempt_finds_nothing_of_the_one_before_where_ranks_meet(jobs):
    name, machines = running(jobs, "again", LEAVES)
    folder = machines[0].gang / "meeting"
    assert [entry.name for entry in folder.iterdir()] == ["1"]
    assert sorted(entry.name for entry in (folder / "1").iterdir()) == ["comm-algo-1", "comm-algo-2"]
    machines[1].kill()
    wait_for_starts(jobs, name, 4)
    assert [entry.name for entry in folder.iterdir()] == ["2"]
    finish(jobs, name, machines)
    seen = sorted(line.split(" ", 2)[2] for line in starts(jobs, name))
    # Who comes second may see the first one's.
    assert set(seen) <= {"[]", "['comm-algo-1']", "['comm-algo-2']"} and seen.count("[]") >= 2, seen
    wait_for(lambda: not folder.exists(), 30, "the end of the folder with its job")


@pytest.mark.both_ways_slow
def test_another_job_neither_sees_nor_opens_the_place_where_ranks_meet(jobs):
    name, machines = running(jobs, "meets", LISTENS)
    folder = machines[0].gang / "meeting/1"
    assert (folder / "door").is_socket()
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    spy = jobs.create("spies", SPIES, hyperparameters={"folder": folder})
    assert "seen []" in completed(jobs, spy)
    finish(jobs, name, machines)
    assert "visits [b'peer']" in jobs.lines(name, "algo-1")
