# SPDX-License-Identifier: Apache-2.0
"""Who starts the ranks: mpirun, pytorchddp, torchrun, nobody; and what ranks find of each other."""
import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import wait_for
from e2e.training_job_test import HYPERPARAMETERS, streams
from machines import Machine

pytestmark = [pytest.mark.root, pytest.mark.both_ways_slow]

MPI = {"sagemaker_mpi_enabled": "true"}
MPI_2 = MPI | {"sagemaker_mpi_num_of_processes_per_host": "2", "sagemaker_mpi_custom_mpi_options": ""}

ALL_REDUCE = '''
import os, socket
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([float(os.environ["RANK"])])
dist.all_reduce(total)
dist.barrier()
print("sum", total.item(), "rank", dist.get_rank(), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"],
      "on", socket.gethostname(), os.environ["SM_CURRENT_HOST"])
dist.destroy_process_group()
'''
FOUR_SUMS = [f"[rank {r}] sum 6.0 rank {r} of 4 local {r % 2} on algo-{1 + r // 2} algo-{1 + r // 2}" for r in range(4)]


def with_start(lines, start):
    return sorted(line for line in lines if line.startswith(start))


@pytest.mark.parametrize("launcher", [
    MPI_2, {"sagemaker_pytorch_ddp_enabled": "true", "sagemaker_instance_type": "ml.c5.xlarge",
            "sagemaker_mpi_num_of_processes_per_host": "2"}], ids=["mpi", "pytorchddp"])
def test_torch_distributed_runs_on_two_by_two_under_mpirun(jobs, launcher):
    job = jobs.run("all-reduce", ALL_REDUCE, instances=2, hyperparameters=launcher)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert with_start(jobs.lines(job["TrainingJobName"], "algo-1"), "[rank ") == FOUR_SUMS


@pytest.mark.both_ways
def test_mpi_itself_talks_between_instances(jobs):
    # Open MPI's C interface by ctypes: no compiler and no mpi4py in the job.
    script = '''
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
handle = lambda name: ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
assert mpi.MPI_Init(None, None) == 0
mine, total = (ctypes.c_int * 1)(int(os.environ["OMPI_COMM_WORLD_RANK"]) + 1), (ctypes.c_int * 1)(0)
world = handle("ompi_mpi_comm_world")
assert mpi.MPI_Allreduce(mine, total, 1, handle("ompi_mpi_int"), handle("ompi_mpi_op_sum"), world) == 0
big = ctypes.create_string_buffer(8 << 20)
assert mpi.MPI_Bcast(big, len(big), handle("ompi_mpi_byte"), 0, world) == 0
print("total", total[0])
assert mpi.MPI_Finalize() == 0
'''
    job = jobs.run("mpi-api", script, instances=2, hyperparameters=MPI_2)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert with_start(jobs.lines(job["TrainingJobName"]), "[rank ") == [f"[rank {r}] total 10" for r in range(4)]


def test_output_of_all_ranks_is_in_the_leaders_log(jobs):
    script = "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"
    job = jobs.run("mpi-shell", files={"train.sh": script}, program="train.sh", instances=2, hyperparameters=MPI_2)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    name = job["TrainingJobName"]
    assert with_start(jobs.lines(name, "algo-1"), "[rank ") == [
        f"[rank {r}] {r} of 4 on algo-{1 + r // 2}" for r in range(4)]
    other = jobs.lines(name, "algo-2")
    assert with_start(other, "[rank ") == [] and any("log stream of algo-1" in line for line in other)


@pytest.mark.parametrize("launcher", [MPI, {"sagemaker_pytorch_ddp_enabled": "true"}], ids=["mpi", "pytorchddp"])
def test_failing_rank_under_mpirun_is_named_with_its_host_and_exit_code(jobs, launcher):
    script = '''
import os, sys, time
if os.environ["RANK"] == "1":
    print("the loss is not finite", flush=True)
    sys.exit(3)
time.sleep(60)
'''
    job = jobs.run("mpi-exit3", script, instances=2, seconds=30, hyperparameters=launcher)
    assert job["TrainingJobStatus"] == "Failed"
    reason = job["FailureReason"]
    assert reason.startswith("AlgorithmError: rank 1 on algo-2 exited with code 3"), reason
    assert "algo-1 stopped because of it" in reason and reason.endswith("exit code: 3"), reason
    assert "the loss is not finite" in reason


