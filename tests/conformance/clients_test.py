# SPDX-License-Identifier: Apache-2.0
"""The stock aws CLI and boto3, unmodified, drive the server: S3, jobs, logs, the LLM example."""
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import GROUP, ROOT
from hints import text_by_the_hint

EXAMPLE = ["--steps", "6"]


def aws(server, *arguments, parse=True):
    """Runs the aws CLI against the server; its JSON, or its text with parse=False."""
    done = subprocess.run([sys.executable, "-m", "awscli", *arguments, *(["--output", "json"] if parse else [])],
                          env=server.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if parse and done.stdout.strip() else done.stdout


def test_cli_s3_round_trip_with_a_multipart_object(server, tmp_path):
    big = tmp_path / "big.bin"
    big.write_bytes(os.urandom(20 << 20))
    aws(server, "s3", "mb", "s3://cli-bucket", parse=False)
    aws(server, "s3", "cp", "--no-progress", str(big), "s3://cli-bucket/dir/big.bin", parse=False)
    aws(server, "s3", "cp", "--no-progress", "s3://cli-bucket/dir/big.bin", str(tmp_path / "back.bin"), parse=False)
    assert (tmp_path / "back.bin").read_bytes() == big.read_bytes()
    listing = aws(server, "s3", "ls", "--recursive", "s3://cli-bucket/", parse=False)
    assert "dir/big.bin" in listing and str(20 << 20) in listing
    aws(server, "s3", "rm", "--recursive", "s3://cli-bucket/", parse=False)
    aws(server, "s3", "rb", "s3://cli-bucket", parse=False)


def test_cli_presigned_url_opens_without_keys(server, jobs):
    jobs.s3.put_object(Bucket=jobs.bucket, Key="presigned", Body=b"shown")
    url = aws(server, "s3", "presign", f"s3://{jobs.bucket}/presigned", parse=False).strip()
    done = subprocess.run(["curl", "-fsS", "--noproxy", "*", url], capture_output=True)
    assert done.stdout == b"shown", done.stderr


def test_cli_identity(server):
    assert aws(server, "sts", "get-caller-identity")["Account"] == "123456789012"


@pytest.mark.root
def test_cli_creates_waits_and_reads_logs(server, jobs):
    name = jobs.new_name("cli")
    request = jobs.request(name, 'print("hello from", __import__("socket").gethostname())', instances=2)
    aws(server, "sagemaker", "create-training-job", "--cli-input-json", json.dumps(request))
    jobs.wait(name)  # the CLI's own waiter looks every two minutes; it returns at once now
    aws(server, "sagemaker", "wait", "training-job-completed-or-stopped", "--training-job-name", name, parse=False)
    described = aws(server, "sagemaker", "describe-training-job", "--training-job-name", name)
    assert described["TrainingJobStatus"] == "Completed"
    streams = aws(server, "logs", "describe-log-streams", "--log-group-name", GROUP,
                  "--log-stream-name-prefix", name + "/")["logStreams"]
    assert len(streams) == 2
    events = aws(server, "logs", "get-log-events", "--log-group-name", GROUP,
                 "--log-stream-name", streams[0]["logStreamName"], "--start-from-head")["events"]
    assert "hello from algo-1" in [e["message"] for e in events]
    tail = aws(server, "logs", "filter-log-events", "--log-group-name", GROUP, "--filter-pattern", '"hello from"',
               "--log-stream-name-prefix", name + "/")["events"]
    assert sorted(e["message"] for e in tail) == ["hello from algo-1", "hello from algo-2"]
    listed = aws(server, "sagemaker", "list-training-jobs", "--name-contains", name)["TrainingJobSummaries"]
    assert [job["TrainingJobName"] for job in listed] == [name]
    aws(server, "sagemaker", "add-tags", "--resource-arn", described["TrainingJobArn"], "--tags", "Key=team,Value=a b")
    tags = aws(server, "sagemaker", "list-tags", "--resource-arn", described["TrainingJobArn"])["Tags"]
    assert tags == [{"Key": "team", "Value": "a b"}]
    aws(server, "sagemaker", "delete-training-job", "--training-job-name", name)
    jobs.sagemaker.create_training_job(**request)  # the name is free again
    jobs.wait(name)


@pytest.fixture(scope="module")
def text(server, tmp_path_factory):
    """A file to learn from, in a store where others have put theirs before."""
    s3 = server.client("s3")
    s3.create_bucket(Bucket="llm-example")
    s3.put_object(Bucket="llm-example", Key="corpus/aaa.txt", Body=b"Somebody else has written this.\n" * 30_000)
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    words = (ROOT / "LICENSE").read_text()
    path.write_text(words * 10)
    return path


def tokens_learnt(server, job):
    found = aws(server, "logs", "filter-log-events", "--log-group-name", GROUP, "--filter-pattern", '"tokens of text"',
                "--log-stream-name-prefix", job + "/")["events"]
    return int(re.search(r"([0-9,]+) tokens of text", found[0]["message"])[1].replace(",", ""))


@pytest.mark.root
def test_boto3_runs_the_llm_example_and_fetches_its_model(server, text, tmp_path):
    done = subprocess.run([sys.executable, ROOT / "examples/llm/submit_boto3.py", "--text", text, *EXAMPLE],
                          env=server.environment(), cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "Completed" in done.stdout, done.stdout + done.stderr
    assert tokens_learnt(server, re.search(r"created (\S+);", done.stdout)[1]) <= text.stat().st_size
    assert text_by_the_hint(done.stdout, tmp_path).startswith("Train")


@pytest.mark.root
def test_cli_runs_the_llm_example_and_fetches_its_model(server, text, tmp_path):
    wrapper = tmp_path / "bin"
    wrapper.mkdir()
    (wrapper / "aws").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m awscli "$@"\n')
    (wrapper / "aws").chmod(0o755)
    env = server.environment()
    env["PATH"] = f"{wrapper}:{env['PATH']}"
    done = subprocess.run([ROOT / "examples/llm/submit_cli.sh", text, "6"], env=env, cwd=tmp_path,
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "Completed" in done.stdout, done.stdout + done.stderr
    assert "step 6 loss" in done.stdout
    assert tokens_learnt(server, re.search(r"(\S+): Completed", done.stdout)[1]) <= text.stat().st_size
    assert text_by_the_hint(done.stdout, tmp_path).startswith("Train")
