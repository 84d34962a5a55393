# SPDX-License-Identifier: Apache-2.0
"""The benches, each case once and small: they check every answer and result, so that this is a test of what they
measure as well. Their figures mean nothing here."""
import json
import subprocess
import sys

import pytest

from conftest import ROOT

CASES = {"api": {"describe", "create-durable", "describe-idle5000", "describe-under-put", "rss-1000-jobs", "rss-1m-requests"},
         "store": {"get-64m", "get-10k", "put-1m", "list-1m"},
         "logs": {"ingest"},
         "ddp": {"ddp-b4t256", "ddp-b1t64", "fsdp-b1t64"},
         "start": {"create-to-user-code", "create-answer", "server-rss-after-jobs", "server-start", "server-rss"},
         "recovery": {"killed-to-user-code", "silent-to-user-code", "server-restart", "stop-to-stopped", "mirror-lag", "metrics-rate",
                      "metrics-hostile-log"}}
# Each kind and each variant once; the others differ in numbers.
COLLECTIVES = {"ar2-4k", "ar2-64m-tuned", "ar2-256k-reg", "ar2-64m-bound", "ar4-64m", "ag2-256k", "rs4-4m", "a2a4-256k", "bc2-4m",
               "setup-64"}
WITH_PYTORCH = {"torch2-4k", "torch2-64m", "veth2-64m"}  # compiles the backend, a minute


def figures_of(tmp_path, name, *only, size=("--tiny",), seconds=270):
    out = tmp_path / "figures.json"
    done = subprocess.run([sys.executable, "-B", ROOT / "bench/run.py", name, *size, "--json", out,
                           *(word for case in only for word in ("--case", case))], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = json.loads(out.read_text())["cases"]
    assert all(case["ours"] > 0 for case in cases), cases
    return cases


@pytest.mark.parametrize("name", [pytest.param("api", marks=pytest.mark.root), "store", pytest.param("logs", marks=pytest.mark.root),
                                  *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.root])
                                    for name in ("ddp", "start", "recovery"))])
def test_bench_works(name, tmp_path):
    assert {case["case"] for case in figures_of(tmp_path, name)} == CASES[name]


@pytest.mark.parametrize("names", [pytest.param(COLLECTIVES, id="processes"),
                                   pytest.param(WITH_PYTORCH, id="pytorch", marks=[pytest.mark.slow, pytest.mark.root])])
def test_bench_of_the_collectives_works(names, tmp_path):
    cases = figures_of(tmp_path, "collectives", *sorted(names))
    assert {case["case"] for case in cases} == names
    assert all(case["one_way_ns"] for case in cases), cases


# At full size, for what is no matter of speed.
@pytest.mark.slow
@pytest.mark.root
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name, only, what", [("store", "list-1m", "most resident memory"), ("api", "describe-under-put", "latest beat")])
def test_limits_hold_under_load(name, only, what, tmp_path):
    entry, = figures_of(tmp_path, name, only, size=(), seconds=900)
    found, = (more for more in entry["also"] if more["what"] == what)
    assert found["target"] and found["value"] <= found["target"], entry


def test_a_ratio_must_hold_in_both_states_of_the_machine(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    from cores import add_latency
    from figures import case, is_met
    entry = case("x", "s", [1, 1, 1, 1, 1], peer=[4, 4, 4, 1, 1], peer_name="peer", target_ratio=2)
    assert is_met(entry)
    near, far, between = (50, 60), (220, 200), (50, 210)
    assert is_met(add_latency(entry | {}, [near, near, near, near, between]))
    assert is_met(add_latency(entry | {}, [near, near, far, between, between])), "one run says nothing of a state"
    judged = add_latency(entry | {}, [near, near, between, far, far])
    assert judged["ratio_by_state"] == {"near": 4, "far": 1}
    assert not is_met(judged)
