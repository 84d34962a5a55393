# SPDX-License-Identifier: Apache-2.0
"""The benches that load the server, each case once and small: they check every answer, so that this is a test of
what they measure as well. Their figures mean nothing here."""
import json
import subprocess
import sys

import pytest

from conftest import ROOT

CASES = {"api": {"describe", "create-durable", "describe-idle5000", "describe-under-put", "rss-1000-jobs", "rss-1m-requests"},
         "store": {"get-64m", "get-10k", "put-1m", "list-1m"},
         "logs": {"ingest"}}


@pytest.mark.parametrize("name", [pytest.param("api", marks=pytest.mark.root), "store", pytest.param("logs", marks=pytest.mark.root)])
def test_bench_works(name, tmp_path):
    out = tmp_path / "figures.json"
    done = subprocess.run([sys.executable, "-B", ROOT / "bench/run.py", name, "--tiny", "--json", out],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = json.loads(out.read_text())["cases"]
    assert {case["case"] for case in cases} == CASES[name]
    assert all(case["ours"] > 0 for case in cases), cases
