# SPDX-License-Identifier: Apache-2.0
"""What a job finds: the wheel, unpacked, and nothing of this tree (ranks/smddp.py)."""
import os
import subprocess

import pytest
from conftest import ROOT


@pytest.fixture(scope="session")
def world(torch, wheel):
    return torch.run("smddp.py", 2, python_path=wheel / "site", SECOND_PORT=torch.free_port(),
                     THIRD_PORT=torch.free_port())


def test_the_same_files_make_the_same_wheel(wheel, tmp_path):
    again = subprocess.run([ROOT / "tools/wheel", tmp_path], check=True, stdout=subprocess.PIPE, text=True)
    (first,) = wheel.glob("*.whl")
    assert (tmp_path / first.name).read_bytes() == first.read_bytes()
    assert again.stdout.strip() == str(tmp_path / first.name)


def test_a_script_as_documented_for_smddp_trains(world):
    world.assert_all_well("documented")
    assert {line["name"] for line in world.of("backend")} == {"smddp"}


def test_a_script_for_the_older_interface_trains(world):
    world.assert_all_well("older")


def test_the_name_of_the_backend_is_enough(world):
    world.assert_all_well("by name alone")


def test_who_has_no_headers_of_python_is_told_what_to_install(torch, wheel, tmp_path):
    script = ("import sysconfig; from pathlib import Path; from trainyard import shim_build; real = sysconfig.get_paths; "
              "sysconfig.get_paths = lambda *given: real(*given) | {'include': '/nowhere'}; "
              f"shim_build.build(Path({str(tmp_path)!r}))")
    done = subprocess.run([torch.python, "-c", script], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(wheel / "site")})
    assert done.returncode == 1
    assert "wants Python's headers in /nowhere: install python3-dev (Debian)" in done.stderr
