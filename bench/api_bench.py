# SPDX-License-Identifier: Apache-2.0
"""The API under load, by the client in bench/load. Each answer is checked before it counts.

describe             DescribeTrainingJob of an ended job, signed, 32 connections: requests a second, p99
describe-idle5000    the same beside 5,000 idle keep-alive connections; the peer is the run without them
describe-under-put   the same (p99) while 4 connections put objects of 64 MiB, each durable before its answer; a
                     beat of a running instance is sent five times a second and must not be late
create-durable       CreateTrainingJob, each another job, 32 connections; the jobs wait, since the only machine is
                     taken. Then the server is killed again and again under the same load: every job that was
                     acknowledged must be there
rss-1000-jobs        resident memory of a server with 1,000 waiting jobs, after each was described
rss-1m-requests      resident memory after 1,000,000 requests, and how much it grew over the last 800,000
"""
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from conftest import Jobs, Server
from figures import beside, case
from load_client import Load, MemoryWatch, call, load, memory, to, wait_for
from machines import Machine
from start_bench import environment_of

CONNECTIONS = 32
WAITING = '''
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("running", flush=True)
while True:
    time.sleep(0.1)
'''


class Scale:
    """How much a run does: all of it, or what is enough to see that it works."""

    def __init__(self, runs):
        self.tiny = runs == 1
        self.runs = runs
        self.milliseconds = 300 if self.tiny else 4000
        self.idle = 100 if self.tiny else 5000
        self.put_bytes = 1 << 20 if self.tiny else 64 << 20
        self.kills = 2 if self.tiny else 50
        self.jobs = 20 if self.tiny else 1000
        self.requests = 500 if self.tiny else 200_000  # five times


def new_server(folder, capacity=2):
    """Its jobs run in the environment of the clients, which is there: none of them needs PyTorch."""
    Path(folder).mkdir()
    config = f"capacity:\n  instances: {capacity}\nenvironments:\n  torch: {environment_of('clients')}\n"
    return Server(Path(folder), config=config).start()


def describe(server, name, **members):
    return call(server, "sagemaker", "SageMaker.DescribeTrainingJob", {"TrainingJobName": name}, connections=CONNECTIONS,
                expect={"contains": [f'"TrainingJobName":"{name}"'], "same": True}, **members)


def ended_job(jobs):
    name = jobs.create("described", "print('done')\n")
    assert jobs.wait(name)["TrainingJobStatus"] == "Completed", jobs.describe(name).get("FailureReason")
    return name


def running_job(jobs, **members):
    name = jobs.create("running", WAITING, **members)
    wait_for(lambda: jobs.describe(name)["SecondaryStatus"] == "Training", what="a job that runs")
    return name


def p99(report):
    return report["latency_ms"]["p99"]


def rate(report):
    return report["requests_per_second"]


def describing(folder, scale):
    server = new_server(folder / "home")
    try:
        name = ended_job(Jobs(server))
        load(describe(server, name, time_ms=scale.milliseconds))
        reports = [load(describe(server, name, time_ms=scale.milliseconds)) for _ in range(scale.runs)]
    finally:
        assert server.stop() == 0
    return case("describe", "requests/s", [rate(r) for r in reports], "higher", target=6000,
                also=[beside("p99", "ms", statistics.median(map(p99, reports)), 20)])


def describing_beside_idle(folder, scale):
    server = new_server(folder / "home")
    ours, peer, held = [], [], []
    try:
        name = ended_job(Jobs(server))
        for _ in range(scale.runs + 1):  # the first warms up
            peer.append(rate(load(describe(server, name, time_ms=scale.milliseconds))))
            with MemoryWatch(server.process.pid) as watch:
                report = load(describe(server, name, time_ms=scale.milliseconds, idle=scale.idle))
            assert report["idle_held"] == scale.idle, report
            ours.append(rate(report))
            held.append(watch.most)
    finally:
        assert server.stop() == 0
    return case("describe-idle5000", "requests/s", ours[1:], "higher", peer[1:], "no idle connections", target_ratio=0.95,
                also=[beside("resident memory", "MiB", max(held), 150)])


def beats(server, machine, milliseconds):
    """A beat says that its instance lives, and changes nothing; the instance sends its own as well."""
    headers = {"Authorization": "Bearer " + machine.token(), "Yard-Protocol": "1", "Yard-Epoch": "1",
               "Content-Type": "application/json"}
    return to(machine.server_url() or server.endpoint, time_ms=milliseconds, every_ms=200,
              request={"method": "POST", "path": "/yard/v1/reports", "headers": headers, "body": '[{"seq":0}]', "modulo": 1},
              expect={"contains": ['"acknowledged"']})


def puts(server, bucket, scale, milliseconds):
    return to(server.endpoint, server.keys(), connections=4, time_ms=milliseconds,
              request={"method": "PUT", "path": f"/{bucket}/stream-{{n}}", "modulo": 8},
              content={"bytes": scale.put_bytes, "distinct": 4, "is_sent": True})


