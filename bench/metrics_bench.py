# SPDX-License-Identifier: Apache-2.0
"""Metrics by regular expression: 40 definitions over a job's lines.

metrics-rate          lines searched a second on half a core (lines ÷ processor seconds ÷ 2), every tenth line
                      with three values; beside it Python's re with the same definitions, which finds the same
metrics-rate-values   the same where each line has three values
metrics-hostile-log   lines a second through the log pump while a catastrophic expression is among the 40, on
                      lines made for it; beside it the same lines without that expression
"""
import json
import math
import random
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/bin/instance_test"
TARGET = 100_000
HOSTILE = {"Name": "evil", "Regex": "(a+)+$"}
FORMS = [("{}", r"{}=([0-9.]+)"), ("{}", r"{}: (\S+)"), ("{}", r"'{}': ([0-9\.]+)"), ("{}", r"(?P<n>\d+) {}/s"),
         ("{}", r"\b{} (-?\d+\.\d+(?:e[-+]\d+)?)"), ("{}", r".*?{}[:=]\s*(\d+)"), ("{}", r"\[{}\] (.*?);"),
         ("{}", r"(?i){}\s*=\s*([0-9.e+-]+)")]
WORDS = ["loss", "acc", "lr", "grad_norm", "tokens", "step", "epoch", "perplexity", "throughput", "eval_loss", "bleu",
         "f1", "recall", "precision", "samples", "memory", "reward", "kl", "entropy", "value_loss"]


def definitions():
    """40 as people write them: a key and a value in eight spellings."""
    made = []
    for i in range(40):
        name = WORDS[i % len(WORDS)] + ("" if i < len(WORDS) else "_val")
        made.append({"Name": f"m{i}", "Regex": FORMS[i % len(FORMS)][1].format(re.escape(name))})
    return made


def lines(count, share, seed=7):
    """Lines of about 100 bytes; of `share` of them three values can be read."""
    draw = random.Random(seed)
    plain = ["2026-11-30 06:12:33,{0} INFO worker {1}: fetched shard {2} of the corpus in {3:.3f} seconds from cache",
             "{0} | {1}/1000 [00:{2:02d}<01:10, {3:.2f}it/s] processing the next batch of documents, please wait",
             "WARNING: the tokenizer saw {0} unknown pieces in document {1}, which is {3:.2f} percent of {2} pieces"]
    for i in range(count):
        a, b, c, d = draw.randrange(1000), draw.randrange(1000), draw.randrange(60), draw.random()
        if draw.random() < share:
            yield f"[rank {c % 8}] iteration {i} of the run: loss={d * 9:.4f}, acc: {d:.3f} and 'lr': {d / 1000:.6f} after {b} ms"
        else:
            yield plain[a % 3].format(a, b, c, d)


def write(folder, count, share, extra=()):
    text = "\n".join(lines(count, share)) + "\n"
    (folder / "lines").write_text(text)
    (folder / "definitions").write_text(json.dumps(definitions() + list(extra)))
    return text.splitlines()


def program(verb, folder):
    done = subprocess.run([PROGRAM, verb, folder / "definitions", folder / "lines"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def python_search(texts):
    """What a watcher in Python would do: its processor seconds, and what it found."""
    patterns = [re.compile(d["Regex"]) for d in definitions()]
    count, total, began = 0, 0.0, time.process_time()
    for pattern in patterns:
        for text in texts:
            if found := pattern.search(text):
                try:
                    value = float(found[1])
                except ValueError:
                    continue
                count += 1
                total += value if math.isfinite(value) else 0
    return time.process_time() - began, count, total


def case(name, ours, peer, peer_name, **more):
    ours, peer = statistics.median(ours), statistics.median(peer)
    return {"case": name, "unit": "lines/s", "better": "higher", "ours": ours, "peer": peer, "peer_name": peer_name,
            "ratio": ours / peer} | more


def rate(name, share):
    def measure(folder, runs):
        few = write(folder, 20_000, share)  # Python's turn is long
        program("metrics-rate", folder)
        ours, peer = [], []
        for _ in range(runs):
            write(folder, 20_000, share)
            same = program("metrics-rate", folder)
            seconds, count, total = python_search(few)
            assert (same["points"], same["notes"]) == (count, 0) and math.isclose(same["sum"], total), (same, count, total)
            peer.append(len(few) / seconds / 2)
            write(folder, 400_000, share)
            got = program("metrics-rate", folder)
            ours.append(got["lines"] / got["processor_seconds"] / 2)
        return case(name, ours, peer, "Python 3.11 re", target=TARGET)
    return measure


def hostile(folder, runs):
    """The log's rate with and without; all lines must be in the log, and the expression be switched off."""
    with_it, without = [], []
    texts = ["a" * 60 + f"! {line}" if i % 2 else line for i, line in enumerate(lines(1_000_000, 0.1))]
    (folder / "lines").write_text("\n".join(texts) + "\n")
    for i in range(runs + 1):  # the first warms up
        for extra, rates in (([HOSTILE], with_it), ([], without)):
            (folder / "definitions").write_text(json.dumps(definitions() + extra))
            got = program("log-rate", folder)
            assert got["lines"] == len(texts) and got["points"] > 0, got
            assert got["notes"] >= len(extra), got
            rates.append(got["lines"] / got["seconds"])
    return case("metrics-hostile-log", with_it[1:], without[1:], "the same without it", target_ratio=0.9)


def run(runs, only):
    parts = {"metrics-rate": rate("metrics-rate", 0.1), "metrics-rate-values": rate("metrics-rate-values", 1.0),
             "metrics-hostile-log": hostile}
    assert PROGRAM.is_file(), f"{PROGRAM} is missing: run ./yard build"
    cases = []
    for name in only or parts:
        if name not in parts:
            raise SystemExit(f"no such case: {name} (one of {', '.join(parts)})")
        with tempfile.TemporaryDirectory() as folder:
            cases.append(parts[name](Path(folder), runs))
    return cases
