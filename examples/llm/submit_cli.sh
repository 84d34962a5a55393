#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs train.py on two instances with the aws CLI alone, and fetches the model.
#   eval "$(./yard env)"; examples/llm/submit_cli.sh TEXT_FILE [STEPS]
set -euo pipefail
text=${1:?usage: submit_cli.sh TEXT_FILE [STEPS]}
steps=${2:-200}
here=$(dirname "$(readlink -f "$0")")
bucket=llm-example
job=llm-cli-$(date +%Y%m%d-%H%M%S)
role=arn:aws:iam::123456789012:role/trainyard

archive=$(mktemp --suffix .tar.gz)
trap 'rm -f "$archive"' EXIT
tar -C "$here" -czf "$archive" train.py

aws s3api head-bucket --bucket "$bucket" >/dev/null 2>&1 || aws s3 mb "s3://$bucket"
aws s3 cp --no-progress "$text" "s3://$bucket/$job/corpus/"
aws s3 cp --no-progress "$archive" "s3://$bucket/$job/source/sourcedir.tar.gz"
aws sagemaker create-training-job \
  --training-job-name "$job" --role-arn "$role" \
  --algorithm-specification TrainingImage=trainyard/pytorch,TrainingInputMode=File \
  --hyper-parameters "sagemaker_submit_directory=s3://$bucket/$job/source/sourcedir.tar.gz,sagemaker_program=train.py,sagemaker_torch_distributed_enabled=true,steps=$steps" \
  --input-data-config "ChannelName=training,DataSource={S3DataSource={S3DataType=S3Prefix,S3Uri=s3://$bucket/$job/corpus/}}" \
  --output-data-config "S3OutputPath=s3://$bucket/output" \
  --checkpoint-config "S3Uri=s3://$bucket/$job/checkpoints" \
  --resource-config InstanceType=ml.c5.xlarge,InstanceCount=2,VolumeSizeInGB=30 \
  --stopping-condition MaxRuntimeInSeconds=3600

# "aws sagemaker wait training-job-completed-or-stopped" does the same, but looks every two minutes.
status=InProgress
while [ "$status" = InProgress ]; do
  sleep 2
  status=$(aws sagemaker describe-training-job --training-job-name "$job" --query TrainingJobStatus --output text)
done
echo "$job: $status"
aws logs filter-log-events --log-group-name /aws/sagemaker/TrainingJobs \
  --log-stream-name-prefix "$job/" --query 'events[].message' --output text | tr '\t' '\n' | tail -5
[ "$status" = Completed ]
aws s3 cp --no-progress "s3://$bucket/output/$job/output/model.tar.gz" model.tar.gz
echo "model.tar.gz is here; to let it write, with the Python that jobs have:"
echo "  \"\$(\"$(realpath "$here/../..")/tools/python_env\" torch)/bin/python\" \"$here/sample.py\" model.tar.gz"