def describing_under_put(folder, scale):
    server = new_server(folder / "home")
    jobs = Jobs(server)
    p99s, rates, late, streams = [], [], [], []
    try:
        name = ended_job(jobs)
        runs = running_job(jobs)
        machine = Machine(server, runs)
        for _ in range(scale.runs + 1):
            # What it describes and the beats lie within the time of the puts.
            put = Load(puts(server, jobs.bucket, scale, scale.milliseconds + 2000))
            time.sleep(1)
            beat = Load(beats(server, machine, scale.milliseconds))
            report = load(describe(server, name, time_ms=scale.milliseconds))
            p99s.append(p99(report))
            rates.append(rate(report))
            late.append(beat.report()["latency_ms"]["max"])
            streams.append(put.report()["sent_bytes_per_second"])
        assert [a["Epoch"] for a in jobs.attempts(runs)] == [1], "the instance was lost meanwhile"
    finally:
        jobs.stop_all()
        assert server.stop() == 0
    return case("describe-under-put", "ms", p99s[1:], "lower", target=50,
                also=[beside("latest beat", "ms", max(late[1:]), 1000),
                      beside("described", "requests/s", statistics.median(rates[1:]), better="higher"),
                      beside("put", "bytes/s", statistics.median(streams[1:]), better="higher")])


def creates(jobs, first, **members):
    request = json.dumps(jobs.request("create-{n}"))
    return call(jobs.server, "sagemaker", "SageMaker.CreateTrainingJob", request, request={"first": first},
                expect={"contains": ['"TrainingJobArn"']}, lists_acknowledged=True, **{"connections": CONNECTIONS} | members)


def check_there(jobs, acknowledged):
    """Every job that was acknowledged is listed and can be described."""
    pages = jobs.sagemaker.get_paginator("list_training_jobs").paginate(NameContains="create-", PaginationConfig={"PageSize": 100})
    there = {job["TrainingJobName"] for page in pages for job in page["TrainingJobSummaries"]}
    lost = [n for n in acknowledged if f"create-{n:09}" not in there]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged jobs are lost: {lost[:5]}"
    for n in random.Random(1).sample(acknowledged, min(20, len(acknowledged))):
        assert jobs.describe(f"create-{n:09}")["TrainingJobStatus"] == "InProgress"


def full_server(folder):
    """A server whose only machine is taken for as long as it lives, so that further jobs wait."""
    server = new_server(folder, capacity=1)
    jobs = Jobs(server)
    running_job(jobs)
    return server, jobs


def discard(server):
    """Ends the job that holds the machine and none of those that wait for it: without its database, a server
    finds a gang that belongs to no job, and releases it."""
    if server.process.poll() is None:
        server.kill()
    for file in server.home.glob("trainyard.db*"):
        file.unlink()
    server.start()
    wait_for(lambda: not list((server.home / "run").glob("*/*/gang.json")), what="the end of the job that held the machine")
    assert server.stop() == 0


def killing(folder, scale):
    """How many kills and acknowledged jobs; fails when one of them is lost."""
    server, jobs = full_server(folder / "killed")
    draw, acknowledged, first = random.Random(5), [], 0
    try:
        for _ in range(scale.kills):
            running = Load(creates(jobs, first, time_ms=20_000, may_break=True))
            time.sleep(0.1 + draw.random() * 0.3)
            server.kill()
            report = running.report()
            acknowledged += report.get("acknowledged", [])
            first = max(acknowledged, default=-1) + 1 + CONNECTIONS  # beyond what may have been stored unheard
            server.start()
        check_there(jobs, acknowledged)
    finally:
        discard(server)
    return len(acknowledged)


def creating(folder, scale):
    rates, p99s = [], []
    for i in range(scale.runs + 1):
        server, jobs = full_server(folder / str(i))
        try:
            report = load(creates(jobs, 0, time_ms=scale.milliseconds))
            rates.append(rate(report))
            p99s.append(p99(report))
            server.kill()
            server.start()
            check_there(jobs, report["acknowledged"])
        finally:
            discard(server)
    count = killing(folder, scale)
    return case("create-durable", "requests/s", rates[1:], "higher", target=500,
                also=[beside("p99", "ms", statistics.median(p99s[1:])),
                      beside(f"lost of {count} jobs over {scale.kills} kills", "jobs", 0, 0)])


def remembering_jobs(folder, scale):
    held = []
    for i in range(scale.runs):
        server, jobs = full_server(folder / str(i))
        try:
            report = load(creates(jobs, 0, requests=scale.jobs))
            load(call(server, "sagemaker", "SageMaker.DescribeTrainingJob", '{"TrainingJobName":"create-{n}"}',
                      connections=CONNECTIONS, requests=scale.jobs, expect={"contains": ['"InProgress"']}))
            held.append(memory(server.process.pid))
            check_there(jobs, report["acknowledged"])
        finally:
            discard(server)
    return case("rss-1000-jobs", "MiB", held, target=120)


def remembering_requests(folder, scale):
    server = new_server(folder / "home")
    held = []
    try:
        name = ended_job(Jobs(server))
        for _ in range(5):
            load(describe(server, name, requests=scale.requests))
            held.append(memory(server.process.pid))
    finally:
        assert server.stop() == 0
    # Not a median: what is there at the end counts.
    entry = case("rss-1m-requests", "MiB", [held[-1]], target=120, also=[beside("growth since the first fifth", "MiB", held[-1] - held[0], 4)])
    return entry | {"all": held}


CASES = {"describe": describing, "create-durable": creating, "describe-idle5000": describing_beside_idle,
         "describe-under-put": describing_under_put, "rss-1000-jobs": remembering_jobs,
         "rss-1m-requests": remembering_requests}


def run(runs, only):
    found = []
    for name in only or CASES:
        if name not in CASES:
            raise SystemExit(f"no such case: {name} (one of {', '.join(CASES)})")
        with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
            found.append(CASES[name](Path(folder), Scale(runs)))
    return found
