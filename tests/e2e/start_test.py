# SPDX-License-Identifier: Apache-2.0
"""A server that is told to stop while it starts."""
import contextlib
import os
import signal
import subprocess
import time

import pytest
from conftest import BINARY, Server, wait_for, withheld


def has_open(process, path):
    links = []
    for number in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/{process.pid}/fd/{number}"))
    return str(path) in links


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_server_that_opens_its_database_stops_at_once(tmp_path, number):
    server = Server(tmp_path).start()
    server.client("s3").create_bucket(Bucket="kept")
    assert server.stop() == 0
    with withheld(tmp_path / "trainyard.db"), open(tmp_path / "server.log", "ab") as log:
        server.log = log
        starting = server.launch()
        wait_for(lambda: has_open(starting, tmp_path / "trainyard.db"), 10, "the database being opened")
        since = time.monotonic()
        starting.send_signal(number)
        assert starting.wait(10) == 0
        assert time.monotonic() - since < 1
    assert "stopping before the start was complete" in (tmp_path / "server.log").read_text()
    assert not (tmp_path / "server.json").exists()
    server.start()
    assert [bucket["Name"] for bucket in server.client("s3").list_buckets()["Buckets"]] == ["kept"]
    assert server.stop() == 0


def test_a_store_alone_that_opens_its_index_stops_at_once(tmp_path):
    """The same of `trainyard store`, from the moment at which it holds its directory."""
    command = [BINARY, "store", "--root", tmp_path / "objects", "--keys", tmp_path / "keys", "--listen", "127.0.0.1:0"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert any(b"serves" in line for line in first.stdout)
    first.send_signal(signal.SIGTERM)
    assert first.wait(10) == 0
    first.stdout.close()
    index = next((tmp_path / "objects").rglob("*.db"))
    with withheld(index):
        starting = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: has_open(starting, index), 10, "the index being opened")
        starting.send_signal(signal.SIGTERM)
        since = time.monotonic()
        assert starting.wait(10) == 0
        assert time.monotonic() - since < 1
