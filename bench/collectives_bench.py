# SPDX-License-Identifier: Apache-2.0
"""The collectives library beside Open MPI and Gloo, between processes of this machine, fp32, every result compared.

arN-SIZE        all-reduce of N ranks, private buffers; agN, rsN, a2aN, bcN: all-gather, reduce-scatter,
                all-to-all, broadcast. SIZE is the whole buffer
arN-SIZE-tuned  the peer with malloc kept from mmap and trim, so that its temporary buffer does not fault
arN-SIZE-reg    buffers that the library allocates
arN-SIZE-bound  the same, beside what memory allows: two threads that never wait for each other
torch2-SIZE     all_reduce of torch.distributed: yard beside gloo, in one process, in turn. The median call of
                each; of gloo's 4k and 256k the best call, because its median is that of its sleeping threads
veth2-64m       two network namespaces: veth.py
setup-64        64 ranks, from the start of their processes to the end of the first barrier

Two ranks are bound to a core each, on both sides; four share two cores, and the peer yields when idle.
"""
import json
import os
import statistics
import subprocess

import torch_world
import veth
from conftest import BINARY
from cores import add_latency, latency
from figures import case
from peers import program_of

BUILD = BINARY.parent
SIZES = {"4k": 4 << 10, "256k": 256 << 10, "4m": 4 << 20, "64m": 64 << 20}
REPEATS = {"4k": 2000, "256k": 200, "4m": 20, "64m": 2}
KINDS = {"ar": "all_reduce", "ag": "all_gather", "rs": "reduce_scatter", "a2a": "all_to_all", "bc": "broadcast"}
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(256 << 20)}
INNER = 3  # runs of one start
# name -> (size, whether gloo's best call counts, least ratio)
TORCH = {"torch2-4k": ("4k", True, 6), "torch2-256k": ("256k", True, 6), "torch2-4m": ("4m", False, 5),
         "torch2-64m": ("64m", False, 4)}
TORCH_REPEATS = {"4k": 500, "256k": 200, "4m": 30, "64m": 4}  # calls of one run


def said(argv, env=None):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **(env or {})})
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def seconds_of(argv, env=None):
    return statistics.median(said(argv, env)["seconds"])


def bytes_of(size, tiny):
    return min(SIZES[size], 4 << 20) if tiny else SIZES[size]


def ours(kind, ranks, size, tiny, *more):
    return seconds_of([BUILD / "comm_ranks", "--ranks", ranks, "--kind", KINDS[kind], "--bytes", bytes_of(size, tiny),
                       "--repeats", 2 if tiny else REPEATS[size], "--runs", INNER, *more])


def mpi(program, kind, ranks, size, tiny, env=None):
    crowd = [] if ranks <= os.cpu_count() else ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    return seconds_of(["mpirun", "--allow-run-as-root", "-np", ranks, *crowd, program, KINDS[kind], bytes_of(size, tiny),
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
    own, peers, latencies = [], [], []
    for _ in range(runs):
        before = latency()
        own.append(ours(kind, ranks, size, tiny, *more))
        if variant == "bound":
            peers.append(seconds_of([BUILD / "comm_bound", bytes_of(size, tiny), INNER]))
        elif program is not None:
            peers.append(mpi(program, kind, ranks, size, tiny, TUNED if variant == "tuned" else None))
        latencies.append((before, latency()))
    peer_name = {"bound": "stream bound", "tuned": "Open MPI, malloc tuned"}.get(variant, "Open MPI")
    return add_latency(case(name, "s", own, peer=peers, peer_name=peer_name, target_ratio=least), latencies)


def measure_torch(name, size, best_call, least, runs):
    tiny = runs == 1
    found = torch_world.run("all_reduce.py", 2, "gloo,yard", bytes_of(size, tiny), 3 if tiny else TORCH_REPEATS[size], runs,
                            "--latency", BUILD / "comm_latency")
    own = [statistics.median(calls) for calls in found["seconds"]["yard"]]
    peers = [(min if best_call else statistics.median)(calls) for calls in found["seconds"]["gloo"]]
    entry = case(name, "s", own, peer=peers, peer_name="gloo, best call" if best_call else "gloo", target_ratio=least)
    seen = found["one_way_ns"]
    return add_latency(entry, list(zip(seen, seen[1:])))


def measure_setup(runs):
    ranks = 8 if runs == 1 else 64
    latencies = [latency()]
    took = [said([BUILD / "comm_ranks", "--ranks", ranks, "--setup"])["seconds"][0] for _ in range(runs)]
    latencies.append(latency())
    return add_latency(case("setup-64", "s", took, target=1.0), [tuple(latencies)] * runs)


def run(runs, only=None):
    def wanted(name):
        return not only or name in only

    program, why = program_of("openmpi", fetch=runs > 1)
    if program is None:
        print(f"without Open MPI: {why}")
    cases = [measure(name, what, runs, program) for name, what in table().items() if wanted(name)]
    cases += [measure_torch(name, *what, runs) for name, what in TORCH.items() if wanted(name)]
    if wanted("veth2-64m"):
        cases += veth.measure(runs, program)
    if wanted("setup-64"):
        cases.append(measure_setup(runs))
    return cases
