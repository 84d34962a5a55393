# SPDX-License-Identifier: Apache-2.0
"""Whole jobs on real instances: what the user's program finds, and what is left of it."""
import json
import os
import signal
import time
from pathlib import Path

import pytest
from conftest import wait_for
from machines import Machine, leftovers

pytestmark = pytest.mark.root

PEERS = '''
import json, os, socket, threading
hosts, me, rank = json.loads(os.environ["SM_HOSTS"]), os.environ["SM_CURRENT_HOST"], int(os.environ["RANK"])
assert socket.gethostname() == me and hosts[rank] == me, (socket.gethostname(), me, hosts, rank)
assert os.environ["MASTER_ADDR"] == hosts[0]
addresses = [socket.gethostbyname(h) for h in hosts]
assert not any(a.startswith("127.") for a in addresses), addresses
listener = socket.create_server(("0.0.0.0", 5555))
def greet():
    for _ in range(len(hosts) - 1):
        peer, _ = listener.accept()
        peer.sendall(me.encode()); peer.close()
thread = threading.Thread(target=greet); thread.start()
import time
def ask(host):
    for _ in range(200):
        try:
            with socket.create_connection((host, 5555), 1) as s:
                return s.recv(100).decode()
        except OSError:
            time.sleep(0.02)
    raise SystemExit("no answer from " + host)
heard = sorted(ask(h) for h in hosts if h != me)
thread.join()
print("rank", rank, "of", os.environ["WORLD_SIZE"], "heard", *heard)
'''


def test_instances_reach_each_other_by_name_and_ranks_follow_the_host_order(jobs):
    job = jobs.run("peers", PEERS, instances=3, torchrun=True)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    name = job["TrainingJobName"]
    assert "rank 0 of 3 heard algo-2 algo-3" in jobs.lines(name, "algo-1")
    assert "rank 1 of 3 heard algo-1 algo-3" in jobs.lines(name, "algo-2")
    assert "rank 2 of 3 heard algo-1 algo-2" in jobs.lines(name, "algo-3")


IS_GIVEN_UP = 5  # seconds of silence; wire::kSilence


def has_its_program(machine):
    return (machine.scratch / "ml/code/train.py").exists()  # what is fetched last


def release_of_the_last(held, other):
    """Holds a supervisor back with SIGSTOP until the other instance has had all that it needs for a second, and gives
    the time when it may go on. None: it was ready before, or held for so long that it may have been given up."""
    record = held.gang / f"{held.host}.json"
    wait_for(lambda: record.exists() and held.supervisor() > 0, 30, "the supervisor")
    pid, began = held.supervisor(), time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    try:
        if has_its_program(held):
            return None
        wait_for(lambda: has_its_program(other), 30, "the other instance having all that it needs")
        time.sleep(1)  # in which its program would start, were it not held back
        released = time.time()
    finally:
        os.kill(pid, signal.SIGCONT)
    return released if time.monotonic() < began + IS_GIVEN_UP - 1 else None


# cases.md 10
def test_no_user_program_starts_before_every_instance_is_ready(jobs):
    for key, size in (("of-algo-1", 1), ("of-algo-2", 64 << 20)):
        jobs.s3.put_object(Bucket=jobs.bucket, Key=f"barrier/{key}", Body=bytes(size))
    for _ in range(10):
        name = jobs.create("barrier", "import time; print('started', time.time())", instances=2, torchrun=True,
                           channels={"data": (f"s3://{jobs.bucket}/barrier/", "ShardedByS3Key")})
        first, second = (Machine(jobs.server, name, host) for host in ("algo-1", "algo-2"))
        released = release_of_the_last(held=second, other=first)
        job = jobs.wait(name)
        if released:
            break
    assert released, "never in time to stop one: the test shows nothing"
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    starts = [float(line.split()[1]) for line in jobs.lines(name) if line.startswith("started")]
    assert len(starts) == 2 and min(starts) > released, (starts, released)


# Programs call it (the SageMaker SDK's own start script looks for it), whether the machine has one or not.
def test_pip_is_of_the_environment(jobs):
    script = """
import shutil, subprocess, sys
print(*(shutil.which(name) == f"{sys.prefix}/bin/{name}" for name in ("python3", "pip3", "pip")))
print(subprocess.run(["pip", "--version"], capture_output=True, text=True).stdout)
"""
    job = jobs.run("pip", script)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = jobs.lines(job["TrainingJobName"])
    assert "True True True" in lines and any(line.startswith("pip ") for line in lines), lines


