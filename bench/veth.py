# SPDX-License-Identifier: Apache-2.0
"""An all-reduce of 64 MiB between two network namespaces joined by a veth pair, cubic on both sides, beside what
iperf3 moves both ways at once, Gloo, and Open MPI over TCP. An all-reduce of two ranks moves each byte once each
way, so bytes a second are twice the buffer a call. No program is bound to a processor."""
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch_world
from conftest import BINARY
from cores import add_latency, latency
from figures import beside, case

ADDRESSES = ("10.213.7.1", "10.213.7.2")
NETWORK = "10.213.7.0/24"
PORT = 29400  # in namespaces of our own
BYTES = 64 << 20
INNER = 3  # runs of one start
WAYS = ("sum_received", "sum_received_bidir_reverse")  # as iperf3 calls them


class Pair:
    """The namespaces, with ADDRESSES; gone at the end, with what runs in them."""

    def __init__(self):
        self.names = [f"yardbench-{os.getpid()}-{side}" for side in range(2)]
        self.started = []
        self.scratch = tempfile.TemporaryDirectory()

    def __enter__(self):
        try:
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def connect(self):
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("link", "add", "yb0", "netns", self.names[0], "type", "veth", "peer", "name", "yb1", "netns", self.names[1])
        for side, name in enumerate(self.names):
            self.ip("-n", name, "addr", "add", f"{ADDRESSES[side]}/24", "dev", f"yb{side}")
            self.ip("-n", name, "link", "set", f"yb{side}", "up")
            # By the route: only the first namespace of a machine may change its default.
            self.ip("-n", name, "route", "replace", NETWORK, "dev", f"yb{side}", "src", ADDRESSES[side], "congctl", "cubic")

    def __exit__(self, *_):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
        self.scratch.cleanup()

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def start(self, side, *argv, env=None):
        self.started.append(subprocess.Popen(
            ["ip", "netns", "exec", self.names[side], *(str(word) for word in argv)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=env))
        return self.started[-1]

    @staticmethod
    def said(process):
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, f"{process.args}: {out}{errors}"
        return out

    def ours(self, repeats):
        ranks = [self.start(side, BINARY.parent / "comm_ranks", "--ranks", 2, "--rank", side, "--unbound", "--store",
                            f"{ADDRESSES[0]}:{PORT}", "--kind", "all_reduce", "--bytes", BYTES, "--repeats", repeats, "--runs", INNER)
                 for side in range(2)]
        return self.rate([self.said(rank) for rank in ranks][0])

    @staticmethod
    def rate(text):
        return 2 * BYTES / statistics.median(json.loads(text.strip().splitlines()[-1])["seconds"])

    def iperf(self, seconds):
        """Both directions together, sent at once. The client is repeated until it has measured: one that finds no
        server yet ends well, too. A server may not end when both directions have, so nobody waits for it."""
        server = self.start(1, "iperf3", "-s", "-J")
        for _ in range(200):
            client = self.start(0, "iperf3", "-c", ADDRESSES[1], "--bidir", "-J", "-t", seconds, "-w", "4M")
            out, _errors = client.communicate(timeout=60)
            end = json.loads(out)["end"] if client.returncode == 0 else {}
            if all(way in end for way in WAYS):
                server.kill()
                server.communicate()
                return sum(end[way]["bits_per_second"] for way in WAYS) / 8
            time.sleep(0.05)
        raise SystemExit("iperf3 does not connect: " + out)

    def gloo(self, python, repeats):
        ranks = [self.start(side, python, torch_world.RANKS / "all_reduce.py", "gloo", BYTES, repeats, INNER,
                            env=torch_world.environment(side, 2, ADDRESSES[0], PORT) | {"GLOO_SOCKET_IFNAME": f"yb{side}"})
                 for side in range(2)]
        runs = torch_world.finish(ranks)["seconds"]["gloo"]
        return 2 * BYTES / statistics.median(statistics.fmean(run) for run in runs)

    def mpi(self, program, repeats):
        """mpirun on side 0 starts the other rank through a stand-in for ssh. Each side has a host name of its
        own, because Open MPI takes equal names for one host."""
        away = Path(self.scratch.name) / "reach"  # Open MPI gives options of its own to an "ssh"
        away.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {self.names[1]} unshare --uts sh -c "hostname yb1; $*"\n')
        away.chmod(0o755)
        words = ["mpirun", "--allow-run-as-root", "-np", 2, "--host", ",".join(f"{one}:1" for one in ADDRESSES), "--bind-to", "none",
                 "--mca", "plm_rsh_agent", away, "--mca", "oob_tcp_if_include", NETWORK, "--mca", "btl", "tcp,self",
                 "--mca", "btl_tcp_if_include", NETWORK, "--mca", "pml", "ob1", program, "all_reduce", BYTES, repeats, INNER]
        line = " ".join(str(word) for word in words)
        return self.rate(self.said(self.start(0, "unshare", "--uts", "sh", "-c", f"hostname yb0; exec {line}")))


def why_not():
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    return None if shutil.which("iperf3") else "needs iperf3"


def measure(runs, program):
    """The case, or nothing where this machine cannot have it. `program`: of Open MPI, or None."""
    if why_not():
        print(f"without veth2-64m: {why_not()}")
        return []
    repeats = 1 if runs == 1 else 4
    python = torch_world.interpreter()
    rates = {"ours": [], "iperf3": [], "gloo": [], "Open MPI": []}
    latencies = []
    with Pair() as pair:
        for _ in range(runs):
            before = latency()
            rates["ours"].append(pair.ours(repeats))
            rates["iperf3"].append(pair.iperf(1 if runs == 1 else 3))
            rates["gloo"].append(pair.gloo(python, repeats))
            if program:
                rates["Open MPI"].append(pair.mpi(program, repeats))
            latencies.append((before, latency()))
    own = statistics.median(rates["ours"])
    also = [beside(f"times {name}", "ratio", own / statistics.median(rates[name]), target=least, better="higher")
            for name, least in (("gloo", 1.6), ("Open MPI", 1.2)) if rates[name]]
    entry = case("veth2-64m", "bytes/s", rates["ours"], better="higher", peer=rates["iperf3"], peer_name="iperf3 both ways",
                 target_ratio=0.9, also=also)
    entry["all_of"] = {name: rates[name] for name in ("gloo", "Open MPI") if rates[name]}
    return [add_latency(entry, latencies)]
