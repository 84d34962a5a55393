# SPDX-License-Identifier: Apache-2.0
"""init_method="resourceconfig://?port=29400": ranks that no launcher has told who they are. Each finds its place by
the file that SageMaker gives to containers (trainyard/job.py), and rank 0 serves PyTorch's store on its host."""
import os
from urllib.parse import parse_qsl, urlparse

import torch.distributed as dist
from torch.distributed.rendezvous import register_rendezvous_handler

from .. import job

_SCHEME = "resourceconfig"


def _number(settings, name, variable, default=None):
    text = settings.get(name) or os.environ.get(variable) or default
    if text is None or not str(text).isdigit():
        raise ValueError(f"{_SCHEME}://: {name}={text!r} is no number; give it there, or in {variable}")
    return int(text)


def _meet(url, timeout=dist.distributed_c10d.default_pg_timeout, **_):
    parsed = urlparse(url)
    settings = dict(parse_qsl(parsed.query))
    place = job.place(_number(settings, "local_rank", "LOCAL_RANK", 0),
                      _number(settings, "local_size", "LOCAL_WORLD_SIZE", 1), parsed.path or job.CONFIG)
    store = dist.TCPStore(place.leader, _number(settings, "port", "MASTER_PORT"), place.size, place.rank == 0,
                          timeout=timeout)
    yield store, place.rank, place.size
    raise RuntimeError(f"{_SCHEME}:// cannot make a second world by the same store")


register_rendezvous_handler(_SCHEME, _meet)
