# SPDX-License-Identifier: Apache-2.0
"""Starts the two servers and runs the four scripts on both, each script as a process of its own."""
import json
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conftest import ROOT, Server, wait_for

HERE = Path(__file__).resolve().parent
CLIENTS = ("boto3", "aws", "rclone", "s3fs")
# A mount, and whatever serves it, ends with the script that made it.
ALONE = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]


class Versitygw:
    """versitygw on a folder, with keys of its own."""
    command = ROOT / "tools/peers/versitygw"

    def __init__(self, home, program):
        self.home, self.program = home, program

    def start(self):
        with socket.create_server(("127.0.0.1", 0)) as free:  # it takes no port 0, and says no port
            self.endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        (self.home / "data").mkdir()
        with (self.home / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [self.program, "--quiet", "--keep-alive", "--virtual-domain", "localhost", "--port",
                 self.endpoint.removeprefix("http://"), "posix", self.home / "data"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=os.environ | dict(zip(("ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"), self.keys())))
        wait_for(self._listens, 10, "start of versitygw")
        return self

    def _listens(self):
        host, _, port = self.endpoint.removeprefix("http://").partition(":")
        assert self.process.poll() is None, (self.home / "server.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def keys(self):
        return "steps-key", "steps-secret"

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        return 0


def why_not(client):
    """Why this machine cannot run the script of a client; None if it can."""
    if client in ("rclone", "s3fs") and shutil.which(client) is None:
        return f"{client} is missing: run tools/install_packages s3"
    if client == "s3fs" and os.geteuid() != 0:
        return "a mount by s3fs needs root"
    if client == "s3fs" and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "s3fs needs /dev/fuse"
    return None


def program_of_versitygw(build):
    """Its path, or None and why there is none."""
    done = subprocess.run([Versitygw.command, *([] if build else ["--cached"])], capture_output=True, text=True)
    return (done.stdout.strip(), None) if done.returncode == 0 else (None, done.stderr.strip().splitlines()[-1])


class Runs:
    """The scripts on the servers that there are; seen() waits for one and gives its observations."""

    def __init__(self, folder, build_peer):
        self.folder = folder
        self.servers = {"trainyard": Server(self._place("trainyard-home"))}
        program, self.no_peer = program_of_versitygw(build_peer)
        if program:
            self.servers["versitygw"] = Versitygw(self._place("versitygw-home"), program)
        for server in self.servers.values():
            server.start()
        self.workers = ThreadPoolExecutor(3)  # two cores: more at once would only run into time-outs
        self.results = {(name, client): self.workers.submit(self._run, name, client)
                        for client in sorted(CLIENTS, key=("aws", "rclone", "s3fs", "boto3").index)
                        for name in self.servers if why_not(client) is None}

    def _place(self, name):
        (self.folder / name).mkdir()
        return self.folder / name

    def command(self, name, client, place, out):
        """What runs a script, and its environment."""
        server = self.servers[name]
        env = os.environ | dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), server.keys()))
        words = [sys.executable, HERE / "run.py", client, server.endpoint, place, out]
        return (ALONE if client == "s3fs" else []) + words, env

    def _run(self, name, client):
        out = self.folder / f"{client}-{name}.json"
        command, env = self.command(name, client, self._place(f"{client}-{name}"), out)
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=180)
        assert done.returncode == 0, f"the script of {client} broke on {name}:\n{done.stdout[-4000:]}"
        return json.loads(out.read_text())

    def seen(self, name, client):
        return self.results[name, client].result()

    def end(self):
        self.workers.shutdown(cancel_futures=True)
        return [server.stop() for server in self.servers.values()]