def test_sharded_channel_is_disjoint_and_complete_and_replicated_is_whole(jobs):
    names = [f"{i:02d}.txt" for i in range(7)]
    for name in names:
        jobs.s3.put_object(Bucket=jobs.bucket, Key=f"shards/{name}", Body=name.encode())
    script = '''
import os
for channel in ("part", "whole"):
    print(channel, *sorted(os.listdir(os.environ["SM_CHANNEL_" + channel.upper()])))
'''
    job = jobs.run("shards", script, instances=3, channels={
        "part": (f"s3://{jobs.bucket}/shards/", "ShardedByS3Key"),
        "whole": (f"s3://{jobs.bucket}/shards/", "FullyReplicated")})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    parts = []
    for host in ("algo-1", "algo-2", "algo-3"):
        lines = jobs.lines(job["TrainingJobName"], host)
        parts += next(line for line in lines if line.startswith("part ")).split()[1:]
        assert next(line for line in lines if line.startswith("whole ")).split()[1:] == names
    assert sorted(parts) == names


def test_a_folder_wins_over_an_object_of_its_name_and_the_job_says_so(jobs):
    for key in ("clash/x", "clash/x/y", "clash/z"):
        jobs.s3.put_object(Bucket=jobs.bucket, Key=key, Body=key.encode())
    script = '''
import os
print(*sorted(os.path.relpath(os.path.join(d, f), "/opt/ml/input/data/data")
              for d, _, files in os.walk("/opt/ml/input/data/data") for f in files))
'''
    job = jobs.run("clash", script, channels={"data": (f"s3://{jobs.bucket}/clash/", "FullyReplicated")})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = jobs.lines(job["TrainingJobName"])
    assert "x/y z" in lines
    assert any("the object 'clash/x' is left out" in line for line in lines)
    downloading = next(t for t in job["SecondaryStatusTransitions"] if t["Status"] == "Downloading")
    assert "without 1 object" in downloading["StatusMessage"] and "'clash/x'" in downloading["StatusMessage"]


HYPERPARAMETERS = {
    "quotes": """a'b"c""", "newline": "a\nb", "command": "$(id) `id` $HOME", "long": "x" * 2500,
    "japanese": "日本語", "blank": "a b", "minus": "-1", "dashes": "--x", "backslash": "\\", "star": "*",
    "percent": "%s", "list": "[1, 2, 3]", "true": "true", "null": "null", "a.b": "dot", "a-b": "dash", "A_b": "under",
    "objective": "reg:squarederror", "nested": '{"a":[1,{"b":null}]}'}


@pytest.mark.both_ways
def test_every_hyperparameter_reaches_the_program_byte_exact(jobs):
    script = '''
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "hps": json.loads(os.environ["SM_HPS"]),
                  "env": {k: v for k, v in os.environ.items() if k.startswith("SM_HP_")},
                  "file": json.load(open("/opt/ml/input/config/hyperparameters.json"))}))
'''
    job = jobs.run("hyperparameters", script, hyperparameters=HYPERPARAMETERS)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    seen = json.loads(next(line for line in jobs.lines(job["TrainingJobName"]) if line.startswith("{")))
    at = seen["argv"].index
    argv = {f"--{key}": seen["argv"][at(f"--{key}") + 1] for key in HYPERPARAMETERS if key != "null"}
    for key in ("quotes", "newline", "command", "long", "japanese", "blank", "minus", "dashes", "backslash", "star",
                "percent", "a.b", "a-b", "A_b", "objective"):
        assert argv[f"--{key}"] == HYPERPARAMETERS[key], key
        assert seen["file"][key] == HYPERPARAMETERS[key]
    assert seen["hps"]["list"] == [1, 2, 3] and seen["hps"]["true"] is True and seen["hps"]["null"] is None
    assert seen["hps"]["nested"] == {"a": [1, {"b": None}]}
    # As the training toolkit does it: null is the flag alone, a list or an object one argument.
    assert seen["argv"][at("--null") + 1].startswith("--") and argv["--list"] == "[1, 2, 3]"
    assert len(seen["argv"]) == 2 * len(HYPERPARAMETERS) - 1
    assert seen["env"]["SM_HP_QUOTES"] == HYPERPARAMETERS["quotes"]


