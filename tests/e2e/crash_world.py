#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A machine of its own for a server that crashes: run by crash_test.py as the first process of new pid,
network and mount namespaces, so that whatever a dead server leaves ends with it.

    crash_world.py power FOLDER --seed N --states N [--seconds N]
    crash_world.py check FOLDER --at BYTES [--seed N]        one state of an earlier `power`, again
    crash_world.py kill FOLDER --seed N --kills N

Clients write all the while: they create jobs, tag and stop them, put, replace and remove objects, complete
uploads in parts, and read a log while it grows. Each remembers what it was told, and when. After the crash
every fact is asked for. The last line of the output is JSON: {"checked": facts, "problems": [...]}.
"""
import argparse
import glob
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "testing/powerloss")]
import botocore.config  # noqa: E402
import botocore.exceptions  # noqa: E402
import replay  # noqa: E402
from conftest import BINARY, GROUP, ROLE, Server  # noqa: E402
from put_moments import between_syncs  # noqa: E402

ABSENT = "absent"
# The server was away, or is: whether it has done what was asked is open.
AWAY = (botocore.exceptions.HTTPClientError, botocore.exceptions.EndpointConnectionError,
        botocore.exceptions.ConnectionClosedError, botocore.exceptions.ResponseStreamingError)


class Facts:
    """What each thing was last known to be. A thing has values one after another; each has a moment at which
    it was asked for and, once that was answered, one from which on it must be seen."""

    def __init__(self, moment):
        self.moment, self.lock, self.things, self.shown = moment, threading.Lock(), {}, []

    def change(self, thing, value, do):
        entry = [self.moment(), None, value]
        with self.lock:
            self.things.setdefault(thing, []).append(entry)
        answer = do()
        entry[1] = self.moment()
        return answer

    def allowed(self, moment):
        """{thing: values that it may have} after a crash at that moment."""
        out = {}
        for thing, entries in self.things.items():
            asked = [entry for entry in entries if entry[0] <= moment]
            first = max((i for i, e in enumerate(asked) if e[1] is not None and e[1] <= moment), default=-1)
            values = {entry[2] for entry in asked[max(first, 0):]}
            out[thing] = values if first >= 0 else values | {ABSENT}
        return out

    def save(self, path):
        path.write_text(json.dumps([[[*thing, entries] for thing, entries in self.things.items()], self.shown]))

    @classmethod
    def load(cls, path):
        facts = cls(None)
        things, facts.shown = json.loads(path.read_text())
        facts.things = {(kind, name): entries for kind, name, entries in things}
        return facts

    def lines(self, moment):
        return [line for line, when in self.shown if when <= moment]


class Clients:
    """Threads that work on one server until they are told to stop."""

    def __init__(self, server, facts, seed):
        self.server, self.facts, self.rng = server, facts, random.Random(seed)
        self.over = threading.Event()
        options = botocore.config.Config(retries={"max_attempts": 0}, connect_timeout=2, read_timeout=10)
        self.s3, self.sagemaker, self.logs = (server.client(s, config=options) for s in ("s3", "sagemaker", "logs"))
        work = (self.create, self.create, self.put, self.put_parts, self.read_log)
        self.threads = [threading.Thread(target=self.repeat, args=(i, one)) for i, one in enumerate(work)]

    def start(self):
        self.s3.create_bucket(Bucket="bucket")
        self.facts.change(("job", "talks"), "there", lambda: self.create_job(
            "talks", 'i=0; while :; do echo "line $i"; i=$((i+1)); sleep 0.005; done'))
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def repeat(self, number, one):
        count = 0
        while not self.over.is_set():
            try:
                one(number, count)
            except AWAY:
                time.sleep(0.05)
            except botocore.exceptions.ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                    raise
            count += 1

    def create_job(self, name, script):
        return self.sagemaker.create_training_job(
            TrainingJobName=name, RoleArn=ROLE,
            AlgorithmSpecification={"TrainingImage": "trainyard/pytorch", "TrainingInputMode": "File",
                                    "ContainerEntrypoint": ["/bin/sh", "-c", script]},
            OutputDataConfig={"S3OutputPath": "s3://bucket/output"},
            ResourceConfig={"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 600})

    def create(self, number, count):
        name = f"job-{number}-{count}"
        arn = self.facts.change(("job", name), "there", lambda: self.create_job(name, "true"))["TrainingJobArn"]
        if count % 3 == 0:
            for value in ("one", "two"):
                tags = [{"Key": "state", "Value": value}]
                self.facts.change(("tag", arn), value, lambda: self.sagemaker.add_tags(ResourceArn=arn, Tags=tags))
        if count % 4 == 0:
            self.facts.change(("stop", name), "stopped",
                              lambda: self.sagemaker.stop_training_job(TrainingJobName=name))

    def put(self, _, count):
        key = f"object-{count % 4}"
        if count % 7 == 6:
            self.facts.change(("object", key), ABSENT, lambda: self.s3.delete_object(Bucket="bucket", Key=key))
            return
        body = random.Random(count).randbytes((count * 7919) % 70_000)
        self.facts.change(("object", key), hashlib.md5(body).hexdigest(),
                          lambda: self.s3.put_object(Bucket="bucket", Key=key, Body=body))

    def put_parts(self, _, count):
        key, body = f"parts-{count % 3}", random.Random(-count - 1).randbytes(5 * 2**20 + 1000)
        pieces = (body[:5 * 2**20], body[5 * 2**20:])
        upload = self.s3.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"]
        parts = [{"PartNumber": i, "ETag": self.s3.upload_part(
            Bucket="bucket", Key=key, UploadId=upload, PartNumber=i, Body=piece)["ETag"]}
            for i, piece in enumerate(pieces, 1)]
        self.facts.change(("object", key), hashlib.md5(body).hexdigest(),
                          lambda: self.s3.complete_multipart_upload(
                              Bucket="bucket", Key=key, UploadId=upload, MultipartUpload={"Parts": parts}))
        time.sleep(0.3)  # the journal holds every byte

    def read_log(self, *_):
        lines = read_lines(self.logs)
        known = self.facts.shown
        now = self.facts.moment()
        for i, line in enumerate(lines):
            if i < len(known):
                assert known[i][0] == line, f"line {i} was {known[i][0]!r} and is {line!r}"
            else:
                known.append((line, now))
        time.sleep(0.02)


def read_lines(logs):
    """Of the first attempt of the job that talks: others may follow."""
    try:
        streams = logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix="talks/")["logStreams"]
    except logs.exceptions.ResourceNotFoundException:
        return []
    lines, token = [], {}
    while streams:
        page = logs.get_log_events(logGroupName=GROUP, logStreamName=streams[0]["logStreamName"],
                                   startFromHead=True, **token)
        if not page["events"]:
            break
        lines += [event["message"] for event in page["events"]]
        token = {"nextToken": page["nextForwardToken"]}
    return lines


class Check:
    """Asks a server for everything that its clients were told before a moment."""

    def __init__(self, server):
        self.server, self.problems, self.checked = server, [], 0
        self.s3, self.sagemaker, self.logs = (server.client(s) for s in ("s3", "sagemaker", "logs"))

    def expect(self, thing, found, allowed):
        self.checked += 1
        if found not in allowed:
            self.problems.append(f"{thing} is {found}, and may only be {' or '.join(sorted(allowed))}")

    def run(self, facts, moment):
        jobs = {job["TrainingJobName"]: job["TrainingJobStatus"]
                for page in self.sagemaker.get_paginator("list_training_jobs").paginate(MaxResults=100)
                for job in page["TrainingJobSummaries"]}
        for thing, allowed in facts.allowed(moment).items():
            kind, name = thing
            if kind == "job":
                found = "there" if name in jobs else ABSENT
            elif kind == "stop":
                found = "stopped" if jobs.get(name) in ("Stopping", "Stopped") else ABSENT
            elif kind == "tag":
                found = self.tag_of(name)
            else:
                found = self.content_of(name)
            self.expect(thing, found, allowed)
        self.check_lines(facts.lines(moment))

    def tag_of(self, arn):
        try:
            tags = self.sagemaker.list_tags(ResourceArn=arn)["Tags"]
        except botocore.exceptions.ClientError:
            return ABSENT
        return next((tag["Value"] for tag in tags if tag["Key"] == "state"), ABSENT)

    def content_of(self, key):
        try:
            body = self.s3.get_object(Bucket="bucket", Key=key)["Body"].read()
        except botocore.exceptions.ClientError as error:
            return ABSENT if error.response["Error"]["Code"] in ("NoSuchKey", "NoSuchBucket") else str(error)
        return hashlib.md5(body).hexdigest()

    def check_lines(self, shown):
        self.checked += len(shown)
        lines = read_lines(self.logs)[:len(shown)]
        if lines != shown:
            at = next((i for i, (a, b) in enumerate(zip(lines, shown)) if a != b), len(lines))
            self.problems.append(f"of {len(shown)} lines that were shown, {len(lines)} are there; the first that "
                                 f"differs is number {at}: {shown[at]!r}")


def end_everyone_else():
    """All of this namespace but its first process, which this one is."""
    assert os.getpid() == 1, "only the first process of a pid namespace may do this"
    while others := [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]:
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.005)


def make_home(folder):
    home = folder / "home"
    (home).mkdir(mode=0o700)
    (folder / "env").mkdir(exist_ok=True)
    (home / "config.yaml").write_text(f"capacity: {{instances: 1, gpus: []}}\nenvironments: {{torch: {folder}/env}}\n")
    return home


def sweep():
    """What dead instances have left outside of these namespaces: their control groups."""
    for name in os.listdir("/run/netns"):
        gang = "-".join(name.split("-")[:2])
        groups = [path for depth in ("", "*/", "*/*/", "*/*/*/") for path in glob.glob(f"/sys/fs/cgroup/{depth}{gang}-*")]
        for group in groups:
            for folder in [str(path) for path in Path(group).rglob("*") if path.is_dir()][::-1] + [group]:
                try:
                    os.rmdir(folder)
                except OSError:
                    pass  # gone already, by a rule of its own
        subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def die(server):
    """The power goes: everything on this machine ends at once."""
    end_everyone_else()
    sweep()
    server.process.returncode = -9
    server.log.close()


def record(folder, seed, seconds):
    """A server under the file layer, with its clients, for a time. Gives the facts."""
    home, journal = make_home(folder), folder / "journal"
    shutil.copytree(home, folder / "baseline")
    os.environ |= {"LD_PRELOAD": str(BINARY.parent / "libpowerloss.so"), "YARD_POWERLOSS_ROOT": str(home),
                   "YARD_POWERLOSS_JOURNAL": str(journal)}
    server = Server(home)
    server.start()
    del os.environ["LD_PRELOAD"]
    facts = Facts(lambda: journal.stat().st_size)
    began = facts.moment()
    clients = Clients(server, facts, seed)
    clients.start()
    time.sleep(seconds)
    clients.over.set()
    die(server)
    clients.stop()
    facts.save(folder / "facts.json")
    return facts, began


def moments(facts, records, began, rng, count):
    """When the power goes: at the very moment when somebody was told something, or at any other; some while the
    server starts for the first time, after which it must still start, with keys that it knows."""
    told = [entry[1] for entries in facts.things.values() for entry in entries if entry[1]]
    told += [when for _, when in facts.shown]
    ends = [record.end for record in records if record.end >= began]
    early = [record.end for record in records if record.end < began]
    return [rng.choice((ends, told, ends, told, early)[i % 5]) for i in range(count)]


def check_state(folder, records, facts, at, seed, blind_to=()):
    """Starts a server on one state. Gives how much it checked, and the problems."""
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    replay.build(records, folder / "baseline", state, at, seed, blind_to)
    server = Server(state)
    try:
        server.start()
        check = Check(server)
        check.run(facts, at)
    except BaseException as error:  # pytest's failures are none of Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return 0, [f"the server or a question to it failed: {error}"]
    finally:
        die(server)
    return check.checked, check.problems


def run_power(folder, seed, states, seconds):
    facts, began = record(folder, seed, seconds)
    records, rng = replay.read_journal(folder / "journal"), random.Random(seed)
    checked, problems, taken_back = 0, [], 0
    between = between_syncs(records)
    chosen = [(at, number % 3 == 0) for number, at in enumerate(moments(facts, records, began, rng, states))]
    # Without what was not synced, so that of a put one half is there and the other is not.
    chosen += [(rng.choice(ends), True) for ends in between.values() if ends for _ in range(max(states // 6, 1))]
    for number, (at, is_bare) in enumerate(chosen):
        # A bare state has nothing that was not synced.
        state_seed = None if is_bare else seed * 1000 + number
        count, found = check_state(folder, records, facts, at, state_seed)
        checked += count
        taken_back += "took back a put" in (folder / "state/server.log").read_text()
        again = f"{HERE.parent}/crash_test.py {folder} --at {at}" + (f" --seed {state_seed}" if state_seed else "")
        problems += [f"{problem}  [again: {again}]" for problem in found]
    outcome = {"checked": checked, "told": count_told(facts), "problems": problems, "taken_back": taken_back,
               "between": {kind: len(ends) for kind, ends in between.items()}}
    for kind in ("SYNC", "SYNC_DIR"):  # what the test would say of a server without them
        outcome["without " + kind] = len(check_state(folder, records, facts, records[-1].end, None,
                                                     (getattr(replay, kind), replay.SYNC_ALL))[1])
    return outcome


def count_told(facts):
    return len(facts.shown) + sum(map(len, facts.things.values()))


def run_kill(folder, seed, kills):
    server = Server(make_home(folder)).start()
    clock = iter(range(1, 1 << 62))
    facts = Facts(lambda: next(clock))
    clients, rng = Clients(server, facts, seed), random.Random(seed)
    clients.start()
    for _ in range(kills):
        time.sleep(rng.uniform(0.05, 0.8))
        server.kill()
        server.start()
    clients.stop()
    check = Check(server)
    check.run(facts, facts.moment())
    die(server)
    return {"checked": check.checked, "told": count_told(facts), "problems": check.problems}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("power", "check", "kill"))
    parser.add_argument("folder", type=lambda text: Path(text).resolve())
    parser.add_argument("--seed", type=int)
    parser.add_argument("--states", type=int, default=9)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--at", type=int)
    args = parser.parse_args()
    if os.getpid() != 1:
        sys.exit("run it as the first process of a pid namespace: see crash_test.py")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # The names of networks are files, and would stay outside as empty ones.
    Path("/run/netns").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run/netns"], check=True)
    if args.mode == "power":
        outcome = run_power(args.folder, args.seed, args.states, args.seconds)
    elif args.mode == "check":
        facts = Facts.load(args.folder / "facts.json")
        checked, problems = check_state(args.folder, replay.read_journal(args.folder / "journal"), facts, args.at,
                                        args.seed)
        outcome = {"checked": checked, "problems": problems}
    else:
        outcome = run_kill(args.folder, args.seed, args.kills)
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
