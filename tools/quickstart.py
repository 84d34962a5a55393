# SPDX-License-Identifier: Apache-2.0
"""The job of ./yard quickstart: a small LLM trained on real text by two instances, sent through the
public AWS API with boto3, its loss drawn live, its model fetched from S3 and sampled. Half-way one of
the instances is killed, for everybody to see what happens then; --calm leaves that out.

Needs the environment of `./yard env`. SIGINT and SIGTERM stop the job and wait for its end, a second one does not
wait; the exit code is 128 and the signal's number. A SIGINT that was ignored at the start stays so.
"""
import argparse
import datetime
import gzip
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "llm"))
from quickstart_view import Curve, Story  # noqa: E402
from submit_boto3 import BUCKET, METRICS, training_job, upload  # noqa: E402

DICTIONARY = Path("/usr/share/dictd/gcide.dict.dz")
GROUP = "/aws/sagemaker/TrainingJobs"  # of logs, and the namespace of metrics
STEP = re.compile(METRICS["train:step"])
SCRIPT = "train_yard.py"
VICTIM = "algo-2"
ENDED = ("Completed", "Failed", "Stopped")


class Interrupted(BaseException):
    """A signal has come; no handler of errors takes it for one."""

    def __init__(self, number):
        super().__init__(number)
        self.code = 128 + number


class Signals:
    """SIGINT and SIGTERM as Interrupted. The first one, and hold(), hold back the next until they are let through.
    Those that come together are one: many tell each process of a group, and ./yard tells it again."""

    together = 1.5  # seconds; less than in tools/attend.sh, so that whatever that passes on counts

    def __init__(self):
        self.held, self.came, self.heard_at = False, None, -math.inf
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.hear)

    def hear(self, number, _):
        now = time.monotonic()
        if now - self.heard_at > self.together:
            self.heard_at = now
            self.interrupt(number)

    def interrupt(self, number):
        if self.held:
            self.came = number
        else:
            self.held = True
            raise Interrupted(number)

    def hold(self):
        self.held = True

    def let_through(self):
        number, self.held, self.came = self.came, False, None
        if number is not None:
            self.interrupt(number)


def corpus(given, folder):
    """The text file to learn from: the caller's, or the GNU dictionary without its page marks."""
    if given:
        if not Path(given).is_file():
            sys.exit(f"--corpus: no such file: {given}")
        return Path(given)
    if not DICTIONARY.is_file():
        sys.exit(f"{DICTIONARY} is missing: install the Debian package dict-gcide, or give --corpus FILE")
    target = Path(folder) / "gcide.txt"
    source_mark = re.compile(rb"^ *\[.*Webster.*\]$")
    with gzip.open(DICTIONARY) as packed, target.open("wb") as out:
        out.writelines(line for line in packed if not source_mark.match(line.rstrip()))
    return target


def require_backend(python):
    """Stops here, rather than in a job, when jobs would not find the collectives library."""
    environment = Path(python).parent.parent
    if not list(environment.glob("lib/python3*/site-packages/trainyard/.installed")):
        sys.exit(f"{SCRIPT} needs Trainyard's collectives library, which is not in {environment}: "
                 "make it writable, and run ./yard setup torch")


class Follower:
    """New lines of all streams of a job, through the CloudWatch Logs API."""

    def __init__(self, job):
        self.logs, self.job, self.tokens = boto3.client("logs"), job, {}

    def lines(self):
        try:
            found = self.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{self.job}/")
        except self.logs.exceptions.ResourceNotFoundException:
            return
        for stream in found["logStreams"]:
            name = stream["logStreamName"]
            while True:
                token = {"nextToken": self.tokens[name]} if name in self.tokens else {}
                page = self.logs.get_log_events(logGroupName=GROUP, logStreamName=name, startFromHead=True, **token)
                self.tokens[name] = page["nextForwardToken"]
                if not page["events"]:
                    break
                for event in page["events"]:
                    yield name.split("/")[1].rsplit("-", 1)[0], event["message"]


def losses(cloudwatch, job):
    """The job's metrics so far, second by second: the last step in it, and the mean loss."""
    def query(metric, statistic):
        return {"Id": metric, "MetricStat": {"Period": 1, "Stat": statistic, "Metric": {
            "Namespace": GROUP, "MetricName": f"train:{metric}",
            "Dimensions": [{"Name": "TrainingJobName", "Value": job["TrainingJobName"]}]}}}
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=1)
    found = cloudwatch.get_metric_data(
        MetricDataQueries=[query("step", "Maximum"), query("loss", "Average")],
        StartTime=job["CreationTime"], EndTime=end)["MetricDataResults"]
    steps, means = (dict(zip(result["Timestamps"], result["Values"])) for result in found)
    return [(int(steps[second]), means[second]) for second in sorted(means) if second in steps]


def below(pid):
    """The process and all that descend from it: nobody leaves a container, so that is a whole instance."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


class Fault:
    """Takes one instance away, once a checkpoint of half the steps is in S3 and the training is beyond it."""

    def __init__(self, home, job, steps):
        self.home, self.job, self.half, self.killed_at, self.s3 = Path(home), job, steps // 2, None, boto3.client("s3")

    def is_due(self, step):
        if self.killed_at is not None or step <= self.half:
            return False
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.job}/checkpoints/").get("Contents", [])
        saved = [int(name[1]) for item in found if (name := re.search(r"step-(\d+)\.pt$", item["Key"]))]
        return self.half <= max(saved, default=0) < step

    def strike(self, step):
        """kill -9 of the instance's supervisor and of all below it; gives the number of processes."""
        self.killed_at = step
        record = next((self.home / "run" / self.job).glob(f"*/{VICTIM}.json"))
        pids = below(json.loads(record.read_text())["pid"])
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # with the one before it
                pass
        return len(pids)


