# SPDX-License-Identifier: Apache-2.0
"""What is different without root: the machine's network is shared, and user namespaces do the rest.
The tests marked `both_ways` in the other files are the rest of the evidence."""
import collections
import contextlib
import json
import os
import random
import re
import socket
import stat
import threading

import pytest
from conftest import Jobs, Server, jobs_on, wait_for
from false_server import outlives_a_false_server
from machines import Machine, alive, finish, processes_with
from ordinary_user import OrdinaryServer, delegated_groups, own_group

pytestmark = pytest.mark.ordinary

PEERS = '''
import json, os, socket, threading, time
hosts, me, rank = json.loads(os.environ["SM_HOSTS"]), os.environ["SM_CURRENT_HOST"], int(os.environ["RANK"])
assert socket.gethostname() == me and hosts[rank] == me, (socket.gethostname(), me, hosts, rank)
assert os.environ["MASTER_ADDR"] == hosts[0]
assert all(os.environ[name] == "lo" for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"))
addresses = [socket.gethostbyname(h) for h in hosts]
assert len(set(addresses)) == len(hosts), addresses
port = int(os.environ["TRAINYARD_PORTS"].split("-")[0])
listener = socket.create_server((addresses[rank], port))
def greet():
    for _ in range(len(hosts) - 1):
        peer, _ = listener.accept()
        peer.sendall(me.encode()); peer.close()
thread = threading.Thread(target=greet); thread.start()
def ask(host):
    for _ in range(200):
        try:
            with socket.create_connection((host, port), 1) as s:
                return s.recv(100).decode()
        except OSError:
            time.sleep(0.02)
    raise SystemExit("no answer from " + host)
heard = sorted(ask(h) for h in hosts if h != me)
thread.join()
print("rank", rank, "heard", *heard)
'''

DDP = '''
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.full((2, 4), float(dist.get_rank() + 1))).sum().backward()
gradient = model.module.weight.grad[0, 0].item()
print("rank", dist.get_rank(), "of", dist.get_world_size(), "gradient", gradient, "port", os.environ["MASTER_PORT"])
dist.destroy_process_group()  # or PyTorch's threads may abort a process whose peer has left
'''

WAITS = '''
import os, time
print("start", flush=True)
while not os.path.exists("/opt/ml/finish"):
    time.sleep(0.05)
'''


def running(jobs, stem, script=WAITS, instances=1, **options):
    name = jobs.create(stem, script, instances=instances, torchrun=True, **options)
    wait_for(lambda: jobs.lines_so_far(name).count("start") == instances, 30, "start of the program")
    return name, [Machine(jobs.server, name, f"algo-{i + 1}") for i in range(instances)]


def test_instances_see_each_other_by_name_at_addresses_of_the_loopback(ordinary_jobs):
    jobs = ordinary_jobs
    job = jobs.run("peers", PEERS, instances=3, torchrun=True)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    for rank in range(3):
        others = " ".join(f"algo-{i + 1}" for i in range(3) if i != rank)
        assert f"rank {rank} heard {others}" in jobs.lines(job["TrainingJobName"], f"algo-{rank + 1}")


def test_two_jobs_train_at_once_with_the_port_of_each(ordinary_jobs):
    jobs = ordinary_jobs
    names = [jobs.create("ddp", DDP, instances=2, torchrun=True) for _ in range(2)]
    ports = set()
    for name in names:
        job = jobs.wait(name, 120)
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        found = [re.fullmatch(r"rank (\d) of 2 gradient 3\.0 port (\d+)", line) for line in jobs.lines(name)]
        assert sorted(match[1] for match in found if match) == ["0", "1"], jobs.lines(name)
        ports |= {match[2] for match in found if match}
    assert len(ports) == 2, ports


@contextlib.contextmanager
def ports_grabbed():
    """Somebody takes free ports all the time, as programs do that ask the kernel for one, and holds hundreds."""
    ended, held = threading.Event(), collections.deque(maxlen=300)

    def grab():
        while not ended.wait(0.002):
            held.append(socket.create_server((random.choice(("", "127.0.0.1")), 0)))
    grabber = threading.Thread(target=grab)
    grabber.start()
    try:
        yield
        assert len(held) == held.maxlen
    finally:
        ended.set()
        grabber.join()
        for listener in held:
            listener.close()


# cases.md 4: a port that was free a moment ago. MASTER_PORT is bound at all addresses, as torch does it.
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_launches_in_a_row_find_their_ports_beside_a_program_that_grabs_some(ordinary_jobs):
    jobs = ordinary_jobs
    script = '''
import os, socket
first = int(os.environ["TRAINYARD_PORTS"].split("-")[0])
listeners = [socket.create_server(("", int(os.environ["MASTER_PORT"]))),
             socket.create_server((os.environ["CURRENT_HOST"], first))]
print("bound", len(listeners))
'''
    with ports_grabbed():
        for _ in range(200):
            job = jobs.run("grabbed", script, torchrun=True)
            assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
            name = job["TrainingJobName"]
            assert "bound 2" in jobs.lines(name) and len(jobs.attempts(name)) == 1


