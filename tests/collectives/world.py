# SPDX-License-Identifier: Apache-2.0
"""Worlds of rank processes, on one host or on two that are network namespaces joined by a cable."""
import contextlib
import dataclasses
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
# Where the ranks of a world are, by host.
LAYOUTS = {"shm2": [0, 0], "shm4": [0, 0, 0, 0], "tcp2": [0, 1], "mixed": [0, 0, 1, 1]}


@dataclasses.dataclass
class Answer:
    began: float
    ended: float
    value: object = None
    code: str = "OK"
    error: str = ""


class RankProcess:
    def __init__(self, store, number, size, place, environment):
        self.number = number
        self.process = subprocess.Popen(
            [sys.executable, HERE / "rank.py", store, str(number), str(size), *place], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=open(environment["RANK_LOG"], "a") if "RANK_LOG" in environment else None,
            text=True, env=os.environ | environment)
        self.pid, self.answers, self.open = self.process.pid, queue.Queue(), 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.answers.put(Answer(**json.loads(line)))
        self.answers.put(None)

    def begin(self, do, **members):
        self.process.stdin.write(json.dumps({"do": do} | members) + "\n")
        self.process.stdin.flush()
        self.open += 1
        return self

    def answer(self, seconds=20.0):
        """To the oldest command that has none yet."""
        try:
            found = self.answers.get(timeout=seconds)
        except queue.Empty:
            pytest.fail(f"rank {self.number} did not answer within {seconds} s")
        if found is None:
            pytest.fail(f"rank {self.number} ended: {self.process.wait(10)}")
        self.open -= 1
        return found

    def do(self, do, seconds=20.0, **members):
        return self.begin(do, **members).answer(seconds)

    def signal(self, number):
        """Gives the time at which it was sent."""
        at = time.monotonic()
        os.kill(self.pid, number)
        return at

    def kill(self):
        at = self.signal(signal.SIGKILL)
        self.process.wait(10)
        return at

    def begin_to_end(self):
        """In order when it has answered all commands, by force otherwise."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT if self.open == 0 else signal.SIGKILL)
        self.process.stdin.close()

    def end(self):
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self.reader.join(10)
        self.process.stdout.close()


class World:
    """`places`: of each rank, the arguments that say where it runs."""

    def __init__(self, folder, places, environment=None):
        self.store = Path(folder) / "store"
        self.store.mkdir(exist_ok=True)
        self.ranks = [RankProcess(self.store, number, len(places), place, environment or {})
                      for number, place in enumerate(places)]

    def __getitem__(self, number):
        return self.ranks[number]

    def without(self, *numbers):
        return [rank for rank in self.ranks if rank.number not in numbers]

    def create(self, **options):
        for answer in self.all("create", seconds=60, **options):  # longer than joining may take
            assert answer.code == "OK", answer.error
        return self

    def all(self, do, seconds=20.0, **members):
        for rank in self.ranks:
            rank.begin(do, **members)
        return [rank.answer(seconds) for rank in self.ranks]

    def end(self):
        for rank in self.ranks:
            rank.begin_to_end()
        for rank in self.ranks:
            rank.end()


def patience(seconds):
    """What is promised within so many seconds is promised to processes that get a processor. This is up to three
    times as long, by how much of the last 10 s somebody on this machine waited for one."""
    try:
        waited = float(re.search(r"some avg10=([\d.]+)", Path("/proc/pressure/cpu").read_text())[1]) / 100
    except OSError:
        waited = 0.0
    return seconds * (1 + 2 * waited)


def errors_after(ranks, at, within, code):
    """The messages of all ranks, each with this code and within so many seconds of `at`."""
    answers = [rank.answer(within + 20) for rank in ranks]
    for answer in answers:
        assert answer.code == code, answer
        assert answer.ended - at < patience(within), f"{answer.ended - at:.2f} s: {answer.error}"
    return [answer.error for answer in answers]


class Cable:
    """Two hosts: network namespaces with a veth pair between them."""

    def __init__(self):
        stem = f"yardcoll{os.getpid()}"
        self.namespaces = [f"{stem}-{i}" for i in (0, 1)]
        self.links = [f"yc{os.getpid()}v{i}" for i in (0, 1)]
        for namespace in self.namespaces:
            self._ip("netns", "add", namespace)
        self._ip("link", "add", self.links[0], "netns", self.namespaces[0], "type", "veth",
                 "peer", "name", self.links[1], "netns", self.namespaces[1])
        for i, namespace in enumerate(self.namespaces):
            self._ip("-n", namespace, "addr", "add", self.address(i) + "/24", "dev", self.links[i])
            self._ip("-n", namespace, "link", "set", "lo", "up")
        self.set("up")

    @staticmethod
    def _ip(*arguments):
        return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout

    def address(self, host):
        return f"10.213.7.{host + 1}"

    def set(self, state):
        """Both ends up, or one down. Gives the time."""
        at = time.monotonic()
        for namespace, link in list(zip(self.namespaces, self.links))[:2 if state == "up" else 1]:
            self._ip("-n", namespace, "link", "set", link, state)
        return at

    @contextlib.contextmanager
    def no_way(self):
        """The second host knows no way to the first, and says so at once."""
        route = ["route", "add", "unreachable", self.address(0) + "/32"]
        self._ip("-n", self.namespaces[1], *route)
        try:
            yield
        finally:
            self._ip("-n", self.namespaces[1], "route", "del", *route[2:])

    def place(self, host):
        return [self.namespaces[host], f"host-{host}"]

    def local_sockets(self):
        """The library's sockets with names, of both hosts."""
        found = []
        for namespace in self.namespaces:
            table = subprocess.run(["ip", "netns", "exec", namespace, "cat", "/proc/net/unix"], check=True,
                                   capture_output=True, text=True).stdout
            found += [line for line in table.splitlines() if "trainyard" in line]
        return found

    def listeners(self, host):
        """TCP ports on which something listens there."""
        table = subprocess.run(["ip", "netns", "exec", self.namespaces[host], "cat", "/proc/net/tcp",
                                "/proc/net/tcp6"], check=True, capture_output=True, text=True).stdout
        rows = [line.split() for line in table.splitlines() if ":" in line]
        return sorted({int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A"})

    def remove(self):
        for namespace in self.namespaces:
            self._ip("netns", "del", namespace)
