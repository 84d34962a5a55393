# SPDX-License-Identifier: Apache-2.0
"""Worlds that cannot be made. Two processes meet at the store of process 0, which stays until the other
one is done with it, and each is told of another world than there is."""
import os
import time
from datetime import timedelta

import torch.distributed as dist
from report import RANK, tell, tell_error

import trainyard.torch  # noqa: F401
from trainyard import shim_build

LONG = timedelta(seconds=60)
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=RANK == 0, wait_for_workers=False,
                      timeout=LONG)


def join(world, rank, size, seconds):
    dist.init_process_group("yard", store=dist.PrefixStore(world, store), rank=rank, world_size=size,
                            timeout=timedelta(seconds=seconds))


def both_are_done_with(world):
    store.set(f"done/{world}/{RANK}", "")
    store.wait([f"done/{world}/{1 - RANK}"], LONG)


def key_of(world, entry):
    """What a rank writes of itself is somewhere below the world's prefix."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = [key for key in store.list_keys() if f"{world}/" in key and key.endswith(entry)]
        if found:
            return found[0]
        time.sleep(0.02)
    raise TimeoutError(f"nobody wrote {entry} of {world}; there are {store.list_keys()}")


def write_as_another_version():
    key = key_of("versions", "/rank/0")
    entry = bytearray(store.get(key))
    assert entry[:3] == b"TYC", entry
    entry[3] = 9
    store.set(key[:-1] + "1", bytes(entry))


tell("process", pid=os.getpid())
shim_build.shim()
both_are_done_with("getting ready")
tell_error("never complete", lambda: join("missing", RANK, 4, 5))  # ranks 2 and 3 never come
both_are_done_with("missing")

tell_error("one name", lambda: join("twice", 0, 2, 3))  # both are rank 0 of a world of this name
both_are_done_with("twice")

tell_error("sizes", lambda: join("sizes", RANK, 2 + RANK, 60))
both_are_done_with("sizes")

# Worlds are numbered: the last one, for process 1 does not join it.
if RANK == 0:
    tell_error("version", lambda: join("versions", 0, 2, 60))
else:
    write_as_another_version()
both_are_done_with("versions")
