# SPDX-License-Identifier: Apache-2.0
"""Starting things: the server, and a user's program in a two-instance job.

create-to-user-code  create_training_job sent -> first line of the user's Python script on the last of
                     two instances, under the torchrun form; beside it PyTorch's own torchrun bringing
                     up the same script as two nodes on loopback
create-answer        the server's share: create_training_job sent -> answered
server-start         process start -> first answer; beside it moto's server (a mock of the same API)
server-rss           resident memory of the idle server after a first job; beside it moto's
quickstart-again     the whole of ./yard quickstart on a prepared machine
quickstart-fresh     the same in a bare root, installing and building included; only when it is named
"""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from conftest import BINARY, ROOT, Jobs, Server
from figures import beside, case

# The script does nothing but say when its first line ran, in seconds since the epoch.
SCRIPT = "import time; print('first line', repr(time.time()), flush=True)\n"
FIRST = re.compile(r"first line ([\d.]+)")


def environment_of(name):
    return Path(subprocess.run([ROOT / "tools/python_env", name], check=True, capture_output=True,
                               text=True).stdout.strip())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def resident(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


def create_to_user_code(jobs):
    """Seconds until the last of two instances runs user code, and until create was answered."""
    name = jobs.new_name("start")
    request = jobs.request(name, SCRIPT, instances=2, torchrun=True)
    sent = time.time()
    jobs.sagemaker.create_training_job(**request)
    answered = time.time()
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    times = [float(found[1]) for line in jobs.lines(name) if (found := FIRST.search(line))]
    assert len(times) == 2, times
    return max(times) - sent, answered - sent


def torchrun(folder):
    """Seconds from starting torchrun on two nodes of one machine to the script's first line on both."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    port = free_port()
    program = environment_of("torch") / "bin/torchrun"
    sent = time.time()
    nodes = [subprocess.Popen([program, "--nnodes", "2", "--nproc_per_node", "1", "--node_rank", str(rank),
                               "--master_addr", "127.0.0.1", "--master_port", str(port), script],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for rank in range(2)]
    times = [float(FIRST.search(node.communicate(timeout=120)[0])[1]) for node in nodes]
    assert all(node.returncode == 0 for node in nodes)
    return max(times) - sent


def until_answer(process, url):
    while process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=1)
            return time.monotonic()
        except urllib.error.HTTPError:
            return time.monotonic()
        except OSError:
            time.sleep(0.001)
    raise SystemExit(f"the server on {url} ended")


def start_ours(home):
    port = free_port()
    started = time.monotonic()
    process = subprocess.Popen([BINARY, "server", "--home", home, "--listen", f"127.0.0.1:{port}"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = until_answer(process, f"http://127.0.0.1:{port}/yard/health") - started
    memory = resident(process.pid)
    process.terminate()
    assert process.wait(30) == 0
    return seconds, memory


def start_moto():
    port = free_port()
    started = time.monotonic()
    process = subprocess.Popen([environment_of("peers") / "bin/moto_server", "-H", "127.0.0.1", "-p", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = until_answer(process, f"http://127.0.0.1:{port}/moto-api/") - started
    memory = resident(process.pid)
    process.terminate()
    process.wait(30)
    return seconds, memory


def starting_a_job(folder, runs):
    server = Server(folder).start()
    try:
        jobs = Jobs(server)
        create_to_user_code(jobs)
        torchrun(folder)
        measured = [(create_to_user_code(jobs), torchrun(folder)) for _ in range(runs)]
        memory = resident(server.process.pid)
    finally:
        assert server.stop() == 0
    code, answer = [m[0][0] for m in measured], [m[0][1] for m in measured]
    return [case("create-to-user-code", "s", code, peer=[m[1] for m in measured], peer_name="torchrun, PyTorch 2.15", target=1.5),
            case("create-answer", "s", answer, target=0.05), case("server-rss-after-jobs", "MiB", [memory])]


def starting_the_server(folder, runs):
    home = folder / "home"
    home.mkdir()
    start_ours(home), start_moto()
    measured = [(start_ours(home), start_moto()) for _ in range(runs)]
    return [case("server-start", "s", [m[0][0] for m in measured], peer=[m[1][0] for m in measured], peer_name="moto 5.2.5", target=0.3),
            case("server-rss", "MiB", [m[0][1] for m in measured], peer=[m[1][1] for m in measured], peer_name="moto 5.2.5", target=60)]


def quickstart(_, runs):
    """The whole command on a prepared machine. It stops no server that was running before."""
    with tempfile.TemporaryDirectory() as home:
        seconds = []
        env = os.environ | {"TRAINYARD_HOME": home}
        for _ in range(runs):
            started = time.monotonic()
            subprocess.run([ROOT / "yard", "quickstart"], env=env, check=True, stdout=sys.stderr)
            seconds.append(time.monotonic() - started)
        subprocess.run([ROOT / "yard", "down"], env=env, check=True, stdout=sys.stderr)
    return [case("quickstart-again", "s", seconds, target=180)]


def fresh_quickstart(_, __):
    """On a bare machine: once, for it takes a quarter of an hour."""
    started = time.monotonic()
    done = subprocess.run([ROOT / "yard", "bare", "./yard", "quickstart"], check=True, stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - started
    sys.stderr.write(done.stdout)
    built = re.search(r"of which installing and building took (\d+) s", done.stdout)
    return [case("quickstart-fresh", "s", [seconds], target=900, also=[beside("installing and building", "s", int(built[1]), 480)])]


def run(runs, only):
    parts = {"job": starting_a_job, "server": starting_the_server, "quickstart-again": quickstart,
             "quickstart-fresh": fresh_quickstart}
    chosen = only or (["job", "server"] if runs == 1 else ["job", "server", "quickstart-again"])
    cases = []
    for name in chosen:
        if name not in parts:
            raise SystemExit(f"no such case: {name} (one of {', '.join(parts)})")
        with tempfile.TemporaryDirectory() as folder:
            cases += parts[name](Path(folder), runs)
    return cases
