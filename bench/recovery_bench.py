# SPDX-License-Identifier: Apache-2.0
"""How long a job of two instances is held up by what happens to it.

killed-to-user-code  kill -9 of everything on one instance -> the script's first line again, on the last of the
                     two; beside it PyTorch's torchrun, two nodes on loopback, which restarts its workers when
                     one of them is killed
silent-to-user-code  SIGSTOP of everything on one instance, or its link cut, in turn -> the same
server-restart       kill -9 of the server under two such jobs, started again at once -> it answers for both
                     jobs, and shows lines of all instances that were printed after its death
stop-to-stopped      StopTrainingJob sent -> Stopped, artefacts in S3; the program exits on SIGTERM at once

and the cases of other benches that belong to the same promise.
"""
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import metrics_bench
import mirror_bench
from conftest import Jobs, Server
from machines import Machine, alive
from start_bench import environment_of, free_port

# Says when its first line ran, then again and again that it is there, until the bench makes a file.
SCRIPT = '''
import os, signal, sys, time
def leave(*_):
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
print("first line", repr(time.time()), flush=True)
open("/opt/ml/model/small", "w").write("x" * 1000)
while not os.path.exists("/opt/ml/finish"):
    time.sleep(0.02)
    print("still", repr(time.time()), flush=True)
'''
FIRST = re.compile(r"^first line ([\d.]+)")
STILL = re.compile(r"^still ([\d.]+)")
HOSTS = ("algo-1", "algo-2")


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.005)
    raise SystemExit(f"nothing within {seconds} s")


def times(jobs, name, what, host=None):
    try:
        return [float(found[1]) for line in jobs.lines(name, host) if (found := what.search(line))]
    except jobs.logs.exceptions.ResourceNotFoundException:
        return []


def running_job(jobs):
    name = jobs.create("recovery", SCRIPT, instances=2, torchrun=True)
    wait_for(lambda: len(times(jobs, name, FIRST)) == 2)
    return name, [Machine(jobs.server, name, host) for host in HOSTS]


def finish(jobs, name, machines):
    for machine in machines:
        (machine.scratch / "ml" / "finish").touch()
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")


def until_user_code(jobs, fault):
    """Seconds from a fault of algo-2 until the last instance runs user code in the next attempt."""
    name, machines = running_job(jobs)
    old = machines[1].pids()
    began = time.time()
    fault(machines[1])
    seen = wait_for(lambda: len(found := times(jobs, name, FIRST)) == 4 and found)
    assert not alive(old) and [a["Epoch"] for a in jobs.attempts(name)] == [1, 2]
    finish(jobs, name, machines)
    return max(seen) - began


def torchrun_restart(folder):
    """Seconds from kill -9 of one of torchrun's two workers until the last of their successors runs."""
    script = folder / "worker.py"
    script.write_text("import os, time\nprint('first line', repr(time.time()), os.getpid(), flush=True)\ntime.sleep(600)\n")
    place, program = f"127.0.0.1:{free_port()}", environment_of("torch") / "bin/torchrun"
    outputs = [folder / f"node-{rank}" for rank in range(2)]
    nodes = [subprocess.Popen([program, "--nnodes", "2", "--nproc_per_node", "1", "--max-restarts", "3",
                               "--rdzv-backend", "c10d", "--rdzv-endpoint", place, script],
                              stdout=output.open("w"), stderr=subprocess.DEVNULL,
                              env=os.environ | {"TMPDIR": str(folder)}) for output in outputs]
    def first_lines(count):
        """(time, pid) of each, when there are so many."""
        found = [line.split()[2:] for output in outputs for line in output.read_text().splitlines() if FIRST.search(line)]
        return len(found) == count and [(float(at), int(pid)) for at, pid in found]
    try:
        before = wait_for(lambda: first_lines(2))
        began = time.time()
        os.kill(before[1][1], signal.SIGKILL)
        return max(at for at, _ in wait_for(lambda: first_lines(4))) - began
    finally:
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.wait(60)


def killed(jobs, folder, runs):
    ours, peer = [], []
    for _ in range(runs + 1):  # the first warms up
        ours.append(until_user_code(jobs, Machine.kill))
        peer.append(torchrun_restart(folder))
    return case("killed-to-user-code", ours[1:], 3.0, statistics.median(peer[1:]), "torchrun, a worker killed")


def silent(jobs, _, runs):
    faults = (Machine.stop, Machine.cut)
    return case("silent-to-user-code", [until_user_code(jobs, faults[i % 2]) for i in range(max(2, runs))], 8.0)


def server_restart(jobs, _, runs):
    running = [running_job(jobs) for _ in range(2)]
    seconds = []

    def all_speak(since):
        return all(max(times(jobs, name, STILL, host), default=0) > since for name, _ in running for host in HOSTS)

    for _ in range(runs + 1):
        began, since = time.monotonic(), time.time()
        jobs.server.kill()
        jobs.server.start()
        for name, _ in running:
            assert jobs.describe(name)["SecondaryStatus"] == "Training"
        wait_for(lambda: all_speak(since))
        seconds.append(time.monotonic() - began)
    for name, machines in running:
        finish(jobs, name, machines)
        assert len(jobs.attempts(name)) == 1
    return case("server-restart", seconds[1:], 1.0)


def stop_to_stopped(jobs, _, runs):
    seconds = []
    for _ in range(runs + 1):
        name, _ = running_job(jobs)
        began = time.monotonic()
        jobs.sagemaker.stop_training_job(TrainingJobName=name)
        wait_for(lambda: jobs.describe(name)["TrainingJobStatus"] == "Stopped")
        seconds.append(time.monotonic() - began)
        assert set(jobs.artifact(name)) == {"small"}
    return case("stop-to-stopped", seconds[1:], 1.0)


def case(name, seconds, target, peer=None, peer_name=None):
    ours = statistics.median(seconds)
    return {"case": name, "unit": "s", "better": "lower", "ours": ours, "peer": peer, "peer_name": peer_name,
            "ratio": peer / ours if peer else None, "target": target, "all": seconds}


OWN = {"killed-to-user-code": killed, "silent-to-user-code": silent, "server-restart": server_restart,
       "stop-to-stopped": stop_to_stopped}
BORROWED = {"mirror-lag": mirror_bench, "metrics-rate": metrics_bench, "metrics-hostile-log": metrics_bench}


def run(runs, only):
    cases = []
    for name in only or [*OWN, *BORROWED]:
        if name in BORROWED:
            cases += BORROWED[name].run(runs, [name])
        elif name in OWN:
            with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
                jobs = Jobs(Server(Path(home)).start())
                try:
                    cases.append(OWN[name](jobs, Path(folder), runs))
                finally:
                    jobs.stop_all()
                    assert jobs.server.stop() == 0
        else:
            raise SystemExit(f"no such case: {name} (one of {', '.join([*OWN, *BORROWED])})")
    return cases
