# SPDX-License-Identifier: Apache-2.0
"""The end of a process that has used Gloo. A thread of Gloo's lets go of an operation a moment after the script has
its result, and takes the interpreter's lock for that. In PyTorch 2.14 and 2.15 that aborts a process whose interpreter
has begun to end ("terminate called without an active exception"), and a job that has done all its work would have
failed. So the end waits until those threads sleep."""
import atexit
import time
from pathlib import Path

THREAD = "pt_gloo_runloop"
LOOKS = 3  # at which all were asleep; between them the lock is free
LIMIT = 2.0  # seconds: one that never sleeps is none that lets go of something


def states(name):
    """Those of this process's threads of that name: "S" is asleep (proc(5))."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            _, _, rest = (task / "stat").read_text().partition("(")
        except OSError:  # it has ended
            continue
        comm, _, fields = rest.rpartition(")")
        if comm == name:
            found.append(fields.split()[0])
    return found


def wait_for_gloo():
    asleep, end = 0, time.monotonic() + LIMIT
    while asleep < LOOKS and time.monotonic() < end:
        time.sleep(0.001)
        found = states(THREAD)
        if not found:
            return
        asleep = asleep + 1 if set(found) == {"S"} else 0


def register():
    if Path("/proc/self/task").is_dir():
        atexit.register(wait_for_gloo)