def test_the_container_is_that_of_the_contract(ordinary_jobs):
    script = '''
import os, subprocess
assert os.getuid() == 0 and os.getpid() < 10 and os.path.expanduser("~") == "/root"
assert os.listdir("/opt/ml/input/config") and os.access("/opt/ml/model", os.W_OK)
for path in ("/etc/x", "/usr/x", "/opt/tool/x"):
    try:
        open(path, "w"); print("wrote", path)
    except OSError:
        pass
files = [name for top in ("/home", "/root", "/tmp", "/run") for folder, _, names in os.walk(top) for name in names
         if "trainyard/env" not in folder]
processes = [name for name in os.listdir("/proc") if name.isdigit()]
print("seen", len(processes) < 20, files, open("/opt/link/name").read().strip() if os.path.isdir("/opt/tool") else "tool")
print("mounts refused", subprocess.run(["mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True).returncode != 0)
os.mkdir("/opt/ml/closed"); open("/opt/ml/closed/x", "w"); os.chmod("/opt/ml/closed", 0)
'''
    jobs = ordinary_jobs
    job = jobs.run("contract", script)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    told = jobs.lines(job["TrainingJobName"])
    assert "seen True [] tool" in told and "mounts refused True" in told, told
    assert not any(line.startswith("wrote") for line in told), told
    wait_for(lambda: not (jobs.server.home / "run" / job["TrainingJobName"]).exists(), 10, "clean-up")


# The machine's network is shared, so the neighbour's endpoint can be reached; that must not help.
ATTACK = '''
import json, os, sys, urllib.error, urllib.request
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
endpoint, home = arguments["--endpoint"], arguments["--home"]
def status(path, token=None):
    request = urllib.request.Request(endpoint + path, headers={"Authorization": token} if token else {})
    try:
        return urllib.request.urlopen(request, timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code
own_token = os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
own_path = "/v2/credentials/" + os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"].rsplit("/", 1)[1]
print("guesses", status("/"), status("/v2/credentials/"), status(own_path, own_token))
own = os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"].split("/v2/")[0]
endpoint = own
print("own", status(own_path, own_token), "without token", status(own_path), "wrong", status(own_path, own_token[:-1] + "."))
def strange(pid):
    try:
        text = open(f"/proc/{pid}/environ", "rb").read()
    except OSError:
        return False
    return b"AWS_CONTAINER" in text and own_token.encode() not in text
print("environments", [p for p in os.listdir("/proc") if p.isdigit() and strange(p)])
import boto3, botocore.exceptions
for call in ("list_training_jobs", "stop_training_job"):
    client = boto3.client("sagemaker", endpoint_url=arguments["--api"])
    try:
        getattr(client, call)(**({"TrainingJobName": arguments["--victim"]} if call.startswith("stop") else {}))
        print(call, "was allowed")
    except botocore.exceptions.ClientError as error:
        print(call, error.response["Error"]["Code"])
print("home", os.listdir(home) if os.path.isdir(home) else None)
'''


def test_a_job_cannot_read_the_credentials_of_its_neighbour(ordinary_jobs):
    jobs = ordinary_jobs
    victim, (machine,) = running(jobs, "victim")
    gang = json.loads((machine.gang / "gang.json").read_text())
    block = int(gang["subnet"].split(".")[2])
    endpoint = f"http://127.77.{block}.1:{12_000 + 100 * block + 2}"
    job = jobs.run("attacker", ATTACK, hyperparameters={
        "endpoint": endpoint, "home": jobs.server.home, "api": jobs.server.endpoint, "victim": victim})
    told = jobs.lines(job["TrainingJobName"])
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert "guesses 404 404 404" in told, told
    assert "own 200 without token 401 wrong 401" in told, told
    for call in ("list_training_jobs", "stop_training_job"):
        assert f"{call} AccessDeniedException" in told, told
    assert "environments []" in told and ("home []" in told or "home None" in told), told
    assert finish(jobs, victim, [machine])["TrainingJobStatus"] == "Completed"