def test_custom_mpi_options_reach_mpirun_and_no_shell(jobs):
    options = "-verbose --NCCL_DEBUG=INFO -x 'FROM_X=$(id) a b' -x OMPI_MCA_btl_vader_single_copy_mechanism=none " \
              "--mca btl tcp,self"
    script = 'import os; print("x is", os.environ["FROM_X"], os.environ["NCCL_DEBUG"])'
    job = jobs.run("mpi-options", script, instances=2,
                   hyperparameters=MPI | {"sagemaker_mpi_custom_mpi_options": json.dumps(options)})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert with_start(jobs.lines(job["TrainingJobName"]), "[rank ") == [
        f"[rank {r}] x is $(id) a b INFO" for r in (0, 1)]


@pytest.mark.parametrize("options, word", [("-x 'FOO", "quotation"), ("--mca plm_rsh_agent ssh", "plm_rsh_agent")])
def test_bad_custom_mpi_options_are_the_clients_fault(jobs, options, word):
    job = jobs.run("mpi-bad", "print('never')", hyperparameters=MPI | {"sagemaker_mpi_custom_mpi_options": options})
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError:") and word in job["FailureReason"], job["FailureReason"]
    assert "sagemaker_mpi_custom_mpi_options" in job["FailureReason"]


def test_a_missing_mpirun_is_named_with_its_package(jobs):
    job = jobs.run("mpi-missing", "print('never')", hyperparameters=MPI, Environment={"PATH": "/nowhere"})
    assert job["TrainingJobStatus"] == "Failed"
    reason = job["FailureReason"]
    assert reason.startswith("ClientError:") and "mpirun" in reason and "openmpi-bin" in reason, reason


def test_hyperparameters_reach_every_mpi_rank_byte_exact(jobs):
    script = '''
import json, os, sys
seen = {"argv": sys.argv[1:], "hps": json.loads(os.environ["SM_HPS"]),
        "env": {k: v for k, v in os.environ.items() if k.startswith("SM_HP_")}}
open(f"/opt/ml/model/{os.environ['RANK']}.json", "w").write(json.dumps(seen))
'''
    plain = jobs.run("hps-plain", script.replace("['RANK']", ".get('RANK', 'plain')"), hyperparameters=HYPERPARAMETERS)
    job = jobs.run("hps-mpi", script, instances=2, hyperparameters=HYPERPARAMETERS | MPI)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    expected = json.loads(jobs.artifact(plain["TrainingJobName"])["plain.json"])
    found = jobs.artifact(job["TrainingJobName"])
    assert len(expected["argv"]) == 2 * len(HYPERPARAMETERS) - 1
    assert not any("sagemaker_" in argument for argument in expected["argv"])
    assert [json.loads(found[f"{r}.json"]) for r in (0, 1)] == [expected, expected]


MINE = {"MINE": "x;y=\"$HOME\" 'z' `id` %s 日本語", "LINES_OF_MINE": "a\nb", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "3",
        "PYTHONPATH": "/opt/mine", "AN_EMPTY_ONE": ""}


@pytest.mark.parametrize("launcher", [{}, {"sagemaker_torch_distributed_enabled": "true"}, MPI,
                                      {"sagemaker_pytorch_ddp_enabled": "true"}],
                         ids=["plain", "torchrun", "mpi", "pytorchddp"])
