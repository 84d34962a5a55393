# SPDX-License-Identifier: Apache-2.0
"""Jobs side by side, some hostile: they get nothing of the others, of the server or of the machine."""
import json
import re
import socket
import subprocess
import threading
import urllib.parse
from pathlib import Path

import pytest
from conftest import jobs_on, wait_for
from false_server import outlives_a_false_server

pytestmark = [pytest.mark.root, pytest.mark.at_once]

HOSTILE = (Path(__file__).parent / "hostile_program.py").read_text()

# Has something in every place that others might see, and counts who comes. Says at its stop what it has seen.
VICTIM = '''
import ctypes, json, os, signal, socket, sys, threading
libc = ctypes.CDLL(None)
places = ["/dev/shm/victim", "/tmp/victim", "/var/tmp/victim"]
for place in places:
    open(place, "w").write("secret")
assert libc.shmget(0x5943, 64, 0o1666) >= 0
visits = []
def count(listener):
    while True:
        visits.append(str(listener.accept()[1]))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0yard-victim")
abstract.listen()
for listener in (socket.create_server(("0.0.0.0", 5555)), abstract):
    threading.Thread(target=count, args=(listener,), daemon=True).start()
def end(*_):
    print(json.dumps({"visits": visits, "intact": all(open(p).read() == "secret" for p in places)}), flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print(json.dumps({"address": socket.gethostbyname(socket.gethostname()), "gateway": os.environ["AWS_ENDPOINT_URL"],
                  "path": os.environ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]}), flush=True)
while True:
    signal.pause()
'''


@pytest.fixture(scope="module")
def bystander():
    """A service of the host on all of its addresses, which is none of an isolated job's business."""
    visits, listener = [], socket.create_server(("0.0.0.0", 0))

    def listen():
        try:
            while True:
                connection, peer = listener.accept()
                visits.append(peer)
                connection.close()
        except OSError:
            pass
    threading.Thread(target=listen, daemon=True).start()
    yield listener.getsockname()[1], visits
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def host_addresses():
    shown = subprocess.run(["ip", "-4", "-o", "address"], stdout=subprocess.PIPE, text=True, check=True).stdout
    # A few: each attempt that is dropped takes its time.
    return [address for address in re.findall(r"inet ([0-9.]+)/", shown) if not address.startswith("127.")][:4]


def said(jobs, name):
    """The JSON that a job has printed so far; the first job of a server also makes the log group."""
    try:
        return [json.loads(line) for line in jobs.lines(name) if line.startswith("{")]
    except jobs.logs.exceptions.ResourceNotFoundException:
        return []


@pytest.fixture(scope="module")
def attack(server, jobs, bystander):
    """The end of {job: description} and what each said, after one job was attacked by two others."""
    victim = jobs.create("victim", VICTIM)
    about = wait_for(lambda: next(iter(said(jobs, victim)), None), 30, "the victim's first line")
    gateway = urllib.parse.urlsplit(about["gateway"])
    given = {"home": server.home, "victim": victim, "victim_address": about["address"], "victim_path": about["path"],
             "victim_gateway": gateway.hostname, "victim_gateway_port": gateway.port, "bystander_port": bystander[0],
             "server_port": urllib.parse.urlsplit(server.endpoint).port, "host_addresses": json.dumps(host_addresses())}
    opened = jobs.create("hostile", HOSTILE, hyperparameters=given | {"isolated": "false"})
    isolated = jobs.create("isolated", HOSTILE, hyperparameters=given | {"isolated": "true"}, EnableNetworkIsolation=True)
    ended = {"opened": jobs.wait(opened, 90), "isolated": jobs.wait(isolated, 90)}
    alive = jobs.describe(victim)["TrainingJobStatus"]
    jobs.sagemaker.stop_training_job(TrainingJobName=victim)
    return ended | {"victim": jobs.wait(victim), "alive": alive, "path": about["path"]}


@pytest.mark.parametrize("who", ["opened", "isolated"])
def test_a_hostile_job_gets_nothing(jobs, attack, who):
    job = attack[who]
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    report = said(jobs, job["TrainingJobName"])[0]
    assert not report["got"], "\n".join(f"{name}: {what}" for name, what in report["got"].items())
    assert len(report["tried"]) >= 80, len(report["tried"])


def test_the_victim_has_noticed_nothing(jobs, attack):
    assert attack["alive"] == "InProgress"
    assert attack["victim"]["TrainingJobStatus"] == "Stopped"
    assert said(jobs, attack["victim"]["TrainingJobName"])[-1] == {"visits": [], "intact": True}


def test_an_isolated_job_reached_no_service_of_the_host(attack, bystander):
    assert bystander[1] == []


def test_the_attacks_find_what_is_not_defended(tmp_path, server):
    """The program itself, outside of any instance: it must see the server's home, processes and ports."""
    given = {"home": str(server.home), "victim": "x", "victim_address": "127.0.0.1", "victim_path": "/x", "isolated": False,
             "victim_gateway": "127.0.0.1", "victim_gateway_port": 1, "bystander_port": 1, "host_addresses": [],
             "server_port": urllib.parse.urlsplit(server.endpoint).port}
    # Up to the rights: what follows would be done to this machine.
    harmless = HOSTILE.split("# To have opened it is enough")[0] + "print(json.dumps(sorted(got)))"
    harmless = harmless.replace('for place in ("/usr/bin/planted"', 'for place in () and ("/usr/bin/planted"')
    program = tmp_path / "program.py"
    program.write_text(harmless)
    done = subprocess.run(["python3", program], env={"SM_HPS": json.dumps(given), "PATH": "/usr/bin:/bin"},
                          stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    got = json.loads(done.stdout)
    for name in (f"files below {server.home}", "the server's credentials", "the server's objects", "read /etc/shadow",
                 "command lines of servers and supervisors"):
        assert name in got, (name, got)


def test_the_attacks_by_namespaces_and_keys_find_a_container_without_a_filter():
    """What the filter of system calls alone stands in the way of: a container with no rights at all, but without it."""
    start = HOSTILE.split("# --- The server's home")[0]
    rights = HOSTILE.split("# --- Rights ---")[1].split('@attempt("mount")')[0]
    container = ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp", "--proc", "/proc",
                 "--cap-drop", "ALL", "--", "python3", "-c", start + rights + "print(json.dumps([tried, sorted(got)]))"]
    done = subprocess.run(container, env={"SM_HPS": "{}", "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE, text=True, check=True,
                          timeout=60)
    tried, got = json.loads(done.stdout)
    assert got == sorted(name for name in tried if "user namespace" in name or "key" in name)
    assert len(got) == 11, got


def test_nothing_that_was_written_down_holds_a_secret(server, jobs, attack):
    """Keys and tokens are in the database and in 0600 files, and nowhere else."""
    key = server.keys()[1]
    texts = [server.home / "server.log", *server.home.glob("logs/**/*"), *server.home.glob("run/**/supervisor.log")]
    assert len(texts) > 2
    for path in filter(Path.is_file, texts):
        content = path.read_bytes()
        assert key.encode() not in content, path
        assert b"Bearer " not in content and b"SecretAccessKey" not in content, path
    for path in server.home.glob("run/**/token"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_whoever_takes_the_servers_address_learns_nothing_and_is_not_believed(tmp_path):
    with jobs_on(tmp_path) as jobs:
        outlives_a_false_server(jobs)