def test_one_instance_can_be_isolated_and_several_are_refused(ordinary_jobs):
    jobs = ordinary_jobs
    script = '''
import socket
def reach(*address):
    try:
        socket.create_connection(address, 2); return True
    except OSError:
        return False
listener = socket.create_server(("127.0.0.1", 5555))
host, port = "%s".split(":")
print("own", reach("127.0.0.1", 5555), "server", reach(host, int(port)))
''' % jobs.server.endpoint.removeprefix("http://")
    job = jobs.run("isolated", script, EnableNetworkIsolation=True)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert "own True server False" in jobs.lines(job["TrainingJobName"])
    job = jobs.run("isolated", script, instances=2, EnableNetworkIsolation=True)
    assert job["TrainingJobStatus"] == "Failed" and "EnableNetworkIsolation" in job["FailureReason"]
    assert "root" in job["FailureReason"], job["FailureReason"]


def test_a_job_outlives_the_death_of_the_server(ordinary_user):
    server = OrdinaryServer(ordinary_user, home="mortal").start()
    jobs = Jobs(server)
    name, machines = running(jobs, "mortal", instances=2)
    supervisors = [machine.supervisor() for machine in machines]
    server.kill()
    server.start()
    assert alive(supervisors) == supervisors
    job = finish(jobs, name, machines)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert len(jobs.attempts(name)) == 1
    wait_for(lambda: not any((server.home / "run").iterdir()), 10, "clean-up")
    assert not processes_with(str(server.home / "run"))
    assert server.stop() == 0


def test_whoever_takes_the_servers_address_learns_nothing_and_is_not_believed(ordinary_user):
    server = OrdinaryServer(ordinary_user, home="usurped").start()
    outlives_a_false_server(Jobs(server))
    assert server.stop() == 0


def test_what_covers_parts_of_proc_is_named(ordinary_user):
    script = 'mount -t tmpfs masked /proc/tty && mount --bind /dev/null /proc/version && exec "$0" "$@"'
    around = ("unshare", "--map-root-user", "--mount", "sh", "-c", script)
    server = OrdinaryServer(ordinary_user, "--network", "loopback", home="masked", around=around).start()
    job = Jobs(server).run("masked", "print('never')")
    assert job["TrainingJobStatus"] == "Failed"
    for part in ("/proc/tty, /proc/version are covered", "systempaths=unconfined"):
        assert part in job["FailureReason"], job["FailureReason"]
    assert "no job can run" in (server.home / "server.log").read_text()
    assert server.stop() == 0


def test_what_is_in_the_way_of_user_namespaces_is_named(ordinary_user):
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"'
    around = ("unshare", "--map-root-user", "sh", "-c", script)
    server = OrdinaryServer(ordinary_user, "--network", "loopback", home="barred", around=around).start()
    jobs = Jobs(server)
    job = jobs.run("barred", "print('never')")
    assert job["TrainingJobStatus"] == "Failed"
    for part in ("user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces="):
        assert part in job["FailureReason"], job["FailureReason"]
    assert "no job can run" in (server.home / "server.log").read_text()
    assert server.stop() == 0


GREEDY = '''
import os, sys, time
if os.environ["SM_CURRENT_HOST"] == "algo-2":
    print("takes", len(bytearray(400 << 20)))
time.sleep(60)
'''
FORKS = '''
import os, time
for n in range(100):
    try:
        if os.fork() == 0:
            time.sleep(60)
    except OSError:
        print("refused after", n)
        break
'''
LIMITS = ("--instance-memory", "150MiB", "--instance-processes", "60")


def memory_runs_out(server):
    jobs = Jobs(server)
    job = jobs.run("greedy", GREEDY, instances=2, torchrun=True)
    assert job["TrainingJobStatus"] == "Failed"
    assert "ran out of memory" in job["FailureReason"] and "algo-2" in job["FailureReason"], job["FailureReason"]
    job = jobs.run("forks", FORKS)
    told = jobs.lines(job["TrainingJobName"])
    assert any(re.fullmatch(r"refused after [1-5]\d", line) for line in told), told
    wait_for(lambda: not any((server.home / "run").iterdir()), 10, "clean-up")
    assert server.stop() == 0


needs_version_1 = pytest.mark.skipif(os.geteuid() != 0 or not own_group("memory") or not own_group("pids"),
                                     reason="needs root and control groups of version 1")


@needs_version_1
def test_limits_hold_for_an_ordinary_user_with_delegated_control_groups(ordinary_user):
    with delegated_groups(ordinary_user, "memory", "pids") as groups:
        memory_runs_out(OrdinaryServer(ordinary_user, *LIMITS, home="limited", groups=groups).start())


@needs_version_1
def test_limits_hold_for_instances_of_root(tmp_path):
    memory_runs_out(Server(tmp_path, *LIMITS).start())


def test_state_is_the_users_alone(ordinary_user, ordinary_server):
    assert ordinary_server.home == ordinary_user.home / ".local/share/trainyard"
    for path in (ordinary_server.home, ordinary_server.home / "credentials"):
        found = os.stat(path)
        assert found.st_uid == ordinary_user.uid and not stat.S_IMODE(found.st_mode) & 0o077, path