def test_the_users_environment_reaches_every_rank(jobs, launcher):
    script = '''
import json, os
rank = os.environ.get("RANK", os.environ["SM_CURRENT_HOST"][-1])
open(f"/opt/ml/model/{rank}.json", "w").write(json.dumps(dict(os.environ)))
'''
    job = jobs.run("env", script, instances=2, hyperparameters=launcher,
                   Environment=MINE | {"SM_CURRENT_HOST": "mine", "TRAINING_JOB_NAME": "mine"})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    name = job["TrainingJobName"]
    seen = [json.loads(text) for path, text in sorted(jobs.artifact(name).items())]
    assert [s["SM_CURRENT_HOST"] for s in seen] == ["algo-1", "algo-2"]
    for environment in seen:
        assert {k: environment.get(k) for k in MINE} == MINE | {"PYTHONPATH": "/opt/ml/code:/opt/mine"}
        assert environment["TRAINING_JOB_NAME"] == name
        assert "TRAINYARD_MPI" not in environment
    notes = "\n".join(jobs.lines(name))
    assert "SM_CURRENT_HOST is set by the platform" in notes and "TRAINING_JOB_NAME is set by the platform" in notes


def test_mpi_ranks_have_time_to_save_when_the_job_is_stopped(jobs):
    script = '''
import os, signal, sys, time
def stop(*_):
    time.sleep(3)
    open(f"/opt/ml/model/saved.{os.environ['RANK']}", "w").write("at the end"); sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("running", flush=True)
time.sleep(120)
'''
    name = jobs.create("mpi-stop", script, instances=2, hyperparameters=MPI_2)
    wait_for(lambda: streams(jobs, name) and len(with_start(jobs.lines(name), "[rank ")) == 4, 30, "start of all ranks")
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    assert jobs.wait(name, 20)["TrainingJobStatus"] == "Stopped"
    assert sorted(jobs.artifact(name)) == [f"saved.{r}" for r in range(4)]


def left_of(machine, *words):
    """What this machine has of a job: names with its gang's tag; processes and mounts with one of `words`."""
    def run(*command):
        return subprocess.run(command, capture_output=True, text=True).stdout
    found = [line for command in (("ip", "netns"), ("ip", "link"), ("nft", "list", "ruleset"))
             for line in run(*command).splitlines() if machine.tag in line]
    named = [*all_commands(), *Path("/proc/self/mounts").read_text().splitlines()]
    return found + [line for line in named if any(word in line for word in words)]


def all_commands():
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                pass


@pytest.mark.namespaces
def test_nothing_of_an_mpi_job_is_left_after_it(jobs, server):
    script = '''
import subprocess, time
subprocess.Popen(["setsid", "bash", "-c", "(exec -a leftover-of-mpi sleep 300) & exit 0"])
print("up", flush=True)
time.sleep(2)
'''
    name = jobs.create("mpi-leftover", script, instances=2, hyperparameters=MPI_2)
    machine = Machine(server, name)
    wait_for(lambda: streams(jobs, name) and len(with_start(jobs.lines(name), "[rank ")) == 4, 30, "start of all ranks")
    there = "\n".join(left_of(machine, name, "leftover-of-mpi"))
    assert machine.namespace in there and "leftover-of-mpi" in there, "the test looks in the wrong places"
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    wait_for(lambda: not left_of(machine, name, "leftover-of-mpi"), 10, "clean-up")
    assert not list((server.home / "run").glob(f"{name}*"))


# cases.md 4: the port is the same in every job, and each job has it for itself.
@pytest.mark.namespaces
@pytest.mark.parametrize("launcher", [{"sagemaker_torch_distributed_enabled": "true"}, MPI], ids=["torchrun", "mpi"])
def test_two_jobs_at_once_use_the_same_port(jobs, launcher):
    script = '''
import os, socket, time
name, address = os.environ["TRAINING_JOB_NAME"], (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
assert address == ("algo-1", 7777)
if os.environ["RANK"] == "0":
    with socket.create_server(address) as listener:
        peer, _ = listener.accept()
        peer.sendall(name.encode()); peer.close()
        time.sleep(2)
else:
    while True:
        try:
            heard = socket.create_connection(address, 5).recv(100).decode()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    assert heard == name, heard
'''
    names = [jobs.create("port", script, instances=2, hyperparameters=launcher) for _ in range(2)]
    ended = [jobs.wait(name) for name in names]
    assert [job["TrainingJobStatus"] for job in ended] == ["Completed"] * 2, [j.get("FailureReason") for j in ended]
    starts, ends = zip(*((job["TrainingStartTime"], job["TrainingEndTime"]) for job in ended))
    assert max(starts) < min(ends), "the jobs did not run at the same time"


