# SPDX-License-Identifier: Apache-2.0
"""The limits of StoppingCondition on programs that would go on for ever."""
import pytest
from conftest import jobs_on, wait_for
from machines import Machine

pytestmark = pytest.mark.root

# A shell, for it hears SIGTERM from its first moment on.
SAVES_WHEN_STOPPED = '''
trap 'echo heard SIGTERM; echo as far as it got >/opt/ml/model/$SM_CURRENT_HOST; exit 0' TERM
touch /opt/ml/output/data/up-$SM_CURRENT_HOST
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


def two_that_wait(jobs, seconds):
    """The ends of two jobs that found the only machine taken: one whose time is over before it gets it, and one that
    has waited as long, and then gets it."""
    holder = jobs.create("holder", "import time; print('holds', flush=True); time.sleep(300)")
    wait_for(lambda: "holds" in jobs.lines_so_far(holder), 60, "start of the job that holds the machine")
    late = jobs.create("late", files={"train.sh": SAVES_WHEN_STOPPED}, program="train.sh", **spot(seconds))
    no_room = run(jobs, "no-room", **spot(2))
    jobs.sagemaker.stop_training_job(TrainingJobName=holder)
    return no_room, jobs.wait(late, seconds + 60)


def test_the_time_that_a_spot_job_may_wait_for_its_end_counts_from_its_creation(tmp_path):
    with jobs_on(tmp_path, "capacity: {instances: 1}\n") as jobs:
        for seconds in (15, 60):  # a busy machine may need all of a short time to get the second one to run
            no_room, late = two_that_wait(jobs, seconds)
            if "Training" in dict(steps(late)) and seconds_of(late, "Training") > 1:
                break
        assert (no_room["TrainingJobStatus"], no_room["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded"), no_room
        assert [status for status, _ in steps(no_room)] == ["Starting", "Stopping", "MaxWaitTimeExceeded"]
        assert "0 of 1 needed instances free" in steps(no_room)[0][1]
        assert steps(no_room)[-1][1].endswith("before its instances started")
        name = late["TrainingJobName"]
        assert (late["TrainingJobStatus"], late["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded"), late
        assert (late["SecondaryStatusTransitions"][-2]["StartTime"] - late["CreationTime"]).total_seconds() >= seconds
        assert seconds_of(late, "Training") < seconds, "it counts from the start of the program"
        assert jobs.artifact(name) == {"algo-1": b"as far as it got\n"}
        assert len(jobs.attempts(name)) == 1, "a limit is no reason for another attempt"


# cases.md 80
def test_a_program_whose_server_is_gone_ends_in_time_and_its_model_waits(tmp_path):
    with jobs_on(tmp_path, "stop_grace_seconds: 1\n") as jobs:
        name = jobs.create("orphan", files={"train.sh": SAVES_WHEN_STOPPED}, program="train.sh",
                           StoppingCondition={"MaxRuntimeInSeconds": 12})
        machine = Machine(jobs.server, name)
        # Seen here and not in the log, which takes its time: the server must be gone before the limit is reached.
        wait_for((machine.scratch / "ml/output/data/up-algo-1").exists, 60, "start of the program")
        jobs.server.kill()
        saved = machine.scratch / "ml/model/algo-1"
        wait_for(saved.exists, 60, "the program being stopped by its instance")
        jobs.server.start()
        job = jobs.wait(name)
        assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded"), job
        assert jobs.artifact(name) == {"algo-1": b"as far as it got\n"}
        assert len(jobs.attempts(name)) == 1
        assert any("the server is away, and MaxRuntimeInSeconds" in line for line in jobs.lines(name))
