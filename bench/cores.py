# SPDX-License-Identifier: Apache-2.0
"""How far two cores of this machine are from each other while a figure is made. It changes without notice on
shared machines, and with it what is fast: so it stands beside each figure, and a ratio must hold in both states
when both were met."""
import json
import statistics
import subprocess

from conftest import BINARY

NEAR = 120  # ns one way: machines are well below it or well above it


def latency():
    """Nanoseconds one way now; None where there is one core, or no rest from others."""
    done = subprocess.run([BINARY.parent / "comm_latency"], check=True, capture_output=True, timeout=60)
    return json.loads(done.stdout)["one_way_ns"]


def state_of(pair):
    """What a run with this latency before and after it was wholly in, or None."""
    if None in pair or len({value < NEAR for value in pair}) > 1:
        return None
    return "near" if pair[0] < NEAR else "far"


def ratio_of(entry, runs):
    ours, peer = (statistics.median(entry[key][i] for i in runs) for key in ("all", "all_of_peer"))
    return peer / ours if entry["better"] == "lower" else ours / peer


def add_latency(entry, pairs):
    """`pairs`: the latency before and after each run of `entry` and its peer. When two runs or more were wholly in
    each state, the entry gets the ratio of each."""
    entry["one_way_ns"] = [list(pair) for pair in pairs]
    known = [value for pair in pairs for value in pair if value is not None]
    entry["note"] = f"one way between the cores: {min(known)} to {max(known)} ns" if known else "latency between cores unknown"
    runs = {state: [i for i, pair in enumerate(pairs) if state_of(pair) == state] for state in ("near", "far")}
    if entry["ratio"] is not None and all(len(found) > 1 for found in runs.values()):
        entry["ratio_by_state"] = {state: ratio_of(entry, found) for state, found in runs.items()}
        entry["note"] += "".join(f", {state}: ratio {ratio:.2f}" for state, ratio in entry["ratio_by_state"].items())
    return entry
