# SPDX-License-Identifier: Apache-2.0
"""The limits of StoppingCondition on programs that would go on for ever."""
import pytest
from conftest import jobs_on, wait_for
from machines import Machine

pytestmark = pytest.mark.root

# A shell, for it hears SIGTERM from its first moment on.
SAVES_WHEN_STOPPED = '''
trap 'echo heard SIGTERM; echo as far as it got >/opt/ml/model/$SM_CURRENT_HOST; exit 0' TERM
while :; do sleep 0.05; done
'''


def run(jobs, stem, **members):
    return jobs.run(stem, files={"train.sh": SAVES_WHEN_STOPPED}, program="train.sh", seconds=90, **members)


def steps(job):
    return [(step["Status"], step["StatusMessage"]) for step in job["SecondaryStatusTransitions"]]


def seconds_of(job, status):
    step = next(step for step in job["SecondaryStatusTransitions"] if step["Status"] == status)
    return (step["EndTime"] - step["StartTime"]).total_seconds()


# cases.md 67
@pytest.mark.both_ways
def test_a_program_is_stopped_when_its_time_is_over_and_its_model_is_kept(jobs):
    job = run(jobs, "max-runtime", instances=2, StoppingCondition={"MaxRuntimeInSeconds": 3})
    name = job["TrainingJobName"]
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded"), job
    assert "FailureReason" not in job
    assert [status for status, _ in steps(job)] == ["Starting", "Downloading", "Training", "Stopping", "MaxRuntimeExceeded"]
    assert steps(job)[-2][1] == "MaxRuntimeInSeconds (3) is over: stopping the training job"
    assert seconds_of(job, "Training") >= 3
    assert jobs.lines(name).count("heard SIGTERM") == 2
    assert jobs.artifact(name) == {"algo-1": b"as far as it got\n", "algo-2": b"as far as it got\n"}
    assert len(jobs.attempts(name)) == 1, "a limit is no reason for another attempt"


def spot(seconds):
    return {"EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": seconds, "MaxWaitTimeInSeconds": seconds}}


def test_the_time_that_a_spot_job_may_wait_for_its_end_counts_from_its_creation(tmp_path):
    with jobs_on(tmp_path, "capacity: {instances: 1}\n") as jobs:
        holder = jobs.create("holder", "import time; print('holds', flush=True); time.sleep(300)")
        wait_for(lambda: "holds" in jobs.lines_so_far(holder), 60, "start of the job that holds the machine")
        late = jobs.create("late", files={"train.sh": SAVES_WHEN_STOPPED}, program="train.sh", **spot(20))
        # This one gets no machine in its time and never runs.
        job = run(jobs, "no-room", **spot(2))
        assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded"), job
        assert [status for status, _ in steps(job)] == ["Starting", "Stopping", "MaxWaitTimeExceeded"]
        assert "0 of 1 needed instances free" in steps(job)[0][1]
        assert steps(job)[-1][1].endswith("before its instances started")
        # The other one has waited as long, and runs for what is left of its time.
        jobs.sagemaker.stop_training_job(TrainingJobName=holder)
        job = jobs.wait(late)
        assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded"), job
        assert (job["SecondaryStatusTransitions"][-2]["StartTime"] - job["CreationTime"]).total_seconds() >= 20
        assert jobs.artifact(late) == {"algo-1": b"as far as it got\n"}
        assert len(jobs.attempts(late)) == 1, "a limit is no reason for another attempt"


# cases.md 80
def test_a_program_whose_server_is_gone_ends_in_time_and_its_model_waits(tmp_path):
    with jobs_on(tmp_path, "stop_grace_seconds: 1\n") as jobs:
        name = jobs.create("orphan", files={"train.sh": "echo up\n" + SAVES_WHEN_STOPPED}, program="train.sh",
                           StoppingCondition={"MaxRuntimeInSeconds": 10})
        wait_for(lambda: "up" in jobs.lines_so_far(name), 60, "start of the program")
        saved = Machine(jobs.server, name).scratch / "ml/model/algo-1"
        jobs.server.kill()
        wait_for(saved.exists, 60, "the program being stopped by its instance")
        jobs.server.start()
        job = jobs.wait(name)
        assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded"), job
        assert jobs.artifact(name) == {"algo-1": b"as far as it got\n"}
        assert len(jobs.attempts(name)) == 1
        assert any("the server is away, and MaxRuntimeInSeconds" in line for line in jobs.lines(name))
