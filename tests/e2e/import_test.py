# SPDX-License-Identifier: Apache-2.0
"""An import that is killed, or that loses its power, leaves whole objects and nothing else, and goes on from there."""
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BINARY, ROOT

sys.path.insert(0, str(ROOT / "testing/powerloss"))
import replay  # noqa: E402

FILES = 9_000  # three batches


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("import") / "set"
    for i in range(FILES):
        path = place / f"{i % 7}/{i:05}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"file {i}\n".encode() * (1 + i % 50))
    return place


def command(folder, root):
    return [BINARY, "store", "import", folder, "s3://data", "--root", root, "--json"]


def imported(folder, root, **settings):
    done = subprocess.run(command(folder, root), stdout=subprocess.PIPE, text=True, timeout=120, **settings)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


def open_once(root, tmp_path):
    """What the store does when it is opened: it throws away what no object uses."""
    (tmp_path / "empty").mkdir(exist_ok=True)
    imported(tmp_path / "empty", root)


def check(folder, root):
    """Every object is whole, and no other content is there. Gives how many there are."""
    index = sqlite3.connect(f"file:{root}/index.db?mode=ro", uri=True)
    rows = index.execute("SELECT key, size, etag, content FROM objects").fetchall()
    index.close()
    for key, size, etag, content in rows:
        content = content.decode()
        body = (root / "data" / content[:2] / content).read_bytes()
        assert body == (folder / key.decode()).read_bytes() and len(body) == size
        assert hashlib.md5(body).hexdigest() == etag.decode()
    there = {path.name for path in (root / "data").rglob("*") if path.is_file()}
    assert there == {content.decode() for *_, content in rows}
    assert os.listdir(root / "incoming") == []
    return len(rows)


def test_an_import_that_is_killed_goes_on(folder, tmp_path):
    rng, root = random.Random(os.environ.get("YARD_SEED", "1")), tmp_path / "root"
    for _ in range(8):
        running = subprocess.Popen(command(folder, root), stdout=subprocess.DEVNULL)
        try:
            running.wait(rng.uniform(0.02, 0.4))
        except subprocess.TimeoutExpired:
            pass
        running.kill()
        running.wait()
        open_once(root, tmp_path)
        there = check(folder, root)
    done = imported(folder, root)
    assert done["passed"] == there and done["passed"] + done["files"] == FILES
    assert check(folder, root) == FILES


def test_an_import_that_loses_its_power_goes_on(folder, tmp_path):
    seed = int(os.environ.get("YARD_SEED", "1"))
    rng, root, journal = random.Random(seed), tmp_path / "root", tmp_path / "journal"
    root.mkdir()
    shutil.copytree(root, tmp_path / "baseline")
    watched = os.environ | {"LD_PRELOAD": str(BINARY.parent / "libpowerloss.so"), "YARD_POWERLOSS_ROOT": str(root),
                            "YARD_POWERLOSS_JOURNAL": str(journal)}
    imported(folder, root, env=watched)
    records, counts = replay.read_journal(journal), []
    for number in range(6):
        state = tmp_path / "state"
        shutil.rmtree(state, ignore_errors=True)
        # The first has nothing that was not synced, the last all that was told.
        at = rng.choice(records[len(records) // 10:]).end if number < 5 else records[-1].end
        replay.build(records, tmp_path / "baseline", state, at, seed * 100 + number if number % 3 else None)
        open_once(state, tmp_path)
        counts.append(check(folder, state))
        assert imported(folder, state)["passed"] == counts[-1], f"at {at}"
        assert check(folder, state) == FILES
    assert counts[-1] == FILES and min(counts) < FILES, counts