def test_a_hundred_of_the_longest_hyperparameters_reach_the_program(jobs):
    parameters = {f"key{i:02d}": "日" * 2500 for i in range(96)} | {"empty": "", "a=b": "1"}
    script = '''
import json, os, sys
given = json.load(open("/opt/ml/input/config/hyperparameters.json"))
argv = sys.argv[1:]
pairs = {k: argv[argv.index("--" + k) + 1] for k in given if k.startswith("key")}
assert pairs == {k: v for k, v in given.items() if k.startswith("key")}
assert all(os.environ["SM_HP_" + k.upper()] == v for k, v in pairs.items())
assert "--empty" in argv and os.environ["SM_HP_EMPTY"] == "" and os.environ["SM_HP_A_B"] == "1"
print(len(pairs), "intact")
'''
    job = jobs.run("longest", script, hyperparameters=parameters)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = jobs.lines(job["TrainingJobName"])
    assert "96 intact" in lines
    # What Linux has no room for, and what no variable can be called, is told.
    assert any("SM_HPS is left out" in line for line in lines)
    assert any("'a=b' holds '='" in line for line in lines)


def test_the_users_environment_reaches_every_rank_but_not_over_the_contract(jobs):
    script = '''
import json, os
print("RANK", os.environ["RANK"], json.dumps(dict(os.environ)))
'''
    own = {"MY_TEXT": "a b'c\"$HOME\\n日本", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "3", "EMPTY": ""}
    job = jobs.run("environment", script, instances=2, torchrun=True,
                   hyperparameters={"sagemaker_nproc_per_node": 2, "lr": "0.1"},
                   Environment=own | {"RANK": "77", "SM_HP_LR": "9", "TRAINING_JOB_NAME": "another"})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    name = job["TrainingJobName"]
    lines = jobs.lines(name)
    said = [line.partition("RANK ")[2].partition(" ") for line in lines if "RANK " in line and "{" in line]
    ranks = {int(rank): json.loads(text) for rank, _, text in said}
    assert sorted(ranks) == [0, 1, 2, 3]
    for rank, seen in ranks.items():
        assert {key: seen[key] for key in own} == own
        assert seen["RANK"] == str(rank) and seen["SM_HP_LR"] == "0.1" and seen["TRAINING_JOB_NAME"] == name
    # Apart from who they are, all ranks have the same.
    differs = {key for key in ranks[0] if len({seen.get(key) for seen in ranks.values()}) > 1}
    assert differs <= {"RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "ROLE_RANK", "CURRENT_HOST", "SM_CURRENT_HOST",
                       "SM_TRAINING_ENV", "SM_RESOURCE_CONFIG", "HOSTNAME",
                       "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"}, differs
    assert sum("RANK is set by the platform" in line for line in lines) == 2, "once a host"


def test_a_json_quoted_program_runs_like_a_plain_one(jobs):
    for quoted in ("train.py", json.dumps("train.py")):
        name = jobs.new_name("quoted")
        request = jobs.request(name, "print('ran')")
        request["HyperParameters"]["sagemaker_program"] = quoted
        jobs.sagemaker.create_training_job(**request)
        assert jobs.wait(name)["TrainingJobStatus"] == "Completed"


@pytest.mark.both_ways
def test_failing_rank_is_named_with_its_exit_code_and_last_lines(jobs):
    script = '''
import os, sys, time
if os.environ["RANK"] == "1":
    print("the loss is not finite", flush=True)
    sys.exit(3)
time.sleep(60)
'''
    job = jobs.run("exit3", script, instances=2, torchrun=True, seconds=20)
    assert job["TrainingJobStatus"] == "Failed"
    reason = job["FailureReason"]
    assert reason.startswith("AlgorithmError:") and len(reason) <= 1024
    for part in ("rank 1", "algo-2", "exit code: 3", "the loss is not finite"):
        assert part in reason, reason


def test_death_by_signal_is_explained(jobs):
    job = jobs.run("signal", "import os; os.kill(os.getpid(), 11)")
    assert "SIGSEGV" in job["FailureReason"], job["FailureReason"]


def test_failure_file_becomes_the_reason(jobs):
    script = 'import sys; open("/opt/ml/output/failure", "w").write("bad learning rate " + "x" * 3000); sys.exit(1)'
    job = jobs.run("failure-file", script)
    assert "bad learning rate" in job["FailureReason"] and len(job["FailureReason"]) <= 1024


def test_failure_file_of_a_program_that_ends_well_is_no_failure(jobs):
    script = """
open("/opt/ml/output/failure", "w").write("the third file is short")
open("/opt/ml/model/weights", "w").write("trained")
"""
    job = jobs.run("failure-file", script, instances=2)
    assert job["TrainingJobStatus"] == "Completed" and "FailureReason" not in job
    assert jobs.artifact(job["TrainingJobName"]) == {"weights": b"trained"}


