# SPDX-License-Identifier: Apache-2.0
"""A user's session with the SageMaker Python SDK v2, and what it gave him, as JSON on the last line.

Starts the example on the text of the second argument by mpirun, jobs that run by mpirun, by pytorchddp and by the
data parallel library, that fail, and that are stopped, and attaches to the job whose name holds the first argument,
which another session has started.
"""
import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path

import sagemaker
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.exceptions import UnexpectedStatusException
from sagemaker.pytorch import PyTorch
from sagemaker.s3 import S3Downloader

RANKS = '''
import os
print("rank", os.environ["OMPI_COMM_WORLD_RANK"], "of", os.environ["OMPI_COMM_WORLD_SIZE"], "on", os.uname().nodename)
'''
LAUNCHED = '''
import os
if os.environ["RANK"] == "1":
    print(os.environ["SMDATAPARALLEL_SERVER_ADDR"], os.environ["SAGEMAKER_INSTANCE_TYPE"], os.environ["NCCL_DEBUG"],
          os.environ.get("TRAINYARD_DEFAULT_BACKEND"))
'''
DISTRIBUTIONS = {
    "smdistributed": {"smdistributed": {"dataparallel": {"enabled": True, "custom_mpi_options": "--NCCL_DEBUG INFO"}}},
    "pytorchddp": {"pytorchddp": {"enabled": True, "custom_mpi_options": "-verbose"}},
}
FAILS = '''
import sys
print("reading the data")
raise ValueError("the vocabulary is empty")
'''
SLEEPS = 'import time; print("asleep", flush=True); time.sleep(600)'

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/llm"
METRICS = [{"Name": "train:loss", "Regex": r"loss (\S+)"}, {"Name": "train:tokens_per_second", "Regex": r"tokens/s (\S+)"}]
# A model that takes no time.
TINY = {"steps": 6, "warmup": 2, "batch": 2, "length": 32, "d-model": 32, "layers": 1, "heads": 2, "vocab": 300,
        "max-bytes": 100_000, "checkpoint-every": 3, "lr": 0.02}

session = sagemaker.Session()


def estimator(name, script, instances=1, **options):
    folder = tempfile.mkdtemp()
    Path(folder, "main.py").write_text(script)
    return pytorch(name, instances, entry_point="main.py", source_dir=folder, **options)


def pytorch(name, instances, **options):
    settings = {"framework_version": "2.8.0", "py_version": "py312", "instance_type": "ml.c5.xlarge"} | options
    return PyTorch(base_job_name=name, role="trainyard", instance_count=instances, max_run=600,
                   sagemaker_session=session, **settings)


def example_by_mpi(text):
    """The example, started."""
    started = pytorch("example-mpi", 2, entry_point="train.py", source_dir=str(EXAMPLE), hyperparameters=TINY,
                      metric_definitions=METRICS, distribution={"mpi": {"enabled": True, "processes_per_host": 1}})
    started.fit({"training": session.upload_data(text, session.default_bucket(), "corpus-of-mpi")}, wait=False)
    return started


def printed(action, *arguments, **options):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        action(*arguments, **options)
    return text.getvalue()


def fail():
    failing = estimator("fails", FAILS, 2)
    try:
        failing.fit()
    except UnexpectedStatusException as error:
        return {"message": str(error), "status": error.actual_status}
    return {}


def stop(sleeping):
    job = sleeping.latest_training_job
    job.stop()
    job.wait(logs=False)
    return {"status": job.describe()["TrainingJobStatus"], "arn": job.describe()["TrainingJobArn"]}


def launched(name):
    """The SDK wants the newest of its versions that has the data parallel library, and a type for it."""
    return estimator(name, LAUNCHED, 2, distribution=DISTRIBUTIONS[name], framework_version="2.2.0",
                     py_version="py310", instance_type="ml.p4d.24xlarge")


def run(estimating):
    job = estimating.latest_training_job
    job.wait(logs=False)
    return {"job": job.describe(), "lines": printed(session.logs_for_job, job.name)}


def trained(estimating):
    """The same of a job that defines metrics and leaves a model, which comes to this folder."""
    found = run(estimating)
    S3Downloader.download(estimating.model_data, "model-of-mpi")
    frame = TrainingJobAnalytics(estimating.latest_training_job.name, sagemaker_session=session).dataframe()
    return found | {"metrics": frame.to_dict("records")}


def attach(part_of_the_name):
    client = session.sagemaker_client
    while not (found := client.list_training_jobs(NameContains=part_of_the_name)["TrainingJobSummaries"]):
        time.sleep(0.5)
    name = found[0]["TrainingJobName"]
    client.get_waiter("training_job_completed_or_stopped").wait(
        TrainingJobName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 180})
    attached = PyTorch.attach(name)
    described = attached.latest_training_job.describe()
    frame = TrainingJobAnalytics(attached.latest_training_job.name, sagemaker_session=session).dataframe()
    return {"name": attached.latest_training_job.name, "model_data": attached.model_data, "role": attached.role,
            "hyperparameters": attached.hyperparameters(), "instances": attached.instance_count,
            "checkpoints": S3Downloader.list(described["CheckpointConfig"]["S3Uri"]),
            "metrics": frame.to_dict("records"), "description": described}


def main():
    sleeping, ranks = estimator("sleeps", SLEEPS), estimator(
        "ranks", RANKS, 2, distribution={"mpi": {"enabled": True, "processes_per_host": 2}})
    example, by_name = example_by_mpi(sys.argv[2]), {name: launched(name) for name in DISTRIBUTIONS}
    for started in (sleeping, ranks, *by_name.values()):
        started.fit(wait=False)
    found = {"fail": fail(), "stop": stop(sleeping), "mpi": run(ranks), "example": trained(example), "attach": attach(sys.argv[1]),
             "bucket": session.default_bucket()} | {name: run(job) for name, job in by_name.items()}
    print(json.dumps(found, default=str))


main()
