# SPDX-License-Identifier: Apache-2.0
"""Jobs on Trainyard's collectives: the example, scripts of SageMaker's data parallel library as they are
documented, and scripts that name no backend, under the launchers that `distribution=` chooses."""
import difflib
import subprocess

import pytest
from conftest import ROOT

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]

PATIENCE = 600  # seconds; only a job that hangs takes them
TORCHRUN = {"sagemaker_torch_distributed_enabled": "true"}
PYTORCHDDP = {"sagemaker_pytorch_ddp_enabled": "true"}
SMDDP = {"sagemaker_distributed_dataparallel_enabled": "true", "sagemaker_instance_type": "ml.p4d.24xlarge",
         "sagemaker_distributed_dataparallel_custom_mpi_options": ""}

# A few steps on data of each rank's own, after which all ranks must have one model; `carrier` is what the
# object that has carried the gradients calls itself.
STEPS = '''
import torch

def train(model, dist, rank):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    others = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(others, mine)
    assert all(torch.equal(mine, other) for other in others), "the ranks' models differ"
    return model.process_group._get_backend(torch.device("cpu")).name()
'''

# The data parallel library from version 1.4 on: a backend of torch.distributed.
DOCUMENTED = '''
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import smdistributed.dataparallel.torch.torch_smddp
from steps import train

dist.init_process_group(backend="smddp")
rank = dist.get_rank()
carrier = train(DDP(torch.nn.Linear(4, 2)), dist, rank)
dist.barrier()
variables = {name: value for name, value in sorted(os.environ.items()) if name.startswith("SMDATAPARALLEL_")}
print("trained", rank, "of", dist.get_world_size(), "by", carrier, *variables.values())
dist.destroy_process_group()
'''

# Its own interface, before 1.4.
OLDER = '''
import torch
import smdistributed.dataparallel.torch.distributed as dist
from smdistributed.dataparallel.torch.parallel.distributed import DistributedDataParallel as DDP
from steps import train

dist.init_process_group()
rank, local = dist.get_rank(), dist.get_local_rank()
carrier = train(DDP(torch.nn.Linear(4, 2), device_ids=[local]), dist, rank)
dist.barrier()
print("trained", rank, "local", local, "of", dist.get_world_size(), "by", carrier)
'''

NO_NAME = '''
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from steps import train

dist.init_process_group()
rank = dist.get_rank()
chosen, named = (train(DDP(torch.nn.Linear(4, 2), process_group=group), dist, rank)
                 for group in (dist.new_group(), dist.new_group(backend="gloo")))
print("trained", rank, "by", chosen, "and by", named)
dist.destroy_process_group()
'''

# No launcher has told it who it is.
FINDS_ITS_PLACE = '''
import os
import torch
import torch.distributed as dist
import trainyard.torch

assert "RANK" not in os.environ and "WORLD_SIZE" not in os.environ
dist.init_process_group("yard", init_method="resourceconfig://?port=29400")
number = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(number)
print("summed", dist.get_rank(), "of", dist.get_world_size(), int(number), flush=True)
dist.barrier()
dist.destroy_process_group()
'''


@pytest.fixture(scope="module", autouse=True)
def backend():
    """The collectives library in the Python environment of jobs, as ./yard build leaves it there."""
    subprocess.run([ROOT / "tools/torch_backend"], check=True, timeout=PATIENCE)


def said(jobs, stem, script, **options):
    """What the ranks of a job on two instances have said of their training, in the order of the ranks."""
    job = jobs.run(stem, files={"train.py": script, "steps.py": STEPS}, instances=2, seconds=PATIENCE, **options)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return sorted(line[line.index("trained"):] for line in jobs.lines(job["TrainingJobName"]) if "trained" in line)


def test_the_example_for_yard_differs_from_the_plain_one_by_one_line():
    plain, ours = ((ROOT / "examples/llm" / name).read_text().splitlines() for name in ("train.py", "train_yard.py"))
    changes = [line for line in difflib.ndiff(plain, ours) if line[0] in "+-"]
    assert [line[0] for line in changes] == ["-", "+"]
    assert changes[1][1:] == changes[0][1:].replace('"gloo"', '"yard"')


@pytest.mark.both_ways
def test_the_example_trains_on_yard(jobs):
    jobs.s3.put_object(Bucket=jobs.bucket, Key="llm/text.txt", Body=(ROOT / "docs/tour.md").read_bytes())
    small = {"steps": 3, "batch": 2, "length": 16, "d-model": 32, "heads": 2, "layers": 1, "vocab": 300}
    name = jobs.create("llm-yard", files={"train_yard.py": (ROOT / "examples/llm/train_yard.py").read_text()},
                       program="train_yard.py", instances=2, torchrun=True, hyperparameters=small,
                       channels={"training": (f"s3://{jobs.bucket}/llm/", "FullyReplicated")})
    job = jobs.wait(name, PATIENCE)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = jobs.lines(name, "algo-1")
    assert any("2 ranks" in line and line.endswith("gradients by yard") for line in lines), lines
    assert sum(line.startswith("step ") for line in lines) == 2
    assert "model.pt" in jobs.artifact(name)


@pytest.mark.both_ways
def test_a_script_as_documented_for_smddp_trains(jobs):
    assert said(jobs, "smddp", DOCUMENTED, hyperparameters=SMDDP) == [
        f"trained {rank} of 2 by smddp algo-1 7592 1" for rank in range(2)]


def test_a_script_of_the_older_interface_trains(jobs):
    two_a_host = SMDDP | {"sagemaker_mpi_num_of_processes_per_host": "2"}
    assert said(jobs, "smddp-older", OLDER, hyperparameters=two_a_host) == [
        f"trained {rank} local {rank % 2} of 4 by smddp" for rank in range(4)]


@pytest.mark.parametrize("launcher, carrier", [(TORCHRUN, "yard"), (PYTORCHDDP, "yard"), (SMDDP, "smddp")],
                         ids=["torch_distributed", "pytorchddp", "smdistributed"])
def test_a_script_that_names_no_backend_gets_ours_and_gloo_where_it_says_so(jobs, launcher, carrier):
    assert said(jobs, "no-name", NO_NAME, hyperparameters=launcher) == [
        f"trained {rank} by {carrier} and by gloo" for rank in range(2)]


def test_ranks_without_a_launcher_find_their_places_by_the_file_of_the_job(jobs):
    job = jobs.run("places", FINDS_ITS_PLACE, instances=2, seconds=PATIENCE)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert [line for line in jobs.lines(job["TrainingJobName"]) if line.startswith("summed")] == [
        f"summed {rank} of 2 3" for rank in range(2)]
