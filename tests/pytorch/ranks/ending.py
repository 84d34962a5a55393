# SPDX-License-Identifier: Apache-2.0
"""What else goes on while a group ends: operations that nobody waits for, and other threads that ask about it;
and what allocates while memory is routed. One case of CASES, named by the argument, in a world of two."""
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from report import RANK, SIZE, attempt, tell, tell_error

import trainyard.torch
from trainyard.torch import _buckets

BACKENDS = ("yard", "yard+gloo")
CPU = torch.device("cpu")


def group(backend):
    return dist.new_group(range(SIZE), backend=backend, timeout=timedelta(seconds=60))


def threads_of_the_library():
    """Those of communicators; one for the dump signal stays with the process."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:  # it has ended
            pass
    return sorted(name for name in names if name.startswith(("comm ", "comm-watch", "p2p ")))


def threads_once(are_there, seconds=10):
    """Those of the library, once there are some, or none; or after so long."""
    end = time.monotonic() + seconds
    while bool(names := threads_of_the_library()) != are_there and time.monotonic() < end:
        time.sleep(0.05)
    return names


def left_open(begin, join, backend="yard+gloo"):
    """Rank 0 drops the Work that `begin` gives it, and leaves; then rank 1 comes."""
    made = group(backend)
    begun = threads_once(are_there=True)
    if RANK == 0:
        begin(made)
        dist.destroy_process_group(made)
        STORE.set("has left", "")
        tell("left", begun=begun, threads=threads_once(are_there=False))
    else:
        STORE.wait(["has left"])
        tell_error("told", lambda: join(made))
        dist.destroy_process_group(made)


def collective():
    left_open(lambda made: dist.all_reduce(torch.ones(8), group=made, async_op=True),
              lambda made: dist.all_reduce(torch.ones(8), group=made))


def receive():
    left_open(lambda made: dist.irecv(torch.ones(8), 1, group=made),
              lambda made: (dist.isend(torch.ones(8), 0, group=made),
                            dist.all_reduce(torch.ones(8), group=made)))


def own_receive():
    left_open(lambda made: dist.irecv(torch.ones(8), 1, group=made),
              lambda made: dist.recv(torch.ones(8), 0, group=made), backend="yard")


def meanwhile(ask, body):
    """Two threads ask again and again while `body` runs."""
    is_over, problems = threading.Event(), []

    def run():
        try:
            while not is_over.is_set():
                ask()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        body()
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert not problems, problems


def ended_meanwhile(ask, operations):
    for backend in BACKENDS * 6:
        made = group(backend)
        for _ in range(operations):
            dist.all_reduce(torch.ones(1), group=made)
        dist.barrier()
        meanwhile(lambda: ask(made), lambda: dist.destroy_process_group(made))
        dist.barrier()
    assert threads_once(are_there=False) == []


def recorded():
    ended_meanwhile(trainyard.torch.flight_record, 500)  # which it takes a while to write down


def aborted():
    ended_meanwhile(lambda made: trainyard.torch.abort("enough", made), 1)


def routed():
    backend = group("yard")._get_backend(CPU)
    tensors = [torch.ones(1) for _ in range(1000)]
    end = time.monotonic() + 2

    def route():
        while time.monotonic() < end:
            with _buckets.shared_memory(backend):
                pass

    sys.setswitchinterval(1e-6)
    meanwhile(lambda: torch._foreach_add(tensors, 1), route)  # 1,000 allocations without Python's lock


CASES = {case.__name__: case for case in (collective, receive, own_receive, recorded, aborted, routed)}

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
STORE = dist.distributed_c10d._get_default_store()
attempt(sys.argv[1], CASES[sys.argv[1]])
dist.barrier()
dist.destroy_process_group()
