# SPDX-License-Identifier: Apache-2.0
"""What a program prints, on its way through instance, server and API to those who read it."""
import re
import socket
import subprocess

import conftest
import pytest
from conftest import BINARY, Jobs, Server, wait_for

pytestmark = [pytest.mark.root, pytest.mark.both_ways_slow]


def test_all_lines_before_an_abort_arrive_in_order(jobs):
    script = '''
import os, sys
for i in range(10_000):
    print("line", i)
sys.stdout.write("the tail")
sys.stdout.flush()
os.abort()
'''
    job = jobs.run("abort", script)
    assert "SIGABRT" in job["FailureReason"], job["FailureReason"]
    assert jobs.lines(job["TrainingJobName"]) == [f"line {i}" for i in range(10_000)] + ["the tail"]


def test_lines_of_eight_ranks_never_mix_and_name_host_and_rank(jobs):
    script = '''
import os
for i in range(1000):
    print(i, "x" * 500)
'''
    job = jobs.run("ranks", script, instances=2, torchrun=True, hyperparameters={"sagemaker_nproc_per_node": 4})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    for host, ranks in (("algo-1", range(4)), ("algo-2", range(4, 8))):
        following = dict.fromkeys(ranks, 0)
        for line in jobs.lines(job["TrainingJobName"], host):
            rank, number, text = re.fullmatch(r"\[rank (\d+)\] (\d+) (x+)", line).groups()
            assert int(number) == following[int(rank)] and text == "x" * 500
            following[int(rank)] += 1
        assert set(following.values()) == {1000}


def test_a_progress_bar_shows_few_states_and_its_last(jobs):
    script = '''
import sys, time
for step in range(1, 301):
    sys.stdout.write(f"\\r{step}/300 [{'#' * (step // 10)}]"); sys.stdout.flush(); time.sleep(0.01)
print(); print("loss=0.25")
'''
    lines = jobs.lines(jobs.run("bar", script)["TrainingJobName"])
    assert len(lines) <= 7, lines
    assert lines[-2:] == [f"300/300 [{'#' * 30}]", "loss=0.25"]
    assert jobs.logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", filterPattern='"loss=0.25"',
                                       logStreamNamePrefix="bar-")["events"]


def test_bytes_that_are_no_text_are_shown_as_text_and_kept_as_bytes(jobs):
    script = r'''
import os
os.write(1, b"\xff\xfe a\0b \x1b[1;32mloss\x1b[0m=0.5\r\n")
for byte in "日本語😀\n".encode():
    os.write(1, bytes([byte]))
'''
    job = jobs.run("bytes", script, Environment={"TRAINYARD_RAW_OUTPUT": "1"})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    name = job["TrainingJobName"]
    assert jobs.lines(name) == ["\ufffd\ufffd a\ufffdb loss=0.5", "日本語😀"]
    raw = jobs.artifact(name, "output")["raw-algo-1.log"]
    assert raw == b"\xff\xfe a\0b \x1b[1;32mloss\x1b[0m=0.5\r\n" + "日本語😀\n".encode()


def test_a_follower_loses_nothing_while_the_server_restarts(tmp_path):
    server = Server(tmp_path).start()
    jobs = Jobs(server)
    script = '''
import time
for i in range(300):
    print("line", i, flush=True); time.sleep(0.02)
'''
    name = jobs.create("restart", script)
    follower = subprocess.Popen([BINARY, "logs", "-f", name], env=server.environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: "line 20" in jobs.lines_so_far(name), 30, "the first lines")
        for _ in range(2):
            assert server.stop() == 0
            server.start()
        out, err = follower.communicate(timeout=60)
    finally:
        follower.kill()
        jobs.wait(name, 30)
        server.stop()
    assert follower.returncode == 0, err
    assert out.splitlines() == [f"algo-1 | line {i}" for i in range(300)]


def test_the_server_goes_on_with_few_open_files(tmp_path, monkeypatch):
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -n 256 && exec "{BINARY}" "$@"\n')
    limited.chmod(0o755)
    monkeypatch.setattr(conftest, "BINARY", limited)
    server = Server(tmp_path).start()
    host, port = server.endpoint.removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(300)]
    jobs = Jobs(server)
    try:
        names = [jobs.create("few", "print(__import__('socket').gethostname())", instances=4) for _ in range(9)]
        for name in names:
            assert jobs.wait(name)["TrainingJobStatus"] == "Completed"
        for name in names:  # 36 streams, more than stay open
            assert sorted(jobs.lines(name)) == ["algo-1", "algo-2", "algo-3", "algo-4"]
    finally:
        for connection in idle:
            connection.close()
        assert server.stop() == 0
