# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of whole programs:  ./yard bench NAME [--json FILE] [--tiny]

Each case verifies what it measured, is warmed up once, and gives the median of at least five runs,
interleaved with those of its peer (bench/METHOD.md). --tiny runs each once, for correctness only.
"""
import argparse
import importlib
import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from figures import is_met  # noqa: E402


def machine():
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())
    cores = len([line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")])
    return f"{model}, {cores} cores, Linux {platform.release()}"


def show(case, judged):
    peer = f"{case['peer']:10.4g} {case['ratio']:7.2f}" if case["peer"] is not None else f"{'-':>10} {'-':>7}"
    wanted = [f"{words} {case[key]:g}" for key, words in (("target", "wanted"), ("target_ratio", "wanted ratio")) if case.get(key)]
    met = is_met(case) if judged else None
    verdict = "" if met is None else "  ok" if met else "  MISSED"
    print(f"{case['case']:24} {case['ours']:10.4g} {peer}  " +
          ", ".join([case["unit"], case["peer_name"] or "no peer", *wanted]) + verdict)
    for more in case.get("also", ()):
        wanted = "" if more["target"] is None else f", wanted {more['target']:g}"
        print(f"{'':24} {more['value']:10.4g}  {more['unit']}, {more['what']}{wanted}")
    if case.get("note"):
        print(f"{'':24} {case['note']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(p.stem.removesuffix("_bench") for p in ROOT.glob("bench/*_bench.py")))
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--tiny", action="store_true", help="one run of each case: for correctness, not for figures")
    parser.add_argument("--case", action="append", help="only this case (may be given several times)")
    args = parser.parse_args()

    bench = importlib.import_module(f"{args.name}_bench")
    cases = bench.run(runs=1 if args.tiny else 5, only=args.case)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    result = {"name": args.name, "commit": commit.strip(), "machine": machine(), "cases": cases}
    print(f"{'case':24} {'ours':>10} {'peer':>10} {'ratio':>7}  unit, peer")
    for case in cases:
        show(case, judged=not args.tiny)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
