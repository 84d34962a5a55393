# SPDX-License-Identifier: Apache-2.0
"""The disk that holds the server's home is full for longer than an instance may be silent: the job goes on, and
each line of it is in the log once."""
import subprocess
import time

import pytest
from botocore.exceptions import ClientError
from conftest import jobs_on, wait_for

pytestmark = [pytest.mark.root, pytest.mark.at_once]

SILENCE = 5  # seconds after which an instance counts as lost (src/wire/messages.h)
SCRIPT = '''
import itertools, time
for i in itertools.count():
    print("line", i, flush=True)
    time.sleep(0.02)
'''


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(path):
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def test_a_full_disk_loses_no_job_and_doubles_no_line(small_disk):
    with jobs_on(small_disk) as jobs:
        name = jobs.create("full", SCRIPT)
        wait_for(lambda: len(jobs.lines_so_far(name)) > 20, 30, "its first lines")
        fill(small_disk / "ballast")
        before = len(jobs.lines(name))
        full_until = time.monotonic() + 2 * SILENCE
        wait_for(lambda: time.monotonic() > full_until, 4 * SILENCE)
        (small_disk / "ballast").unlink()
        wait_for(lambda: len(jobs.lines(name)) > before + 2 * SILENCE * 20, 60, "what it printed meanwhile")
        fill(small_disk / "ballast")
        with pytest.raises(ClientError, match="cannot store it .*make room"):
            jobs.sagemaker.stop_training_job(TrainingJobName=name)
        (small_disk / "ballast").unlink()  # and the stop is carried out
        job = jobs.wait(name)
        assert job["TrainingJobStatus"] == "Stopped", job.get("FailureReason")
        assert len(jobs.attempts(name)) <= 1, jobs.attempts(name)
        lines = jobs.lines(name)
        assert lines[:-1] == [f"line {i}" for i in range(len(lines) - 1)]
