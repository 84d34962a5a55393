# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on their way to S3.

mirror-lag           a 10 MB checkpoint has got its name in /opt/ml/checkpoints of a running job -> its object
                     is in S3 with the same bytes; beside it boto3's put_object of the same bytes
mirror-small-files   1,000 files of 1 KiB written at once -> the last object is in S3
"""
import hashlib
import re
import statistics
import tempfile
import time
from pathlib import Path

from botocore.exceptions import ClientError
from conftest import Jobs, Server

BYTES = 10_000_000
FILES = 1_000
TARGET = 1.5  # seconds
# One checkpoint every two seconds.
LARGE = f'''
import hashlib, os, sys, time
count = int(sys.argv[sys.argv.index("--count") + 1])
for i in range(count):
    data = os.urandom({BYTES})
    path = f"/opt/ml/checkpoints/step-{{i}}"
    with open(path + ".tmp", "wb") as out:
        out.write(data)
    os.rename(path + ".tmp", path)
    print("wrote", i, hashlib.sha256(data).hexdigest(), repr(time.time()), flush=True)
    time.sleep(2)
'''
SMALL = f'''
import os, sys, time
count = int(sys.argv[sys.argv.index("--count") + 1])
for i in range(count):
    os.makedirs(f"/opt/ml/checkpoints/batch-{{i}}")
    for j in range({FILES}):
        with open(f"/opt/ml/checkpoints/batch-{{i}}/{{j}}", "wb") as out:
            out.write(os.urandom(1024))
    print("wrote", i, "-", repr(time.time()), flush=True)
    time.sleep(8)
'''
WROTE = re.compile(r"wrote (\d+) (\S+) ([\d.]+)")


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return time.time()
        time.sleep(0.005)
    raise SystemExit(f"nothing within {seconds} s")


def is_there(jobs, key):
    try:
        jobs.s3.head_object(Bucket=jobs.bucket, Key=key)
        return True
    except ClientError:
        return False


def run_job(jobs, script, count, prefix):
    return jobs.create("mirror", script, hyperparameters={"count": count},
                       CheckpointConfig={"S3Uri": f"s3://{jobs.bucket}/{prefix}"})


def written(jobs, name):
    """What the job says that it wrote: {number: (digest, time)}."""
    job = jobs.wait(name, 120)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return {int(found[1]): (found[2], float(found[3]))
            for line in jobs.lines(name) if (found := WROTE.search(line))}


def plain_put(jobs, number):
    data = bytes(number % 256 for _ in range(BYTES))
    began = time.time()
    jobs.s3.put_object(Bucket=jobs.bucket, Key=f"plain/{number}", Body=data)
    return time.time() - began


def large_files(jobs, runs):
    count = runs + 1  # the first warms up
    name = run_job(jobs, LARGE, count, "mirror-lag")
    seen, plain = [], []
    for i in range(count):
        seen.append(wait_for(lambda: is_there(jobs, f"mirror-lag/step-{i}"), 60))
        plain.append(plain_put(jobs, i))
    wrote = written(jobs, name)
    for i in range(count):
        body = jobs.s3.get_object(Bucket=jobs.bucket, Key=f"mirror-lag/step-{i}")["Body"].read()
        assert hashlib.sha256(body).hexdigest() == wrote[i][0], f"step-{i} has other bytes"
    lags = [seen[i] - wrote[i][1] for i in range(1, count)]
    return case("mirror-lag", lags, statistics.median(plain[1:]), "boto3 put_object", TARGET)


def small_files(jobs, runs):
    count = runs + 1
    name = run_job(jobs, SMALL, count, "mirror-small")

    def is_whole(batch):
        pages = jobs.s3.get_paginator("list_objects_v2").paginate(Bucket=jobs.bucket, Prefix=f"mirror-small/batch-{batch}/")
        return sum(page["KeyCount"] for page in pages) == FILES

    seen = [wait_for(lambda: is_whole(i), 60) for i in range(count)]
    wrote = written(jobs, name)
    return case("mirror-small-files", [seen[i] - wrote[i][1] for i in range(1, count)])


def case(name, seconds, peer=None, peer_name=None, target=None):
    ours = statistics.median(seconds)
    return {"case": name, "unit": "s", "better": "lower", "ours": ours, "peer": peer, "peer_name": peer_name,
            "ratio": peer / ours if peer else None, "all": seconds} | ({"target": target} if target else {})


def run(runs, only):
    parts = {"mirror-lag": large_files, "mirror-small-files": small_files}
    cases = []
    for name in only or parts:
        if name not in parts:
            raise SystemExit(f"no such case: {name} (one of {', '.join(parts)})")
        with tempfile.TemporaryDirectory() as folder:
            server = Server(Path(folder)).start()
            try:
                cases.append(parts[name](Jobs(server), runs))
            finally:
                assert server.stop() == 0
    return cases
