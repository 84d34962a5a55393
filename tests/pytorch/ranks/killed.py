# SPDX-License-Identifier: Apache-2.0
"""Rank 2 is killed while operations run on each of our backends: every rank performs them in a loop, and
rank 2 ends itself when it has performed some of each."""
import os
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from report import RANK, SIZE, patience, tell, tell_error

import trainyard.torch  # noqa: F401

SOME = 20
MOST = 100_000  # an error comes long before

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
groups = {name: dist.new_group(range(SIZE), backend=name) for name in ("yard", "yard+gloo")}
performed = dict.fromkeys(groups, 0)


def perform(name):
    tensor = torch.zeros(1 << 20)
    for _ in range(MOST):
        dist.all_reduce(tensor, group=groups[name])
        performed[name] += 1


def tell_end(name):
    tell_error(f"{name}: killed amid operations", lambda: perform(name))
    tell(f"{name}: told", at=time.time(), patience=patience())


threads = [threading.Thread(target=tell_end, args=(name,), daemon=True) for name in groups]
for thread in threads:
    thread.start()
if RANK == 2:
    while min(performed.values()) < SOME:
        time.sleep(0.01)
    tell("before the kill", pid=os.getpid(), at=time.time())
    os.kill(os.getpid(), signal.SIGKILL)
for thread in threads:
    thread.join()
os._exit(0)  # the plain group has lost a rank, and may wait for it
