# SPDX-License-Identifier: Apache-2.0
"""Worlds of processes with PyTorch. A script of ranks/ runs as every rank, and prints one JSON object a
line about each thing it tried; tests read those. With the PyTorch of jobs and, in ./yard test all, with
the one before it, for each of which the backend is compiled."""
import itertools
import json
import os
import socket
import subprocess
import time
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

RANKS = Path(__file__).parent / "ranks"
# Of tools/python_env; YARD_TORCH_ENV is another one, by its folder, instead.
ENVIRONMENTS = [os.environ["YARD_TORCH_ENV"]] if "YARD_TORCH_ENV" in os.environ else [
    "torch", pytest.param("torch214", marks=pytest.mark.slow)]


PORTS = itertools.count(10_000 + os.getpid() * 64 % 20_000)  # below those that the system gives to others


def free_port():
    """A port that nobody holds, and that no other connection will get meanwhile."""
    for port in itertools.islice(PORTS, 1000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return str(port)
    raise OSError("no free port among 1,000")


class Reports:
    """What the ranks of one world said: {"case": ..., "rank": ..., ...} each."""

    def __init__(self, lines, codes, errors):
        self.lines, self.codes, self.errors = lines, codes, errors

    def of(self, case):
        found = [line for line in self.lines if line["case"] == case]
        assert found, f"no rank said anything about {case!r}; exit codes {self.codes}\n{self.errors[-3000:]}"
        return found

    def assert_all_well(self, case):
        problems = [f"rank {line['rank']}: {line['problem']}" for line in self.of(case) if "problem" in line]
        assert not problems, "\n".join(problems)


class Torch:
    def __init__(self, python):
        self.python, self.free_port = python, free_port

    def run(self, script, size, *arguments, seconds=900, python_path=ROOT / "python", **environment):
        """A world of `size` ranks, with torchrun's variables; ended after `seconds`, if it hangs."""
        base = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINYARD_COMM_", "OMPI_"))}
        base |= {"PYTHONPATH": str(python_path), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(),
                 "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | environment
        processes = [subprocess.Popen(
            [self.python, RANKS / script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=base | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(size)]
        deadline = time.monotonic() + seconds
        outs, errors = [], []
        for process in processes:
            try:
                out, error = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                out, error = process.communicate()
                error += "\n(ended by the test: too slow)"
            outs.append(out)
            errors.append(error)
        lines = [json.loads(line) for out in outs for line in out.splitlines() if line.startswith("{")]
        return Reports(lines, [process.returncode for process in processes], "\n".join(errors))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """A folder with the wheel, and with what it unpacks to in site/."""
    folder = tmp_path_factory.mktemp("wheel")
    made = subprocess.run([ROOT / "tools/wheel", folder], check=True, stdout=subprocess.PIPE, text=True)
    with zipfile.ZipFile(made.stdout.strip()) as archive:
        archive.extractall(folder / "site")
    return folder


def in_environment(name):
    """Worlds with the PyTorch of an environment of tools/python_env, or of a folder; compiles the backend
    first, so that no rank's time-out has to wait for that."""
    folder = name if "/" in name else subprocess.run(
        [ROOT / "tools/python_env", name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    python = Path(folder) / "bin/python"
    subprocess.run([python, "-m", "trainyard.shim_build"], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | {"PYTHONPATH": str(ROOT / "python")})
    return Torch(python)


@pytest.fixture(scope="session", params=ENVIRONMENTS)
def torch(request):
    return in_environment(request.param)


@pytest.fixture(scope="session")
def deepspeed():
    return in_environment("deepspeed")
