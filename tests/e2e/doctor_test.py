# SPDX-License-Identifier: Apache-2.0
"""`trainyard doctor` on the machine of the tests."""
import json
import subprocess

from conftest import BINARY


def doctor(*arguments):
    return subprocess.run([BINARY, "doctor", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def test_its_exit_code_follows_its_verdict(tmp_path):
    done = doctor("--json", "--home", tmp_path)
    answer = json.loads(done.stdout)
    verdicts = {check["check"]: check["verdict"] for check in answer["checks"]}
    assert done.returncode == (1 if answer["verdict"] == "bad" else 0), done.stdout
    assert answer["verdict"] == max(verdicts.values(), key=["ok", "warn", "bad"].index)
    assert {"fabric.library", "efa.device", "network.interfaces", "limits.memlock", "limits.nofile", "limits.shm",
            "sandbox.instances", "clock.sync", "home.disk", "home.sync"} <= set(verdicts)
    assert all(bool(check["remedy"]) == (check["verdict"] != "ok") for check in answer["checks"])
    assert list(tmp_path.iterdir()) == []


def test_what_belongs_to_an_instance_type_is_asked_for(tmp_path):
    done = doctor("--instance-type", "ml.p4d.24xlarge", "--home", tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.startswith("bad")]
    if any(line.split()[1] == "efa.device" for line in lines):  # everywhere but on such an instance
        assert "ml.p4d.24xlarge" in done.stdout
        assert done.returncode == 1


def test_a_home_that_cannot_be_is_bad():
    done = doctor("--home", "/proc/no/such/home")
    assert done.returncode == 1
    assert "bad  home.disk" in done.stdout


def test_wrong_usage_is_said():
    done = doctor("--no-such-flag")
    assert done.returncode == 2
    assert "trainyard doctor: " in done.stderr
