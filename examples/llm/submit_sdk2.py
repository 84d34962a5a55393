# SPDX-License-Identifier: Apache-2.0
"""Runs train.py on two instances with the SageMaker Python SDK v2, and fetches the model.

    eval "$(./yard env)"; "$(tools/python_env sdk2)/bin/python" examples/llm/submit_sdk2.py --text FILE
"""
import argparse
from pathlib import Path

import sagemaker
from sagemaker.pytorch import PyTorch
from sagemaker.s3 import S3Downloader
from sagemaker.utils import unique_name_from_base

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True, help="a text file to learn from")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--instances", type=int, default=2)
    args = parser.parse_args()

    session = sagemaker.Session()
    bucket = session.default_bucket()
    estimator = PyTorch(
        base_job_name="llm-sdk2",
        entry_point="train.py",
        source_dir=str(HERE),
        framework_version="2.8.0",
        py_version="py312",
        role=sagemaker.get_execution_role(),
        instance_count=args.instances,
        instance_type="ml.g5.xlarge",  # the SDK wants a GPU for torch_distributed; here a CPU does
        distribution={"torch_distributed": {"enabled": True}},
        hyperparameters={"steps": args.steps, "checkpoint-every": max(1, args.steps // 4)},
        metric_definitions=[
            {"Name": "train:loss", "Regex": r"loss (\S+)"},
            {"Name": "train:tokens_per_second", "Regex": r"tokens/s (\S+)"},
        ],
        checkpoint_s3_uri=f"s3://{bucket}/checkpoints/{unique_name_from_base('llm-sdk2')}",
        max_run=3600,
    )
    estimator.fit({"training": session.upload_data(args.text, bucket, "corpus")})
    S3Downloader.download(estimator.model_data, ".")
    print("model.tar.gz is here; to let it write, with the Python that jobs have:\n"
          f'  "$("{HERE.parents[1]}/tools/python_env" torch)/bin/python" "{HERE}/sample.py" model.tar.gz')


if __name__ == "__main__":
    main()
