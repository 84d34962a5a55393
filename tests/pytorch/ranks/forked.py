# SPDX-License-Identifier: Apache-2.0
"""A process that has used the library forks, as a start_method of multiprocessing does, and its child makes a
world of its own, at the port of the argument."""
import os
import signal
import sys

import torch
import torch.distributed as dist
from report import SIZE, attempt, tell

import trainyard.torch  # noqa: F401


def summed_by_a_future():
    dist.init_process_group("yard")
    future = dist.all_reduce(torch.ones(1000), async_op=True).get_future()
    assert future.wait()[0].tolist() == [SIZE] * 1000
    dist.destroy_process_group()


attempt("parent", summed_by_a_future)
child = os.fork()
if child == 0:
    signal.alarm(30)
    os.environ["MASTER_PORT"] = sys.argv[1]
    attempt("child", summed_by_a_future)
    os._exit(0)
tell("end", code=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
