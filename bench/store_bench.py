# SPDX-License-Identifier: Apache-2.0
"""The object store under load, by the client in bench/load, beside versitygw (S3 over a directory, in Go) and
nginx (the same files, unsigned). The three are asked in turn, by the same client with the same requests.

get-64m   16 objects of 64 MiB on 4 connections of two clients, each byte checked: bytes a second
get-10k   1,000 objects of 10 KiB on 8 connections: requests a second
put-1m    new objects of 1 MiB on 4 connections, each durable before it counts. versitygw does not sync what it
          writes; the client does it for it after each answer (fsync of the file and its directory, on a
          thread for each connection). What was put is read back and checked
list-1m   1,000,000 keys by pages of 1,000, every key checked, on a server that was just started: seconds, memory
"""
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from conftest import BINARY, Server
from figures import beside, case
from load_client import PROGRAM, Load, load, memory, to
from peers import Nginx, Versitygw, program_of
from start_bench import free_port

BUCKET = "bench"
MIB = 1 << 20


class Scale:
    def __init__(self, runs):
        self.tiny = runs == 1
        self.runs = runs
        self.large, self.large_count = (MIB, 4) if self.tiny else (64 * MIB, 16)
        self.large_ms = 200 if self.tiny else 2500
        self.small, self.small_count = (10 << 10, 50 if self.tiny else 1000)
        self.small_ms = 200 if self.tiny else 3000
        self.puts = 20 if self.tiny else 300
        self.keys = 2500 if self.tiny else 1_000_000


class Ours:
    name = None

    def __init__(self, folder):
        folder.mkdir()
        self.server = Server(folder).start()
        self.server.client("s3").create_bucket(Bucket=BUCKET)
        self.endpoint, self.keys, self.root = self.server.endpoint, self.server.keys(), None

    def stop(self):
        assert self.server.stop() == 0


class Contenders:
    """Our store and those of the peers that can be had; `missing` says why the others cannot."""

    def __init__(self, folder, wants, fetch):
        self.all, self.missing = [Ours(folder / "ours")], []
        for kind, script in ((Versitygw, "versitygw"), (Nginx, "nginx")):
            if kind not in wants:
                continue
            program, why = program_of(script, fetch)
            if program is None:
                self.missing.append(f"{script}: {why}")
                continue
            peer = kind(program, folder / script, free_port()).start()
            if kind is Versitygw:
                peer.make_bucket(BUCKET)
            self.all.append(peer)

    def stop(self):
        for one in self.all:
            one.stop()

    def fill(self, prefix, size, count):
        """Objects PREFIX000000000 and so on, in each by its own way in."""
        for one in self.all:
            if one.keys is None:
                (one.root / BUCKET).mkdir(exist_ok=True)
                subprocess.run([PROGRAM, "files", one.root / BUCKET, prefix, str(size), str(count)], check=True)
            else:
                load(to(one.endpoint, one.keys, connections=4, requests=count,
                        request={"method": "PUT", "path": f"/{BUCKET}/{prefix}{{n}}"},
                        content={"bytes": size, "distinct": count, "is_sent": True}))
        os.sync()  # what some have left to be written would disturb the others

    def measure(self, runs, plan, figure, clients=1):
        """{contender: figure of each run}, in turn, the first round unseen; the sum of several clients' figures."""
        found = {one: [] for one in self.all}
        for i in range(runs + 1):
            for one in self.all:
                running = [Load(plan(one, i)) for _ in range(clients)]
                found[one].append(sum(figure(client.report()) for client in running))
        return {one: figures[1:] for one, figures in found.items()}

    def entries(self, name, unit, found, targets, also=()):
        """One entry for each peer; one without any when there is none."""
        ours = found[self.all[0]]
        made = [case(name, unit, ours, "higher", found[peer], peer.name, target_ratio=targets[type(peer)], also=also)
                for peer in self.all[1:]]
        note = "; ".join(self.missing)
        return (made or [case(name, unit, ours, "higher", also=also)]) + ([] if not note else [
            case(name, unit, ours, "higher", note="no peer: " + note)] if made else [])


def get(one, prefix, size, count, **members):
    return to(one.endpoint, one.keys, request={"path": f"/{BUCKET}/{prefix}{{n}}", "modulo": count},
              content={"bytes": size, "distinct": count}, **members)


