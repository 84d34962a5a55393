# SPDX-License-Identifier: Apache-2.0
"""Where a process is among the ranks of a SageMaker training job, by the file that each container has of its
job. Needs no PyTorch, and no variables of a launcher; src/comm/rendezvous/resource_config.h is the same in C++."""
import json
from typing import NamedTuple

CONFIG = "/opt/ml/input/config/resourceconfig.json"


class Place(NamedTuple):
    rank: int
    size: int
    leader: str  # the host of rank 0: a name that all hosts of the job know
    interface: str  # which carries the job's traffic; may be empty


def place(local_rank=0, local_size=1, config=CONFIG):
    """The place of the process `local_rank` of `local_size` on this host: hosts count in the order of the file,
    which is the same on all of them. ValueError says what is wrong with the file or the numbers."""
    if not 0 <= local_rank < local_size:
        raise ValueError(f"local rank {local_rank} of {local_size} on a host: they count from 0 to the number less one")
    with open(config) as file:
        told = json.load(file)
    if not isinstance(told, dict):
        raise ValueError(f"{config}: it is no object")
    hosts, current = told.get("hosts"), told.get("current_host")
    if not isinstance(hosts, list) or len(set(map(str, hosts))) != len(hosts) or current not in hosts:
        raise ValueError(f"{config}: the current host {current!r} is not among the hosts {hosts!r}, or one comes twice")
    return Place(hosts.index(current) * local_size + local_rank, len(hosts) * local_size, hosts[0],
                 told.get("network_interface_name") or "")