def follow(sagemaker, name, steps, fault):
    """Shows the job until it ends; gives its last description, its losses, and what the story has told."""
    curve, follower, cloudwatch = Curve(steps), Follower(name), boto3.client("cloudwatch")
    story = Story(curve, STEP)
    while True:
        job = sagemaker.describe_training_job(TrainingJobName=name)
        story.transitions(job)
        for host, text in follower.lines():
            story.line(host, text)
        story.losses(losses(cloudwatch, job))
        story.tick()
        if fault and curve.points and fault.is_due(curve.points[-1][0]):
            count = fault.strike(curve.points[-1][0])
            story.say(f"  Now something breaks: kill -9 of everything on {VICTIM}, {count} processes.")
        if job["TrainingJobStatus"] in ENDED:
            return job, curve.points, story
        time.sleep(0.5)


def stop(name, signals):
    """Ends the job, with a client of its own: the other may have been interrupted in the middle of a call."""
    sagemaker = boto3.client("sagemaker", config=Config(read_timeout=20, retries={"total_max_attempts": 2}))

    def status():
        return sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]

    print(f"\n  Stopping {name}; a second Ctrl-C or SIGTERM does not wait for its end", flush=True)
    try:
        if status() == "InProgress":
            sagemaker.stop_training_job(TrainingJobName=name)
        signals.let_through()
        while status() not in ENDED:
            time.sleep(0.2)
        print(f"  {name} has ended", flush=True)
    except Interrupted:
        print(f"\n  {name} is about to stop. To see it: ./yard status", flush=True)
    except (BotoCoreError, ClientError) as error:
        print(f"  {name} was not stopped: {error}\n"
              f'  To stop it: ./yard up; eval "$(./yard env)"; trainyard stop {name}', flush=True)


def train(scratch, signals, args):
    """A job from its text to its end; gives what follow() does, and what was done to it."""
    s3, sagemaker = boto3.client("s3"), boto3.client("sagemaker")
    name = time.strftime("quickstart-%Y%m%d-%H%M%S")
    text = corpus(args.corpus, scratch)
    print(f"  {text.name}: {text.stat().st_size / 1e6:.1f} MB of text to s3://{BUCKET}/{name}/corpus/", flush=True)
    uri, source = upload(s3, name, str(text), SCRIPT)
    fault = None if args.calm else Fault(args.home, name, args.steps)
    signals.hold()  # there is a job to stop, or there is none
    sagemaker.create_training_job(**training_job(
        name, uri, source, script=SCRIPT, steps=args.steps, checkpoint_every=max(1, args.steps // 4)))
    try:
        signals.let_through()
        print(f"  created {name}", flush=True)
        end = follow(sagemaker, name, args.steps, fault)
        s3.delete_object(Bucket=BUCKET, Key=f"{name}/corpus/{text.name}")  # 40 MB a run, which nobody reads again
        return *end, fault
    except Interrupted:
        stop(name, signals)
        raise


def show_model(job, scratch, python):
    """Fetches the job's model from S3, and lets it write."""
    model = job["ModelArtifacts"]["S3ModelArtifacts"]
    artifact = Path(scratch) / "model.tar.gz"
    boto3.client("s3").download_file(BUCKET, model.removeprefix(f"s3://{BUCKET}/"), str(artifact))
    print(f"  {model}: {artifact.stat().st_size / 1e6:.1f} MB", flush=True)
    seconds = job["TrainingTimeInSeconds"]
    print(f"  Text written by the model (it is tiny, and has read for {seconds} s):\n", flush=True)
    sampled = subprocess.run(
        [python, str(ROOT / "examples/llm/sample.py"), str(artifact), "--prompt", "Train", "--tokens", "60"],
        check=True, capture_output=True, text=True).stdout
    print("\n".join(f"    {line}" for line in sampled.strip().splitlines()))


def show_end(job, points, story, fault):
    if fault and fault.killed_at is not None:
        print(f"""
  {VICTIM} was killed at step {fault.killed_at}. The server saw it at once, replaced that instance alone,
  restored the checkpoint from S3, and attempt 2 went on from step {story.resumed_at}.""")
    print(f"""
  Loss {points[0][1]:.2f} -> {points[-1][1]:.2f} in {job['TrainingTimeInSeconds']} s of training on two instances.
  The backend that carried the gradients between them, in its own words: {story.carrier}. Next:
    eval "$(./yard env)"                  # any AWS client now talks to this server
    trainyard describe {job['TrainingJobName']}
    aws s3 ls --recursive s3://{BUCKET}/  # or boto3; your own script: see README.md
""")


def quickstart(signals, args):
    require_backend(args.python)
    with tempfile.TemporaryDirectory() as scratch:
        job, points, story, fault = train(scratch, signals, args)
        if job["TrainingJobStatus"] != "Completed":
            sys.exit(f"{job['TrainingJobName']}: {job['TrainingJobStatus']}: {job.get('FailureReason', '')}")
        show_model(job, scratch, args.python)
    show_end(job, points, story, fault)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", help="a text file to learn from (default: the GNU dictionary of English)")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--calm", action="store_true", help="kill no instance")
    parser.add_argument("--home", default=os.environ.get("TRAINYARD_HOME", "/var/lib/trainyard"),
                        help="of the server: where the instance to be killed is found")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch, to sample text")
    args = parser.parse_args()
    try:
        quickstart(Signals(), args)
    except Interrupted as interrupted:
        sys.exit(interrupted.code)


if __name__ == "__main__":
    main()
