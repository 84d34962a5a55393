# SPDX-License-Identifier: Apache-2.0
"""Runs train.py on two instances through the public API with boto3, and fetches the model.

    eval "$(./yard env)"; "$(tools/python_env clients)/bin/python" examples/llm/submit_boto3.py --text FILE
"""
import argparse
import contextlib
import io
import tarfile
import time
from pathlib import Path

import boto3

HERE = Path(__file__).resolve().parent
BUCKET = "llm-example"
ROLE = "arn:aws:iam::123456789012:role/trainyard"
METRICS = {"train:step": r"step (\d+) loss ", "train:loss": r"step \d+ loss ([0-9.]+|nan|inf)"}


def upload(s3, name, text, script="train.py"):
    """The corpus and the source archive in S3; gives their URIs."""
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # outside us-east-1, what is there is an error
        s3.create_bucket(Bucket=BUCKET)
    s3.upload_file(text, BUCKET, f"{name}/corpus/{Path(text).name}")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(HERE / script, script)
    s3.put_object(Bucket=BUCKET, Key=f"{name}/source/sourcedir.tar.gz", Body=archive.getvalue())
    return f"s3://{BUCKET}/{name}/corpus/", f"s3://{BUCKET}/{name}/source/sourcedir.tar.gz"


def training_job(name, corpus, source, instances=2, script="train.py", **hyperparameters):
    """The CreateTrainingJob request: script mode, started as torchrun would."""
    return {
        "TrainingJobName": name,
        "RoleArn": ROLE,
        "AlgorithmSpecification": {
            "TrainingImage": "trainyard/pytorch", "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": metric, "Regex": regex} for metric, regex in METRICS.items()]},
        "HyperParameters": {
            "sagemaker_submit_directory": source,
            "sagemaker_program": script,
            "sagemaker_torch_distributed_enabled": "true",
            **{key.replace("_", "-"): str(value) for key, value in hyperparameters.items()},
        },
        "InputDataConfig": [{
            "ChannelName": "training",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": corpus}},
        }],
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/output"},
        # What the script keeps in /opt/ml/checkpoints, and finds there when it has to start again.
        "CheckpointConfig": {"S3Uri": f"s3://{BUCKET}/{name}/checkpoints"},
        "ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": instances, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True, help="a text file to learn from")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--instances", type=int, default=2)
    args = parser.parse_args()

    s3, sagemaker = boto3.client("s3"), boto3.client("sagemaker")
    name = time.strftime("llm-%Y%m%d-%H%M%S")
    corpus, source = upload(s3, name, args.text)
    sagemaker.create_training_job(**training_job(name, corpus, source, args.instances, steps=args.steps))
    print(f"created {name}; follow it with: trainyard logs -f {name}")
    while (job := sagemaker.describe_training_job(TrainingJobName=name))["TrainingJobStatus"] == "InProgress":
        time.sleep(2)
    print(job["TrainingJobStatus"], job.get("FailureReason", ""))
    if job["TrainingJobStatus"] == "Completed":
        s3.download_file(BUCKET, f"output/{name}/output/model.tar.gz", "model.tar.gz")
        print("model.tar.gz is here; to let it write, with the Python that jobs have:\n"
              f'  "$("{HERE.parents[1]}/tools/python_env" torch)/bin/python" "{HERE}/sample.py" model.tar.gz')


if __name__ == "__main__":
    main()
