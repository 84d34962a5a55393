# SPDX-License-Identifier: Apache-2.0
"""Packages that a job brings: its program can import them, no other job sees them, and none of them stays."""
from pathlib import Path

import pytest
from conftest import wait_for
from wheels import wheel

pytestmark = pytest.mark.root

GREETING = wheel("greeting", "1.0", {"greeting/__init__.py": "TEXT = 'good morning'\n"})
# One that the environment has already, several directories deep.
TQDM = wheel("tqdm", "999", {"tqdm/__init__.py": "__version__ = 'of the job'\n"})
LOCAL = "--no-index\n--find-links wheels\n"
LOOKS = """
import importlib.util, sys
import tqdm
greeting = importlib.util.find_spec("greeting")
print("tqdm", tqdm.__version__, "greeting", greeting and __import__("greeting").TEXT)
print("prefix", sys.prefix)
"""
# What a user tells pip by its variables, and uv would not hear; without them uv installs.
SETTINGS = {"uv": {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": ""},
            "pip": {"PIP_FIND_LINKS": "/opt/ml/code/wheels", "PIP_NO_INDEX": "1"}}
REQUIREMENTS = {"uv": LOCAL + "greeting\ntqdm==999\n", "pip": "greeting\ntqdm==999\n"}


def sources(requirements, program=LOOKS):
    wheels = {f"wheels/{name}": content for name, content in (GREETING, TQDM)}
    return {"train.py": program, "requirements.txt": requirements} | wheels


def found(jobs, job):
    """What a program that looks has seen, and where its environment is on this machine."""
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = jobs.lines(job["TrainingJobName"])
    seen = [line.removeprefix("tqdm ") for line in lines if line.startswith("tqdm ")]
    prefix = next(line.split()[1] for line in lines if line.startswith("prefix "))
    return seen, Path(prefix)


def leaves_nothing(jobs, job, prefix):
    """Neither on this machine nor to the next job."""
    name = job["TrainingJobName"]
    wait_for(lambda: not (jobs.server.home / "run" / name).exists(), 20, "clean-up")
    assert not list(prefix.glob("lib/python3*/site-packages/greeting*"))
    (seen,), _ = found(jobs, jobs.run("after", LOOKS))
    return not seen.startswith("of the job") and seen.endswith("greeting None")


def bring_packages(jobs, installer):
    job = jobs.run("requirements", files=sources(REQUIREMENTS[installer]), instances=2, seconds=120,
                   Environment=SETTINGS[installer])
    seen, prefix = found(jobs, job)
    assert seen == ["of the job greeting good morning"] * 2
    assert leaves_nothing(jobs, job, prefix)


@pytest.mark.both_ways
def test_requirements_of_the_source_are_there_on_every_instance_and_gone_with_the_job(jobs):
    bring_packages(jobs, "uv")


@pytest.mark.both_ways_slow
def test_requirements_that_pip_must_install_are_there_and_gone_as_well(jobs):
    bring_packages(jobs, "pip")


INSTALLS = """
import subprocess, sys
links = ["--no-index", "--find-links", "/opt/ml/input/data/wheels"]
subprocess.run([sys.executable, "-m", "pip", "install", *links, "greeting", "tqdm==999"], check=True)
subprocess.run(["pip", "uninstall", "--yes", "greeting"], check=True)
subprocess.run(["pip", "install", *links, "greeting"], check=True)
subprocess.run([sys.executable, "/opt/ml/input/data/programs/looks.py"], check=True)
"""


@pytest.mark.both_ways_slow
def test_pip_of_a_program_with_its_own_command_installs_and_replaces(jobs):
    for name, content in (GREETING, TQDM):
        jobs.s3.put_object(Bucket=jobs.bucket, Key=f"wheels/{name}", Body=content)
    for name, text in (("installs.py", INSTALLS), ("looks.py", LOOKS)):
        jobs.s3.put_object(Bucket=jobs.bucket, Key=f"programs/{name}", Body=text)
    job = jobs.run("own-pip", seconds=120, AlgorithmSpecification={
        "TrainingImage": "trainyard/pytorch", "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python3", "/opt/ml/input/data/programs/installs.py"]},
        channels={name: (f"s3://{jobs.bucket}/{name}/", "FullyReplicated") for name in ("wheels", "programs")})
    seen, prefix = found(jobs, job)
    assert seen == ["of the job greeting good morning"]
    assert leaves_nothing(jobs, job, prefix)


def refusal(jobs, stem, requirements, settings):
    job = jobs.run(stem, files=sources(requirements, "print('never')"), seconds=120, Environment=settings)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError: algo-1: could not install requirements.txt")
    return job["FailureReason"]


def test_a_package_that_is_nowhere_is_named_with_the_installers_words(jobs):
    reason = refusal(jobs, "nowhere", LOCAL + "no-such-package\n", SETTINGS["uv"])
    assert "no-such-package was not found" in reason, reason


# Its address is of the instance itself, where nobody listens.
@pytest.mark.parametrize("index", [
    {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0", "PIP_FIND_LINKS": ""},
    {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}], ids=["uv", "pip"])
def test_an_index_out_of_reach_comes_with_what_to_do(jobs, index):
    reason = refusal(jobs, "unreachable", "no-such-package\n", index)
    assert "out of this job's reach" in reason and "--find-links" in reason, reason
