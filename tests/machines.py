# SPDX-License-Identifier: Apache-2.0
"""The machines that the local engine makes for a job, seen from outside: what lives on one, and how
to take it away as a fault would. Needs root."""
import json
import os
import signal
import subprocess
from pathlib import Path

from conftest import wait_for


class Machine:
    """One instance of a job, as the engine's records name it."""

    def __init__(self, server, job, host="algo-1"):
        self.host, self.number = host, int(host.removeprefix("algo-"))
        self.gang = wait_for(lambda: next((server.home / "run" / job).glob("*/gang.json"), None), 10,
                             f"the gang of {job}").parent
        self.tag = json.loads((self.gang / "gang.json").read_text())["tag"]
        self.namespace, self.veth = f"trainyard-{self.tag}-{self.number}", f"ty{self.tag}v{self.number}"
        self.scratch = self.gang / host
        self.is_on_loopback = json.loads((self.gang / "gang.json").read_text())["subnet"].startswith("127.")

    def record(self):
        return json.loads((self.gang / f"{self.host}.json").read_text())

    def server_url(self):
        return json.loads((self.gang / "gang.json").read_text())["server_url"]

    def token(self):
        return (self.scratch / "token").read_text().strip()

    def supervisor(self):
        return self.record()["pid"]

    def pids(self):
        """Everything that lives there: supervisor, container, the user's processes and daemons."""
        if self.is_on_loopback:
            return below(self.supervisor())
        found = subprocess.run(["ip", "netns", "pids", self.namespace], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def signal(self, number):
        told = self.pids()
        for pid in told:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        return told

    def kill(self):
        """kill -9 of everything there, the supervisor first; gives what was killed."""
        told = [pid for pid in (self.supervisor(), *self.pids()) if pid > 0]  # 0: about to be started
        for pid in dict.fromkeys(told):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return told

    def stop(self):
        """SIGSTOP of everything there: silent, but not dead."""
        os.kill(self.supervisor(), signal.SIGSTOP)
        return self.signal(signal.SIGSTOP)

    @staticmethod
    def wake(pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def cut(self):
        subprocess.run(["ip", "link", "set", self.veth, "down"], check=True)


def below(pid):
    """The process and all that descend from it; nobody leaves a container, so that is a whole instance."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def finish(jobs, name, machines):
    """Lets a program that waits for /opt/ml/finish end, on these machines, and its job complete."""
    for machine in machines:
        (machine.scratch / "ml" / "finish").touch()
    job = jobs.wait(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return job


def alive(pids):
    """Those of the processes that still run; zombies do not."""
    def runs(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False
    return [pid for pid in pids if runs(pid)]


def processes_with(marker):
    """The processes of this machine whose command line contains the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return [pid for pid in alive(found) if pid != os.getpid()]


def leftovers():
    """What jobs may leave on this machine: namespaces, links, mounts, firewall rules, control groups, processes."""
    def run(*command):
        return subprocess.run(command, capture_output=True, text=True).stdout
    processes = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and (b"leftover-marker" in command or b"\0instance\0" in command):
                processes.add(entry.name)
    links = {link["ifname"] for link in json.loads(run("ip", "-j", "link") or "[]")}
    namespaces = {line.split()[0] for line in run("ip", "netns").splitlines()}
    groups = {str(path) for path in Path("/sys/fs/cgroup").rglob("trainyard-*")}
    return {"namespaces": namespaces, "links": links, "groups": groups, "rules": run("nft", "list", "ruleset"),
            "mounts": Path("/proc/self/mounts").read_text(), "processes": processes,
            "forward": Path("/proc/sys/net/ipv4/ip_forward").read_text()}