def test_transitions_are_legal_and_in_order(jobs):
    job = jobs.run("transitions", "print('x')", instances=2)
    seen = [t["Status"] for t in job["SecondaryStatusTransitions"]]
    assert seen == ["Starting", "Downloading", "Training", "Uploading", "Completed"], seen
    assert all(t["StatusMessage"] for t in job["SecondaryStatusTransitions"])
    times = [t["StartTime"] for t in job["SecondaryStatusTransitions"]]
    assert times == sorted(times)
    assert job["TrainingStartTime"] <= job["TrainingEndTime"]


@pytest.mark.both_ways
def test_model_and_output_reach_s3_from_every_host(jobs):
    script = '''
import os
host = os.environ["SM_CURRENT_HOST"]
open(f"/opt/ml/model/{host}.bin", "wb").write(host.encode() * 1000)
os.makedirs("/opt/ml/model/sub", exist_ok=True)
os.symlink("../" + host + ".bin", f"/opt/ml/model/sub/{host}.link")
if host == "algo-2":
    open("/opt/ml/output/data/report.txt", "w").write("fine")
'''
    job = jobs.run("artifacts", script, instances=3)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    name = job["TrainingJobName"]
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{jobs.bucket}/output/{name}/output/model.tar.gz"
    model = jobs.artifact(name)
    assert {k: len(v) for k, v in model.items() if k.endswith(".bin")} == {f"algo-{i}.bin": 6000 for i in (1, 2, 3)}
    assert jobs.artifact(name, "output") == {"report.txt": b"fine"}
    listing = jobs.s3.list_objects_v2(Bucket=jobs.bucket, Prefix=f"output/{name}/")
    assert len(listing["Contents"]) == 2, "parts of the merged archive are left over"


# Every rank saves "model.pt": nothing is lost, and the job says which one a user will find.
def test_one_file_name_from_two_hosts_is_warned_of(jobs):
    script = '''
import os
host = os.environ["SM_CURRENT_HOST"]
open("/opt/ml/model/model.pt", "w").write(host)
open(f"/opt/ml/model/of-{host}", "w").write(host)
'''
    job = jobs.run("one-name", script, instances=2)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    warning = '"model.pt" of /opt/ml/model comes from algo-1, algo-2: model.tar.gz holds each'
    uploading = next(t for t in job["SecondaryStatusTransitions"] if t["Status"] == "Uploading")
    assert warning in uploading["StatusMessage"], uploading
    told = [line for line in jobs.lines(job["TrainingJobName"]) if line.startswith("Warning: ")]
    assert len(told) == 1 and warning in told[0], told
    # As warned: who unpacks it finds that of algo-2.
    assert jobs.artifact(job["TrainingJobName"]) == {
        "model.pt": b"algo-2", "of-algo-1": b"algo-1", "of-algo-2": b"algo-2"}


def test_link_out_of_the_model_directory_fails_by_name_and_the_rest_is_there(jobs):
    script = '''
import os
host = os.environ["SM_CURRENT_HOST"]
open(f"/opt/ml/model/{host}.bin", "w").write(host)
if host == "algo-2":
    os.symlink("/etc/passwd", "/opt/ml/model/weights")
'''
    job = jobs.run("link-out", script, instances=2)
    assert job["TrainingJobStatus"] == "Failed"
    reason = job["FailureReason"]
    assert reason.startswith("ClientError: algo-2: /opt/ml/model ") and '"weights" is a link' in reason, reason
    name = job["TrainingJobName"]
    assert jobs.artifact(name) == {"algo-1.bin": b"algo-1", "algo-2.bin": b"algo-2"}
    listing = jobs.s3.list_objects_v2(Bucket=jobs.bucket, Prefix=f"output/{name}/")
    assert listing["KeyCount"] == 1, "parts of the merged archive are left over"


def test_what_no_archive_can_hold_is_named_all_of_it_at_once_and_the_rest_is_there(jobs):
    script = '''
import os, socket
open("/opt/ml/model/model.bin", "w").write("days of work")
os.mkfifo("/opt/ml/model/pipe")
socket.socket(socket.AF_UNIX).bind("/opt/ml/model/socket")
os.symlink("/etc/passwd", "/opt/ml/model/weights")
'''
    job = jobs.run("no-file", script)
    assert job["TrainingJobStatus"] == "Failed"
    reason = job["FailureReason"]
    assert reason.startswith("ClientError:") and "the rest is in the archive" in reason, reason
    for part in ('"pipe" is a pipe', '"socket" is a socket', '"weights" is a link to "/etc/passwd"'):
        assert part in reason, reason
    assert jobs.artifact(job["TrainingJobName"]) == {"model.bin": b"days of work"}


