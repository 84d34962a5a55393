# SPDX-License-Identifier: Apache-2.0
"""A training that loses an instance ends where it would have ended: the same losses, the same model."""
import re

import pytest
from conftest import wait_for
from machines import Machine

pytestmark = pytest.mark.root

STEPS = 60
# Two ranks, plain PyTorch over gloo. Data are a function of step and rank, so a resumed run sees the same.
TRAIN = f'''
import datetime, glob, os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]),
                        timeout=datetime.timedelta(seconds=60))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
saved = sorted(glob.glob("/opt/ml/checkpoints/step-*.pt")) if rank == 0 else []
box = [torch.load(saved[-1]) if saved else None]
dist.broadcast_object_list(box, src=0)
first = 0
if box[0]:
    first = box[0]["step"]
    model.load_state_dict(box[0]["model"]); optimizer.load_state_dict(box[0]["optimizer"])
if rank == 0:
    print("begins after step", first, flush=True)
for step in range(first + 1, {STEPS} + 1):
    draw = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(8, 16, generator=draw)
    loss = ((model(x) - x.sum(1, keepdim=True).sin()) ** 2).mean()
    optimizer.zero_grad(); loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad); p.grad /= world
    optimizer.step()
    mean = loss.detach().clone(); dist.all_reduce(mean)
    if rank == 0:
        print("step", step, "loss", repr(mean.item() / world), flush=True)
        if step % 5 == 0:
            path = f"/opt/ml/checkpoints/step-{{step:04d}}.pt"
            torch.save(dict(step=step, model=model.state_dict(), optimizer=optimizer.state_dict()), path + ".tmp")
            os.rename(path + ".tmp", path)
    time.sleep(0.05)
if rank == 0:
    text = "\\n".join(repr(p.tolist()) for p in model.parameters())
    open("/opt/ml/model/weights", "w").write(text)
'''
STEP = re.compile(r"step (\d+) loss (\S+)")


def create(jobs, stem):
    name = jobs.new_name(stem)
    request = jobs.request(name, TRAIN, instances=2, torchrun=True,
                           CheckpointConfig={"S3Uri": f"s3://{jobs.bucket}/{name}/checkpoints"})
    jobs.sagemaker.create_training_job(**request)
    return name


def result(jobs, name):
    """Where each attempt began, the (step, loss) pairs in order, and the model."""
    job = jobs.wait(name, 120)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = jobs.lines(name, "algo-1")
    begins = [int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("begins after step")]
    losses = [(int(found[1]), found[2]) for line in lines if (found := STEP.search(line))]
    return begins, losses, jobs.artifact(name)["weights"]


def newest_in_s3(jobs, name):
    found = jobs.s3.list_objects_v2(Bucket=jobs.bucket, Prefix=f"{name}/checkpoints/").get("Contents", [])
    return max((int(step[1]) for item in found if (step := re.search(r"step-(\d+)\.pt$", item["Key"]))), default=0)


@pytest.fixture(scope="module")
def uninterrupted(jobs):
    begins, losses, model = result(jobs, create(jobs, "whole"))
    assert begins == [0] and [step for step, _ in losses] == list(range(1, STEPS + 1))
    return dict(losses), model


@pytest.mark.parametrize("victim", ["algo-1", pytest.param("algo-2", marks=pytest.mark.slow)])
def test_losses_from_the_checkpoint_on_and_the_model_are_those_of_an_uninterrupted_run(jobs, uninterrupted, victim):
    expected, model = uninterrupted
    name = create(jobs, "broken")
    kept = wait_for(lambda: (step := newest_in_s3(jobs, name)) >= 20 and step, 60, "checkpoint of step 20 in S3")
    Machine(jobs.server, name, victim).kill()
    begins, losses, got = result(jobs, name)
    assert [a.get("Host") for a in jobs.attempts(name)] == [victim, None]
    assert len(begins) == 2 and kept <= begins[1] < STEPS, "it did not go on from its newest checkpoint"
    assert all(loss == expected[step] for step, loss in losses)
    assert [step for step, _ in losses][-(STEPS - begins[1]):] == list(range(begins[1] + 1, STEPS + 1))
    assert got == model
