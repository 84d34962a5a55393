# SPDX-License-Identifier: Apache-2.0
"""The load client (bench/load) from Python: plans for it, and its reports.

A run whose report has a failure ends the bench: no figure is made of answers that were wrong.
"""
import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/bin/trainyard-load"


class Load:
    """One run of the client, in the background from start() on."""

    def __init__(self, plan):
        assert PROGRAM.is_file(), f"{PROGRAM} is missing: run ./yard build"
        self.plan = plan
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump(plan, self.file)
        self.file.flush()
        self.process = subprocess.Popen([PROGRAM, "run", self.file.name], stdout=subprocess.PIPE, text=True)

    def report(self):
        """Waits for its end."""
        text, _ = self.process.communicate(timeout=900)
        self.file.close()
        if not text:
            raise SystemExit(f"the load client ended with {self.process.returncode}")
        report = json.loads(text)
        if report["failed"]:
            raise SystemExit(f"{report['failed']} requests failed: " + "; ".join(report["failures"]))
        assert report["requests"] > 0 or report["broken"], report
        return report


def load(plan):
    return Load(plan).report()


def to(endpoint, keys=None, service="s3", **members):
    """A plan for http://ADDRESS:PORT; `keys` sign it."""
    address, port = endpoint.removeprefix("http://").split(":")
    plan = {"address": address, "port": int(port)} | members
    if keys:
        plan["sign"] = {"access_key_id": keys[0], "secret_access_key": keys[1], "service": service}
    return plan


def call(server, service, target, body, **members):
    """A plan of one operation of a JSON service, again and again unless {n} makes it differ."""
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
    request = {"method": "POST", "headers": headers, "body": body if isinstance(body, str) else json.dumps(body)}
    if "{n}" not in request["body"]:
        request["modulo"] = 1
    return to(server.endpoint, server.keys(), service, request=request | members.pop("request", {}), **members)


def memory(pid, field="VmRSS"):
    """MiB of a process: VmRSS now, VmHWM the most it ever was."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"no {field} of {pid}")


class MemoryWatch:
    """The most that a process holds while the block runs, looked at 20 times a second."""

    def __init__(self, pid):
        self.pid, self.most, self.over = pid, 0.0, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def _watch(self):
        while True:
            self.most = max(self.most, memory(self.pid))
            if self.over.wait(0.05):
                return


def wait_for(condition, seconds=60.0, what="condition"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise SystemExit(f"{what}: not within {seconds} s")
