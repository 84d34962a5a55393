# SPDX-License-Identifier: Apache-2.0
"""GPUs belong to one instance at a time. The machine's two GPUs here are character devices that do nothing."""
import json
import os
import stat

import botocore.exceptions
import pytest
from conftest import Jobs, Server, wait_for

pytestmark = pytest.mark.root

GPU_TYPE = "ml.g5.xlarge"  # one GPU
SHOW = '''
import json, os, time
nodes = sorted(n for n in os.listdir("/dev") if n.startswith("fakegpu"))
for node in nodes:
    with open("/dev/" + node, "wb") as device:
        device.write(b"kernel")
print(json.dumps({"nodes": nodes, "visible": os.environ["CUDA_VISIBLE_DEVICES"], "number": os.environ["SM_NUM_GPUS"],
                  "host": os.environ["SM_CURRENT_HOST"]}), flush=True)
time.sleep(float(os.environ.get("SM_HP_SECONDS", "0")))
'''


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    directory = tmp_path_factory.mktemp("devices")
    for number in (0, 1):
        os.mknod(directory / f"fakegpu{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return directory


@pytest.fixture(scope="module")
def jobs(tmp_path_factory, devices):
    server = Server(tmp_path_factory.mktemp("home"),
                    config=f"capacity:\n  instances: 4\n  gpu_device: {devices}/fakegpu*\n").start()
    yield Jobs(server)
    assert server.stop() == 0


def on_type(instance_type, instances=1):
    return {"ResourceConfig": {"InstanceType": instance_type, "InstanceCount": instances, "VolumeSizeInGB": 10}}


def shown(jobs, name):
    return [json.loads(line) for line in jobs.lines(name) if line.startswith("{")]


def messages(job):
    return " | ".join(t["StatusMessage"] for t in job["SecondaryStatusTransitions"])


def test_each_instance_sees_its_own_gpu_and_no_other(jobs):
    job = jobs.run("gpus", SHOW, **on_type(GPU_TYPE, instances=2))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    seen = sorted(shown(jobs, job["TrainingJobName"]), key=lambda s: s["host"])
    assert [s["nodes"] for s in seen] == [["fakegpu0"], ["fakegpu1"]]
    # Numbered from 0 in each, for a program sees nothing of the other's.
    assert [(s["visible"], s["number"]) for s in seen] == [("0", "1")] * 2
    assert "ml.g5.xlarge is mapped to 1 GPU of this machine." in messages(job)


def test_a_cpu_instance_sees_no_gpu(jobs):
    job = jobs.run("no-gpus", SHOW)
    assert shown(jobs, job["TrainingJobName"]) == [{"nodes": [], "visible": "", "number": "0", "host": "algo-1"}]
    assert "ml.c5.xlarge is mapped to CPU cores of this machine." in messages(job)


def test_a_type_with_more_gpus_gets_those_that_there_are(jobs):
    job = jobs.run("more-gpus", SHOW, **on_type("ml.p4d.24xlarge"))
    name = job["TrainingJobName"]
    assert [(s["nodes"], s["visible"], s["number"]) for s in shown(jobs, name)] == [(["fakegpu0", "fakegpu1"], "0,1", "2")]
    assert "ml.p4d.24xlarge is mapped to 2 GPUs of this machine, not 8." in messages(job)
    assert "ml.p4d.24xlarge is mapped to 2 GPUs of this machine, not 8." in jobs.lines(name)


def test_no_two_jobs_hold_one_gpu_and_the_third_waits(jobs):
    def start():
        return jobs.create("hold", SHOW, hyperparameters={"seconds": 60}, **on_type(GPU_TYPE))

    def message(name):
        return jobs.describe(name)["SecondaryStatusTransitions"][-1]["StatusMessage"]

    held = [start(), start()]
    seen = [wait_for(lambda n=name: jobs.describe(n)["SecondaryStatus"] == "Training" and shown(jobs, n), 30, name)[0]
            for name in held]
    assert sorted(s["nodes"] for s in seen) == [["fakegpu0"], ["fakegpu1"]]

    third = start()
    wait_for(lambda: message(third) == "Waiting for capacity: 0 of 1 needed GPUs free", 10, "the third job's message")
    cpu = jobs.run("hold-cpu", SHOW)  # it needs none, and passes
    assert cpu["TrainingJobStatus"] == "Completed"
    assert jobs.describe(third)["SecondaryStatus"] == "Starting"

    jobs.sagemaker.stop_training_job(TrainingJobName=held[1])
    assert jobs.wait(held[1])["TrainingJobStatus"] == "Stopped"
    freed = wait_for(lambda: jobs.describe(third)["SecondaryStatus"] == "Training" and shown(jobs, third), 30, third)[0]
    assert freed["nodes"] == seen[1]["nodes"]
    for name in (held[0], third):
        jobs.sagemaker.stop_training_job(TrainingJobName=name)
        jobs.wait(name)


def test_a_job_that_could_never_have_its_gpus_is_refused(jobs):
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        jobs.create("too-many", SHOW, **on_type(GPU_TYPE, instances=3))
    assert refused.value.response["Error"]["Code"] == "ResourceLimitExceeded"
    for part in ("ml.g5.xlarge for training job usage (one GPU each)", "is 2 Instances", "request delta of 3 Instances"):
        assert part in str(refused.value), refused.value


def test_every_type_name_is_accepted(jobs):
    for instance_type in ("ml.trn1.32xlarge", "ml.m7i.48xlarge", "ml.c8gn.medium"):
        try:
            job = jobs.run("any-type", "print('ran')", **on_type(instance_type))
        except botocore.exceptions.ClientError as error:
            pytest.fail(f"{instance_type}: {error}")
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        assert f"{instance_type} is mapped to CPU cores of this machine." in messages(job)


def test_ranks_are_one_a_gpu(jobs):
    script = 'import os; print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])'
    for launcher in ("sagemaker_torch_distributed_enabled", "sagemaker_mpi_enabled"):
        job = jobs.run("gpu-ranks", script, hyperparameters={launcher: "true"}, **on_type("ml.p4d.24xlarge"))
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        lines = [line for line in jobs.lines(job["TrainingJobName"]) if line.startswith("[rank")]
        assert sorted(lines) == ["[rank 0] rank 0 of 2", "[rank 1] rank 1 of 2"]


def test_a_gpu_that_is_gone_fails_the_job_as_the_platforms_fault(jobs, devices):
    node, away = devices / "fakegpu0", devices / "away"
    os.rename(node, away)
    try:
        job = jobs.run("gone", SHOW, **on_type(GPU_TYPE), RetryStrategy={"MaximumRetryAttempts": 1})
    finally:
        os.rename(away, node)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("InternalServerError:") and "fakegpu0" in job["FailureReason"]
