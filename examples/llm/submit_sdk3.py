# SPDX-License-Identifier: Apache-2.0
"""Runs train.py on two instances with the SageMaker Python SDK v3, and fetches the model.

    eval "$(./yard env)"; "$(tools/python_env sdk3)/bin/python" examples/llm/submit_sdk3.py --text FILE
"""
import argparse
import logging
from pathlib import Path

from sagemaker.core import image_uris
from sagemaker.core.common_utils import unique_name_from_base
from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.core.s3 import S3Downloader
from sagemaker.core.training.configs import CheckpointConfig, MetricDefinition
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode, StoppingCondition
from sagemaker.train.distributed import Torchrun

HERE = Path(__file__).resolve().parent
INSTANCE = "ml.c5.xlarge"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True, help="a text file to learn from")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--instances", type=int, default=2)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")  # the SDK logs the job's lines

    session = Session()
    bucket = session.default_bucket()
    image = image_uris.retrieve("pytorch", session.boto_region_name, version="2.8.0", py_version="py312",
                                instance_type=INSTANCE, image_scope="training")
    trainer = ModelTrainer(
        base_job_name="llm-sdk3",
        training_image=image,
        source_code=SourceCode(source_dir=str(HERE), entry_script="train.py"),
        distributed=Torchrun(),
        compute=Compute(instance_type=INSTANCE, instance_count=args.instances),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=3600),
        hyperparameters={"steps": args.steps, "checkpoint-every": max(1, args.steps // 4)},
        role=get_execution_role(session),
    ).with_metric_definitions([
        MetricDefinition(name="train:loss", regex=r"loss (\S+)"),
        MetricDefinition(name="train:tokens_per_second", regex=r"tokens/s (\S+)"),
    ]).with_checkpoint_config(
        CheckpointConfig(s3_uri=f"s3://{bucket}/checkpoints/{unique_name_from_base('llm-sdk3')}"))

    corpus = session.upload_data(args.text, bucket, "corpus")
    trainer.train(input_data_config=[InputData(channel_name="training", data_source=corpus)])
    job = trainer._latest_training_job
    S3Downloader.download(job.model_artifacts.s3_model_artifacts, ".")
    print("model.tar.gz is here; to let it write, with the Python that jobs have:\n"
          f'  "$("{HERE.parents[1]}/tools/python_env" torch)/bin/python" "{HERE}/sample.py" model.tar.gz')


if __name__ == "__main__":
    main()
