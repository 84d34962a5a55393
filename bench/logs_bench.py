# SPDX-License-Identifier: Apache-2.0
"""Logs of a running job.

ingest   a job of 16 instances prints 3,200 lines a second on each, for ten seconds; beside it the load client
         follows all 16 streams by GetLogEvents. Every line must come, once and in order. The figure is the rate
         that the programs reached (they wait when their lines are not taken); beside it stands how long after
         it was printed the latest line was seen
"""
import re
import statistics
import tempfile
from pathlib import Path

from conftest import GROUP, Jobs
from api_bench import new_server
from figures import beside, case
from load_client import Load, call, wait_for

# Prints `count` lines of about 100 bytes at a steady pace; says at the end how long that took.
SCRIPT = '''
import os, sys, time
rate, count = (int(sys.argv[sys.argv.index("--" + name) + 1]) for name in ("rate", "count"))
pad = "x" * 52
began = time.time()
written = 0
while written < count:
    due = min(count, int((time.time() - began) * rate) + 1)
    now = f"{time.time():.6f}"
    sys.stdout.write("".join(f"line {n:09d} at {now} {pad}\\n" for n in range(written, due)))
    sys.stdout.flush()
    written = due
    time.sleep(0.01)
took = time.time() - began
print(f"printed {count} in {took:.6f} s", flush=True)
'''
PRINTED = re.compile(r"printed (\d+) in ([\d.]+) s")


def follow(server, streams, count):
    """A plan of one follower for each stream."""
    body = f'{{"logGroupName":"{GROUP}","logStreamName":"{{s}}","startFromHead":true{{token}}}}'
    return call(server, "logs", "Logs_20140328.GetLogEvents", body, connections=len(streams), words=streams,
                pages={"item_begin": '"message":"line ', "item_end": '"', "item": "{n} at ", "items": count, "is_timed": True,
                       "token_begin": '"nextForwardToken":"', "token_end": '"',
                       "token_prefix": ',"nextToken":"', "token_suffix": '"', "pause_ms": 100})


def ingest(jobs, instances, rate, seconds):
    """(lines a second, latest line in seconds, lines) of one job."""
    name = jobs.create("logs", SCRIPT, instances=instances, hyperparameters={"rate": rate, "count": rate * seconds})

    def streams():
        try:
            found = jobs.streams(name)
        except jobs.logs.exceptions.ResourceNotFoundException:
            return None  # the first line makes the group
        return found if len(found) == instances else None

    report = Load(follow(jobs.server, wait_for(streams, 120, "a log stream of each instance"), rate * seconds)).report()
    assert report["items"] == instances * rate * seconds, report
    job = jobs.wait(name, 120)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    printed = [found for line in last_lines(jobs, name) if (found := PRINTED.search(line))]
    assert len(printed) == instances and all(int(found[1]) == rate * seconds for found in printed), printed
    return sum(int(found[1]) / float(found[2]) for found in printed), report["lag_ms"]["max"] / 1000, report["items"]


def last_lines(jobs, name):
    for stream in jobs.streams(name):
        page = jobs.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=False, limit=20)
        yield from (event["message"] for event in page["events"])


def ingesting(folder, runs):
    tiny = runs == 1
    instances, rate, seconds = (2, 500, 1) if tiny else (16, 3200, 10)
    server = new_server(folder / "home", capacity=instances)
    jobs = Jobs(server)
    try:
        if not tiny:
            ingest(jobs, instances, rate, 2)
        measured = [ingest(jobs, instances, rate, seconds) for _ in range(runs)]
    finally:
        jobs.stop_all()
        assert server.stop() == 0
    return case("ingest", "lines/s", [m[0] for m in measured], "higher", target=50_000,
                also=[beside("latest line", "s", statistics.median(m[1] for m in measured), 1.0),
                      beside(f"lines lost of {sum(m[2] for m in measured)}", "lines", 0, 0)])


def run(runs, only):
    if only and set(only) != {"ingest"}:
        raise SystemExit(f"no such case: {', '.join(only)} (one of ingest)")
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        return [ingesting(Path(folder), runs)]