def test_what_cannot_be_an_object_is_named_and_the_other_files_are_there(jobs):
    name = jobs.new_name("plain-pipe")
    script = 'import os; os.mkfifo("/opt/ml/model/a"); open("/opt/ml/model/w.bin", "w").write("abc")'
    request = jobs.request(name, script)
    request["OutputDataConfig"]["CompressionType"] = "NONE"
    jobs.sagemaker.create_training_job(**request)
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Failed" and '"a" is a pipe' in job["FailureReason"], job
    body = jobs.s3.get_object(Bucket=jobs.bucket, Key=f"output/{name}/output/model/w.bin")["Body"].read()
    assert body == b"abc"


def test_uncompressed_output_keeps_the_files(jobs):
    name = jobs.new_name("plain")
    request = jobs.request(name, 'open("/opt/ml/model/w.bin", "w").write("abc")')
    request["OutputDataConfig"]["CompressionType"] = "NONE"
    jobs.sagemaker.create_training_job(**request)
    assert jobs.wait(name)["TrainingJobStatus"] == "Completed"
    body = jobs.s3.get_object(Bucket=jobs.bucket, Key=f"output/{name}/output/model/w.bin")["Body"].read()
    assert body == b"abc"


def test_missing_entry_point_fails_before_any_instance_starts(jobs):
    job = jobs.run("no-entry", files={"other.py": "print(1)"})
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError:")
    assert "train.py" in job["FailureReason"] and "other.py" in job["FailureReason"]
    assert [t["Status"] for t in job["SecondaryStatusTransitions"]] == ["Starting", "Failed"]


@pytest.mark.parametrize("member", ["../escaped", "/escaped", "deep/../../escaped"])
def test_source_that_leaves_its_directory_is_refused_by_name(jobs, member):
    job = jobs.run("escape", files={"train.py": "print(1)", member: "x"})
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError:") and member in job["FailureReason"], job["FailureReason"]
    assert not Path("/escaped").exists()


def test_entrypoint_and_arguments_run_as_given(jobs):
    name = jobs.new_name("entrypoint")
    request = jobs.request(name)
    request["AlgorithmSpecification"] |= {"ContainerEntrypoint": ["/bin/bash"],
                                          "ContainerArguments": ["-c", 'echo "got: $0 $1"', "a b", "*"]}
    jobs.sagemaker.create_training_job(**request)
    assert jobs.wait(name)["TrainingJobStatus"] == "Completed"
    assert "got: a b *" in jobs.lines(name)


@pytest.mark.both_ways
def test_role_credentials_reach_s3_from_inside(jobs):
    script = '''
import boto3, os
assert "AWS_ACCESS_KEY_ID" not in os.environ
s3 = boto3.client("s3")
s3.put_object(Bucket="test-bucket", Key="from-inside", Body=b"hello")
print("session", boto3.Session().get_credentials().token is not None)
'''
    job = jobs.run("role", script)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert jobs.s3.get_object(Bucket=jobs.bucket, Key="from-inside")["Body"].read() == b"hello"


@pytest.mark.both_ways
def test_stop_sends_sigterm_and_keeps_the_artifacts(jobs):
    script = '''
import signal, sys, time
def stop(*_):
    open("/opt/ml/model/saved", "w").write("at the end"); print("saved", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("running", flush=True)
time.sleep(120)
'''
    name = jobs.create("stop", script, instances=2, torchrun=True)
    wait_for(lambda: sum("running" in line for line in jobs.lines(name)) == 2 if streams(jobs, name) else False,
             30, "start of the program")
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    assert jobs.wait(name, 20)["TrainingJobStatus"] == "Stopped"
    assert jobs.artifact(name)["saved"] == b"at the end"


def streams(jobs, name):
    try:
        return jobs.streams(name)
    except jobs.logs.exceptions.ResourceNotFoundException:
        return []


@pytest.mark.both_ways
def test_nothing_of_a_job_is_left_after_it(jobs, server):
    before = leftovers()
    script = '''
import subprocess, time
# A daemon that has left its session and its parent.
subprocess.Popen(["setsid", "bash", "-c", "(exec -a leftover-marker sleep 300) & exit 0"])
while subprocess.run(["pgrep", "-f", "^leftover-marker"], stdout=subprocess.DEVNULL).returncode:
    time.sleep(0.05)
print("the daemon runs")
'''
    job = jobs.run("leftover", script, instances=2)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert "the daemon runs" in jobs.lines(job["TrainingJobName"], "algo-2")
    wait_for(lambda: leftovers() == before, 10, "clean-up")
    assert not list((server.home / "run").glob(f"{job['TrainingJobName']}*"))
