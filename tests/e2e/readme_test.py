# SPDX-License-Identifier: Apache-2.0
"""What README.md tells newcomers to type."""
import os
import re
import shutil
import subprocess
import tarfile

import pytest
from conftest import ROOT


def test_what_the_five_minutes_say_trains_on_two_instances(jobs, tmp_path):
    """As it is printed, from the data on."""
    text = (ROOT / "README.md").read_text()
    typed = re.search(r"^mkdir -p my-data .*?^aws s3 cp \S+/model\.tar\.gz \.$", text, re.S | re.M)[0]
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", typed], cwd=tmp_path, env=jobs.server.environment(),
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(tmp_path / "model.tar.gz") as model:
        assert model.getnames() == ["model.pt"]
    losses = [float(line.split()[-1]) for line in jobs.lines("my-first-job", "algo-1") if " loss " in line]
    assert len(losses) == 4 and losses[-1] < losses[0] / 2, losses


@pytest.mark.parametrize("has_own", [False, True], ids=["no-aws", "own-aws"])
def test_yard_env_offers_an_aws_where_there_is_none(server, tmp_path, has_own):
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in os.listdir(folder):
            target = tools / program
            if program not in ("aws", "python") and not target.is_symlink():
                target.symlink_to(os.path.join(folder, program))
    if has_own:
        (tools / "aws").write_text("#!/bin/sh\necho own\n")
        (tools / "aws").chmod(0o755)
    shell = 'exports=$("$0" env) && eval "$exports" && aws --version && command -v aws && echo "$PATH"'
    clean = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME", "TRAINYARD_ENVS") if name in os.environ}
    done = subprocess.run([shutil.which("bash"), "-c", shell, ROOT / "yard"], capture_output=True, text=True,
                          timeout=120, env=clean | {"PATH": str(tools), "TRAINYARD_HOME": str(server.home)})
    assert done.returncode == 0, done.stderr
    version, place, path = done.stdout.splitlines()
    if has_own:
        assert version == "own" and place == str(tools / "aws") and path.endswith(f":{tools}")
    else:
        assert version.startswith("aws-cli/") and place == path.split(":")[-1] + "/aws"