# cases.md 9, 12: the first act of the program is to look for its peers.
@pytest.mark.namespaces
@pytest.mark.parametrize("launcher", [{}, MPI], ids=["plain", "mpi"])
def test_every_host_resolves_and_is_reachable_from_the_first_instruction(jobs, launcher):
    script = '''
import errno, json, os, socket
own = socket.gethostbyname(socket.gethostname())
addresses = {host: socket.gethostbyname(host) for host in json.loads(os.environ["SM_HOSTS"])}
assert not any(a.startswith("127.") for a in [own, *addresses.values()]), addresses
assert own == addresses[os.environ["SM_CURRENT_HOST"]]
for host, address in addresses.items():
    with socket.socket() as s:
        s.settimeout(5)
        # Nobody listens there: the peer's own kernel says so, which only a reachable one can.
        code = s.connect_ex((host, 5999))
        assert code == errno.ECONNREFUSED, (host, code)
print("reached", len(addresses), *sorted({i for i in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
                                        if os.environ[i] == os.environ["SM_NETWORK_INTERFACE_NAME"]}))
'''
    job = jobs.run("reach", script, instances=3, hyperparameters=launcher)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = [re.sub(r"^\[rank \d\] ", "", line) for line in jobs.lines(job["TrainingJobName"])]
    assert lines.count("reached 3 GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME") == 3


# cases.md 14, 15
@pytest.mark.namespaces
def test_an_interface_named_by_the_job_is_understood_or_refused(jobs):
    script = 'import os; print(*(os.environ[f"{lib}_SOCKET_IFNAME"] for lib in ("NCCL", "GLOO", "TP")))'
    job = jobs.run("interface", script, Environment={"NCCL_SOCKET_IFNAME": "", "GLOO_SOCKET_IFNAME": "ens5"})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = jobs.lines(job["TrainingJobName"])
    assert "eth0 eth0 eth0" in lines
    assert "GLOO_SOCKET_IFNAME=ens5 names no interface of this instance: eth0 is used." in lines
    job = jobs.run("interface", script, Environment={"NCCL_SOCKET_IFNAME": "10.0.0.5"})
    assert job["FailureReason"].startswith("ClientError:"), job["FailureReason"]
    assert "NCCL_SOCKET_IFNAME is '10.0.0.5'" in job["FailureReason"] and "eth0 (" in job["FailureReason"]


@pytest.mark.parametrize("lost", ["algo-1", "algo-2"], ids=["leader", "worker"])
def test_an_mpi_job_goes_on_when_an_instance_is_lost(jobs, lost):
    script = '''
import os, time
print("up", flush=True)
while not os.path.exists("/opt/ml/finish"):
    time.sleep(0.05)
'''
    name = jobs.create("mpi-lost", script, instances=2, hyperparameters=MPI_2)
    machines = {host: Machine(jobs.server, name, host) for host in ("algo-1", "algo-2")}

    def ranks_up():
        return sum(line.endswith("] up") for line in jobs.lines(name)) if streams(jobs, name) else 0
    wait_for(lambda: ranks_up() == 4, 30, "start of all ranks")
    machines[lost].kill()
    wait_for(lambda: ranks_up() == 8, 30, "start of all ranks again")
    for machine in machines.values():
        (machine.scratch / "ml" / "finish").touch()
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert len(jobs.attempts(name)) == 2
    assert any(lost in t["StatusMessage"] for t in job["SecondaryStatusTransitions"])


def test_mpi4py_runs_the_script_where_it_can_be_imported(jobs):
    stand_in = '''
import runpy, sys
print("by mpi4py")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
'''
    files = {"train.py": 'import sys; print("ran with", *sys.argv[1:])'}
    package = {"mpi4py/__init__.py": "", "mpi4py/__main__.py": stand_in}
    for more, lines in (({}, ["ran with --lr 0.1"]), (package, ["by mpi4py", "ran with --lr 0.1"])):
        job = jobs.run("mpi4py", files=files | more, hyperparameters=MPI | {"lr": "0.1"})
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        assert [line for line in jobs.lines(job["TrainingJobName"]) if line.startswith(("by", "ran"))] == lines
