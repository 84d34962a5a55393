# SPDX-License-Identifier: Apache-2.0
"""The collectives library beside Open MPI, between processes of this machine, fp32, every result compared.

arN-SIZE        all-reduce of N ranks, private buffers; agN, rsN, a2aN, bcN: all-gather, reduce-scatter,
                all-to-all, broadcast. SIZE is the whole buffer
arN-SIZE-tuned  the peer with malloc kept from mmap and trim, so that its temporary buffer does not fault
arN-SIZE-reg    buffers that the library allocates
arN-SIZE-bound  the same, beside what memory allows: two threads that never wait for each other
veth2-64m       two network namespaces joined by a veth pair: bytes a second each way, beside iperf3 both ways at
                once
setup-64        64 ranks, from the start of their processes to the end of the first barrier

Two ranks are bound to a core each, on both sides; four share two cores, and the peer yields when idle.
"""
import json
import os
import shutil
import statistics
import subprocess
import time

from conftest import BINARY
from figures import case
from peers import program_of

BUILD = BINARY.parent
SIZES = {"4k": 4 << 10, "256k": 256 << 10, "4m": 4 << 20, "64m": 64 << 20}
REPEATS = {"4k": 2000, "256k": 200, "4m": 20, "64m": 2}
KINDS = {"ar": "all_reduce", "ag": "all_gather", "rs": "reduce_scatter", "a2a": "all_to_all", "bc": "broadcast"}
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(256 << 20)}
INNER = 3  # runs of one start


def seconds_of(argv, env=None):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **(env or {})})
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return statistics.median(json.loads(done.stdout)["seconds"])


def ours(kind, ranks, size, tiny, *more):
    return seconds_of([BUILD / "comm_ranks", "--ranks", ranks, "--kind", KINDS[kind], "--bytes", SIZES[size],
                       "--repeats", 2 if tiny else REPEATS[size], "--runs", INNER, *more])


def mpi(program, kind, ranks, size, tiny, env=None):
    crowd = [] if ranks <= os.cpu_count() else ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    return seconds_of(["mpirun", "--allow-run-as-root", "-np", ranks, *crowd, program, KINDS[kind], SIZES[size],
                       2 if tiny else REPEATS[size], INNER], env)


def table():
    """name -> (kind, ranks, size, variant, least ratio)"""
    cases = {}
    for size, least in (("4k", 1.5), ("256k", 2.0), ("4m", 1.8), ("64m", 3.0)):
        cases[f"ar2-{size}"] = ("ar", 2, size, None, least)
    cases["ar2-64m-tuned"] = ("ar", 2, "64m", "tuned", 1.4)
    for size, least in (("256k", 4), ("4m", 3.5), ("64m", 5)):
        cases[f"ar2-{size}-reg"] = ("ar", 2, size, "reg", least)
    cases["ar2-64m-bound"] = ("ar", 2, "64m", "bound", 0.80)
    for size, least in (("4k", 3), ("64m", 2.5)):
        cases[f"ar4-{size}"] = ("ar", 4, size, None, least)
    for ranks in (2, 4):
        for kind in ("ag", "rs", "a2a", "bc"):
            for size in ("256k", "4m", "64m"):
                cases[f"{kind}{ranks}-{size}"] = (kind, ranks, size, None, 1.3)
    return cases


def measure(name, what, runs, program):
    kind, ranks, size, variant, least = what
    tiny = runs == 1
    # What bounds it reads and writes the same two buffers.
    more = {"reg": ["--registered"], "bound": ["--registered", "--in-place"]}.get(variant, [])
    own, peers = [], []
    for _ in range(runs):
        own.append(ours(kind, ranks, size, tiny, *more))
        if variant == "bound":
            peers.append(seconds_of([BUILD / "comm_bound", SIZES[size], INNER]))
        elif program is not None:
            peers.append(mpi(program, kind, ranks, size, tiny, TUNED if variant == "tuned" else None))
    peer_name = {"bound": "stream bound", "tuned": "Open MPI, malloc tuned"}.get(variant, "Open MPI")
    return case(name, "s", own, peer=peers, peer_name=peer_name, target_ratio=least)


class Pair:
    """Two network namespaces, 10.213.7.1 and 10.213.7.2, joined by a veth pair; gone at the end."""

    names = [f"yardbench-{os.getpid()}-{i}" for i in range(2)]

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("link", "add", "yb0", "netns", self.names[0], "type", "veth", "peer", "name", "yb1", "netns", self.names[1])
        for i, name in enumerate(self.names):
            self.ip("-n", name, "addr", "add", f"10.213.7.{i + 1}/24", "dev", f"yb{i}")
            self.ip("-n", name, "link", "set", f"yb{i}", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def start(self, side, *argv):
        return subprocess.Popen(["ip", "netns", "exec", self.names[side], *(str(word) for word in argv)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def allreduce(self, tiny):
        ranks = [self.start(i, BUILD / "comm_ranks", "--ranks", 2, "--rank", i, "--store", "10.213.7.1:29400", "--kind",
                            "all_reduce", "--bytes", SIZES["64m"], "--repeats", 1 if tiny else 4, "--runs", INNER)
                 for i in range(2)]
        outs = [rank.communicate(timeout=120) for rank in ranks]
        assert all(rank.returncode == 0 for rank in ranks), outs
        return statistics.median(json.loads(outs[0][0])["seconds"])

    def iperf(self, tiny):
        """Bytes a second, both directions together, sent at once."""
        server = self.start(1, "iperf3", "-s", "-1", "-J")
        client = None
        for _ in range(100):
            client = self.start(0, "iperf3", "-c", "10.213.7.2", "--bidir", "-J", "-t", 1 if tiny else 3, "-w", "4M")
            out = client.communicate(timeout=60)[0]
            if client.returncode == 0:
                break
            time.sleep(0.05)
        server.communicate(timeout=60)
        end = json.loads(out)["end"]
        return sum(end[way]["bits_per_second"] for way in ("sum_received", "sum_received_bidir_reverse")) / 8


def veth(runs):
    """An all-reduce of two ranks moves each byte once each way."""
    if os.geteuid() != 0 or shutil.which("iperf3") is None:
        print("without veth2-64m: needs root and iperf3")
        return []
    with Pair() as pair:
        own, peer = [], []
        for _ in range(runs):
            own.append(2 * SIZES["64m"] / pair.allreduce(runs == 1))
            peer.append(pair.iperf(runs == 1))
    return [case("veth2-64m", "bytes/s", own, better="higher", peer=peer, peer_name="iperf3 both ways", target_ratio=0.9)]


def run(runs, only=None):
    program, why = program_of("openmpi", fetch=runs > 1)
    if program is None:
        print(f"without Open MPI: {why}")
    cases = [measure(name, what, runs, program) for name, what in table().items() if not only or name in only]
    if not only or "veth2-64m" in only:
        cases += veth(runs)
    if not only or "setup-64" in only:
        ranks = 8 if runs == 1 else 64
        took = [json.loads(subprocess.run([BUILD / "comm_ranks", "--ranks", str(ranks), "--setup"], check=True, capture_output=True,
                                          text=True, timeout=120).stdout)["seconds"][0] for _ in range(runs)]
        cases.append(case("setup-64", "s", took, target=1.0))
    return cases
