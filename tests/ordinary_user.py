# SPDX-License-Identifier: Apache-2.0
"""A server that runs as an ordinary user, whoever runs the tests. Root starts it as a user that does
not exist otherwise, with a home of its own, by setpriv; anybody else as himself."""
import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from conftest import BINARY, Server, wait_for

# Users of no distribution, and not "nobody" either, whose processes may be anybody's.
UIDS = range(239_000, 240_000)


def claim():
    """A user of this run's own, so that whatever runs as it is of this run, and its home. The home is the claim: that
    of a run which failed, and may have left processes, stays."""
    for uid in UIDS:
        home = Path(f"/tmp/trainyard-user-{uid}")
        try:
            home.mkdir(mode=0o700)
        except FileExistsError:
            continue
        os.chown(home, uid, uid)
        return uid, home
    raise RuntimeError("every ordinary user has a home: remove what failed runs have left, /tmp/trainyard-user-*")


def environments():
    """Where the Python environments are: what jobs and tools run with."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(os.environ.get("TRAINYARD_ENVS", cache / "trainyard/env"))


def barred_ancestor(path):
    """The uppermost directory above `path` that keeps others out, as /root does; None: there is none."""
    for parent in reversed(Path(path).resolve().parents):
        if not parent.stat().st_mode & 0o001:
            return parent
    return None


def let_in(paths, aside):
    """Shell lines for a mount namespace of one's own in which others reach these paths, and nothing else
    behind the directories that bar the way."""
    lines, barred = [], {}
    for path in paths:
        if parent := barred_ancestor(path):
            barred.setdefault(parent, []).append(Path(path).resolve())
    for number, (parent, inner) in enumerate(barred.items()):
        kept = [f"{aside}/{number}-{i}" for i in range(len(inner))]
        for place, path in zip(kept, inner):
            lines += [f"mkdir -p {shlex.quote(place)}",
                      f"mount --rbind {shlex.quote(str(path))} {shlex.quote(place)}"]
        lines.append(f"mount -t tmpfs -o mode=0755 others {shlex.quote(str(parent))}")
        for place, path in zip(kept, inner):
            lines += [f"mkdir -p {shlex.quote(str(path))}",
                      f"mount --rbind {shlex.quote(place)} {shlex.quote(str(path))}"]
    return lines


class OrdinaryUser:
    """An ordinary user with a home; command() gives the words that run something as that user."""

    def __init__(self):
        self.is_made = os.geteuid() == 0
        if self.is_made:
            self.uid, self.home = claim()
        else:
            self.uid, self.home = os.geteuid(), Path(tempfile.mkdtemp(prefix="trainyard-user-", dir="/tmp"))
        self.aside = Path(tempfile.mkdtemp(prefix="trainyard-aside-", dir="/tmp"))

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SAGEMAKER_", "XDG_", "TRAINYARD_"))}
        return kept | {"HOME": str(self.home), "USER": "ordinary", "TRAINYARD_ENVS": str(environments())}

    def command(self, *words, groups=()):
        """`groups`: control groups that the user owns, to start in; root makes and removes them."""
        if not self.is_made:
            return [str(word) for word in words]
        # An /opt without /opt/ml, which jobs of root may have made on this machine.
        opt = ["mount -t tmpfs opt /opt", "mkdir /opt/tool", "echo tool >/opt/tool/name", "ln -s tool /opt/link"]
        delegated = [f"echo $$ >{shlex.quote(str(group))}/cgroup.procs" for group in groups]
        lines = ["set -e", *delegated, *opt, *let_in([environments(), BINARY.parent], self.aside),
                 f'exec setpriv --reuid {self.uid} --regid {self.uid} --clear-groups "$@"']
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines), "sh",
                *(str(word) for word in words)]

    def may_not_run_instances(self):
        """What this machine, or the container that we are in, has against it, in the words of the program."""
        probe = subprocess.run(self.command(BINARY, "instance-probe"), env=self.environment(), capture_output=True, text=True)
        return probe.stderr.strip() if probe.returncode else ""

    def processes(self):
        """What runs as this user; for a made one that is all of this run, and nothing else."""
        found = []
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                text = status.read_text()
            except OSError:
                continue
            if f"\nUid:\t{self.uid}\t" in text and "\nState:\tZ" not in text:
                found.append(int(status.parent.name))
        return found

    def remove(self):
        shutil.rmtree(self.home)
        shutil.rmtree(self.aside)


def own_group(controller):
    """Where this process is in that hierarchy of version 1; None: there is none."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers == controller:
            group = Path("/sys/fs/cgroup") / controller / place.strip("/")
            return group if (group / "cgroup.procs").exists() else None
    return None


@contextlib.contextmanager
def delegated_groups(user, *controllers):
    """A control group of the user's in each of these hierarchies: what systemd's Delegate=yes does."""
    made = []
    for controller in controllers:
        if group := own_group(controller):
            group /= f"ordinary-{os.getpid()}"
            group.mkdir()
            for file in (group, group / "cgroup.procs"):
                os.chown(file, user.uid, user.uid)
            made.append(group)
    try:
        yield made
    finally:
        for group in made:
            wait_for(lambda: not (group / "cgroup.procs").read_text(), 10, f"the end of all in {group}")
            group.rmdir()  # fails when a group of an instance is left in it


class OrdinaryServer(Server):
    """A server of that user, with its state where a newcomer's would be."""

    def __init__(self, user, *flags, config=None, home=".local/share/trainyard", around=(), groups=()):
        """`around`: words of a command that starts the server, such as one that changes settings first."""
        home = user.home / home
        self.user, self.around, self.groups = user, around, groups
        subprocess.run(user.command("mkdir", "-p", "-m", "0700", home), env=user.environment(), check=True)
        super().__init__(home, *flags, config=config)

    def launch(self):
        return subprocess.Popen(
            self.user.command(*self.around, BINARY, "server", "--home", self.home, "--listen", self.listen,
                              *self.flags, groups=self.groups),
            env=self.user.environment(), cwd="/", stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
