# SPDX-License-Identifier: Apache-2.0
"""Ranks with PyTorch for benches: a script of torch_ranks/ as every rank, in the environment `torch`, with the
backend of this tree. Rank 0's last line is a JSON object."""
import json
import os
import socket
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RANKS = Path(__file__).resolve().parent / "torch_ranks"
LIMIT = 900  # seconds; bounds a hang


def interpreter():
    """The environment's Python, once the backend is compiled for its PyTorch."""
    folder = subprocess.run([ROOT / "tools/python_env", "torch"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    python = Path(folder) / "bin/python"
    subprocess.run([python, "-m", "trainyard.shim_build"], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | {"PYTHONPATH": str(ROOT / "python")})
    return python


def environment(rank, size, address, port):
    base = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINYARD_COMM_", "OMPI_", "GLOO_"))}
    return base | {"PYTHONPATH": str(ROOT / "python"), "MASTER_ADDR": address, "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                   "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def finish(ranks):
    """What rank 0 said, once all of them have ended well."""
    try:
        outs = [rank.communicate(timeout=LIMIT) for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
    failed = [out for rank, out in zip(ranks, outs) if rank.returncode != 0]
    if failed:
        raise SystemExit("a rank failed:\n" + failed[0][1][-3000:])
    return json.loads(outs[0][0].strip().splitlines()[-1])


def run(script, size, *arguments):
    """All ranks on this host."""
    python, port = interpreter(), free_port()
    return finish([subprocess.Popen([python, RANKS / script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, env=environment(rank, size, "127.0.0.1", port)) for rank in range(size)])
