# SPDX-License-Identifier: Apache-2.0
"""Worlds of rank processes, on one host or on two that are network namespaces joined by a cable."""
import contextlib
import dataclasses
import json
import os
import queue
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import wait_for

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
    started = []  # the pids of all there were

    def __init__(self, store, number, size, place, environment):
        self.number, self.load = number, 1.0
        self.process = subprocess.Popen(
            [sys.executable, HERE / "rank.py", store, str(number), str(size), *place], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=open(environment["RANK_LOG"], "a") if "RANK_LOG" in environment else None,
            text=True, env=os.environ | environment)
        self.pid, self.answers, self.open = self.process.pid, queue.Queue(), 0
        self.started.append(self.pid)
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
        self.store, self.status = Path(folder) / "store", (environment or {}).get("TRAINYARD_COMM_STATUS")
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
        load = load_of_machine()  # the ranks are at rest
        for rank in self.ranks:
            rank.load = load
        return self

    def loop(self, ranks=None, **operation):
        """These ranks, or all, run the operation again and again. Returns when all have done so some times."""
        for rank in ranks or self.ranks:
            rank.begin("loop", **operation)
        files = [Path(self.status) / f"rank-{rank.number}.world" for rank in ranks or self.ranks]
        wait_for(lambda: all(progress(file)[2] >= 5 for file in files), 30, "ranks that are at work")

    def all(self, do, seconds=20.0, **members):
        for rank in self.ranks:
            rank.begin(do, **members)
        return [rank.answer(seconds) for rank in self.ranks]

    def end(self):
        for rank in self.ranks:
            rank.begin_to_end()
        for rank in self.ranks:
            rank.end()


def progress(file):
    """Issued, started, completed: the head of a flight record in a file, as health/recorder.h says."""
    magic, version, *numbers = struct.unpack("<8s4Q", file.read_bytes()[:40])
    assert (magic, version) == (b"yardrec1", 1)
    return tuple(numbers)


def load_of_machine():
    """How many threads there are for each processor, of those that want one: at least 1, at most 3."""
    running = []
    for _ in range(10):
        running.append(int(re.search(r"^procs_running (\d+)", Path("/proc/stat").read_text(), re.M)[1]))
        time.sleep(0.01)
    return min(3.0, max(1.0, sum(running) / len(running) / len(os.sched_getaffinity(0))))


def patience(seconds):
    """What is promised within so many seconds is promised to processes that get a processor. This is up to three
    times as long, by how much of the last 10 s somebody on this machine waited for one."""
    try:
        waited = float(re.search(r"some avg10=([\d.]+)", Path("/proc/pressure/cpu").read_text())[1]) / 100
    except OSError:
        waited = 0.0
    return seconds * (1 + 2 * waited)


def errors_after(ranks, at, within, code):
    """The messages of all ranks, each with this code and within so many seconds of `at`. Longer only where others
    wanted the processors before that, when the ranks were at rest, or somebody waited for one meanwhile."""
    answers = [rank.answer(3 * within + 20) for rank in ranks]
    patient = patience(within)
    for rank, answer in zip(ranks, answers):
        assert answer.code != "WRONG", answer.error
        assert answer.code == code, answer
        limit = max(within * rank.load, patient)
        assert answer.ended - at < limit, f"{answer.ended - at:.2f} s instead of {limit:.2f} s: {answer.error}"
    return [answer.error for answer in answers]


def memory_with_names():
    """What the ranks of this session have left in /dev/shm."""
    names = [path.name for path in Path("/dev/shm").glob("trainyard-*")]
    return [name for name in names if any(f"-{pid}-" in name for pid in RankProcess.started)]


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
        """`up`: both ends. `down`: one end is not, which its host sees. `silent`: both hosts drop what comes in, and
        nobody is told. Gives the time at which it was so."""
        if state == "down":
            self._ip("-n", self.namespaces[0], "link", "set", self.links[0], "down")
        for namespace, link in zip(self.namespaces, self.links) if state != "down" else []:
            self._ip("-n", namespace, "link", "set", link, "up")
            chain = f'type filter hook input priority 0; iifname "{link}" drop;'
            self._filter(namespace, f"table inet cut {{\n chain arrivals {{ {chain} }}\n}}" if state == "silent" else
                         "add table inet cut; delete table inet cut")
        return time.monotonic()

    @staticmethod
    def _filter(namespace, rules):
        subprocess.run(["ip", "netns", "exec", namespace, "nft", "-f", "-"], input=rules, check=True,
                       capture_output=True, text=True)

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

    def processes(self):
        """Those in either namespace: with the last one its memory goes, which has no name."""
        return [pid for namespace in self.namespaces for pid in self._ip("netns", "pids", namespace).split()]

    def listeners(self, host):
        """TCP ports on which something listens there."""
        table = subprocess.run(["ip", "netns", "exec", self.namespaces[host], "cat", "/proc/net/tcp",
                                "/proc/net/tcp6"], check=True, capture_output=True, text=True).stdout
        rows = [line.split() for line in table.splitlines() if ":" in line]
        return sorted({int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A"})

    def remove(self):
        for namespace in self.namespaces:
            self._ip("netns", "del", namespace)
