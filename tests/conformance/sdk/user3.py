# SPDX-License-Identifier: Apache-2.0
"""A user's session with the SageMaker Python SDK v3, and what it gave him, as JSON on the last line.

Runs a job that fails, one by torchrun and one that brings the package of the second argument, and reads back the job
whose name holds the first argument, which another session has started.
"""
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from botocore.exceptions import ClientError
from sagemaker.core.helper.iam_role_resolver import IamRoleResolver
from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.core.resources import TrainingJob
from sagemaker.core.utils.exceptions import FailedStatusError
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode
from sagemaker.train.distributed import Torchrun

IMAGE = "trainyard/pytorch"
FAILS = 'raise ValueError("the vocabulary is empty")'
IMPORTS = 'import greeting; print("imported", greeting.TEXT)'
RANKS = 'import os; print("rank", os.environ["RANK"], "by default", os.environ.get("TRAINYARD_DEFAULT_BACKEND"))'

session = Session()


def trainer(name, script, instances=1, wheel=None, **options):
    folder, source = tempfile.mkdtemp(), {}
    Path(folder, "main.py").write_text(script)
    if wheel:
        shutil.copy(wheel, folder)
        Path(folder, "needs.txt").write_text("--no-index\n--find-links .\ngreeting==1.0\n")
        source["requirements"] = "needs.txt"
    return ModelTrainer(training_image=IMAGE, base_job_name=name, role="trainyard",
                        source_code=SourceCode(source_dir=folder, entry_script="main.py", **source),
                        compute=Compute(instance_type="ml.c5.xlarge", instance_count=instances), **options)


def ended(started):
    job = started._latest_training_job
    job.wait(poll=1)
    events = session.boto_session.client("logs").filter_log_events(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{job.training_job_name}/")["events"]
    return {"status": job.training_job_status, "lines": [event["message"] for event in events]}


def fail():
    try:
        trainer("fails3", FAILS).train()
    except FailedStatusError as error:
        return str(error)
    return ""


def read_back(part_of_the_name):
    while not (found := list(TrainingJob.get_all(name_contains=part_of_the_name))):
        time.sleep(0.5)
    job = TrainingJob.get(found[0].training_job_name)
    job.wait(poll=1)
    return {"status": job.training_job_status, "model": job.model_artifacts.s3_model_artifacts,
            "metrics": {m.metric_name: m.value for m in job.final_metric_data_list},
            "hyperparameters": job.hyper_parameters, "role": job.role_arn,
            "entrypoint": job.algorithm_specification.container_entrypoint,
            "channels": [channel.channel_name for channel in job.input_data_config]}


def create_a_role():
    try:
        return IamRoleResolver(session).create_execution_role("training")
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def account_settings():
    try:
        return session.boto_session.client("lambda").list_functions()
    except ClientError as error:
        return error.response["Error"]


def main():
    by_torchrun = trainer("torchrun3", RANKS, 2, distributed=Torchrun())
    with_package = trainer("package3", IMPORTS, wheel=sys.argv[2])
    for started in (by_torchrun, with_package):
        started.train(wait=False)
    found = {"fail": fail(), "torchrun": ended(by_torchrun), "package": ended(with_package),
             "job": read_back(sys.argv[1]),
             "create_role": create_a_role(), "role": get_execution_role(session), "lambda": account_settings(),
             "account": session.account_id()}
    print(json.dumps(found, default=str))


main()
