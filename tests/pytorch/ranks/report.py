# SPDX-License-Identifier: Apache-2.0
"""How a rank tells the test what happened."""
import json
import os
import re
import sys
import time
import traceback
from pathlib import Path

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])


def tell(case, **facts):
    sys.stdout.write(json.dumps({"case": case, "rank": RANK} | facts) + "\n")
    sys.stdout.flush()


def patience():
    """By what factor more than was promised may have passed: 1 to 3, by how much of the last 10 s somebody on this
    machine waited for a processor."""
    try:
        waited = float(re.search(r"some avg10=([\d.]+)", Path("/proc/pressure/cpu").read_text())[1]) / 100
    except OSError:
        waited = 0.0
    return 1 + 2 * waited


def attempt(case, body):
    """Runs it and tells its problem, if it had one."""
    try:
        body()
        tell(case)
    except Exception:
        tell(case, problem=traceback.format_exc(limit=-4))


def tell_error(case, body):
    """Runs what must fail; tells the error and how long it took to come."""
    start = time.monotonic()
    try:
        body()
        tell(case, problem="there was no error")
    except Exception as error:
        tell(case, kind=type(error).__name__, text=str(error), seconds=time.monotonic() - start,
             patience=patience())