def getting_large(all_of_them, scale):
    all_of_them.fill("large-", scale.large, scale.large_count)
    # One client takes less than any of these servers can give.
    found = all_of_them.measure(
        scale.runs, lambda one, _: get(one, "large-", scale.large, scale.large_count, connections=2, time_ms=scale.large_ms),
        lambda report: report["received_bytes_per_second"], clients=2)
    return all_of_them.entries("get-64m", "bytes/s", found, {Versitygw: 1.2, Nginx: 0.8})


def getting_small(all_of_them, scale):
    all_of_them.fill("small-", scale.small, scale.small_count)
    p99s = []

    def figure(report):
        p99s.append(report["latency_ms"]["p99"])
        return report["requests_per_second"]

    found = all_of_them.measure(scale.runs, lambda one, _: get(one, "small-", scale.small, scale.small_count, connections=8,
                                                               time_ms=scale.small_ms), figure)
    ours = p99s[::len(all_of_them.all)][1:]
    return all_of_them.entries("get-10k", "requests/s", found, {Versitygw: 2.5, Nginx: None},
                               also=[beside("p99", "ms", statistics.median(ours))])


def putting(all_of_them, scale):
    distinct = 16

    def plan(one, i):
        members = {} if one.root is None else {"sync_root": str(one.root)}
        return to(one.endpoint, one.keys, connections=4, requests=scale.puts,
                  request={"method": "PUT", "path": f"/{BUCKET}/put-{i}-{{n}}"},
                  content={"bytes": MIB, "distinct": distinct, "is_sent": True}, **members)

    found = all_of_them.measure(scale.runs, plan, lambda report: report["requests_per_second"])
    for one in all_of_them.all:
        for i in range(scale.runs + 1):
            load(to(one.endpoint, one.keys, connections=4, requests=scale.puts,
                    request={"path": f"/{BUCKET}/put-{i}-{{n}}"}, content={"bytes": MIB, "distinct": distinct}))
    return all_of_them.entries("put-1m", "objects/s", found, {Versitygw: 1.5})


def listing(server, scale):
    return to(server.endpoint, server.keys(), request={"path": f"/{BUCKET}", "query": "list-type=2{token}"},
              pages={"item_begin": "<Key>", "item_end": "</Key>", "item": "key-{n}", "items": scale.keys,
                     "token_begin": "<NextContinuationToken>", "token_end": "</NextContinuationToken>",
                     "token_prefix": "&continuation-token="})


def adopt_keys(server, folder, count):
    """Empty objects key-000000000 and so on, by `trainyard store import` while no server runs."""
    folder.mkdir()
    for i in range(count):
        os.close(os.open(folder / f"key-{i:09}", os.O_CREAT | os.O_WRONLY, 0o600))
    subprocess.run([BINARY, "store", "import", folder, f"s3://{BUCKET}", "--root", server.home / "objects", "--mode", "link"],
                   check=True, stdout=sys.stderr)


def listing_keys(folder, scale):
    ours = Ours(folder / "ours")
    server = ours.server
    assert server.stop() == 0
    adopt_keys(server, folder / "files", scale.keys)
    server.start()  # its memory is that of listing, not of putting
    seconds = []
    for _ in range(scale.runs + 1):
        report = load(listing(server, scale))
        assert report["items"] == scale.keys, report
        seconds.append(report["seconds"])
    most = memory(server.process.pid, "VmHWM")
    ours.stop()
    return [case("list-1m", "s", seconds[1:], target=10, also=[beside("most resident memory", "MiB", most, 100)])]


CONTESTS = {"get-64m": (getting_large, (Versitygw, Nginx)), "get-10k": (getting_small, (Versitygw, Nginx)),
            "put-1m": (putting, (Versitygw,))}


def run(runs, only):
    scale, found = Scale(runs), []
    for name in only or [*CONTESTS, "list-1m"]:
        if name not in CONTESTS and name != "list-1m":
            raise SystemExit(f"no such case: {name} (one of {', '.join([*CONTESTS, 'list-1m'])})")
        with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
            if name == "list-1m":
                found += listing_keys(Path(folder), scale)
                continue
            measure, wants = CONTESTS[name]
            # A test run takes the peers that are there; a measurement fetches them.
            contenders = Contenders(Path(folder), wants, fetch=not scale.tiny)
            try:
                found += measure(contenders, scale)
            finally:
                contenders.stop()
    return found
