# SPDX-License-Identifier: Apache-2.0
"""What README.md tells newcomers to type."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT


def file_in_readme(name):
    return re.search(rf"cat > {re.escape(name)} <<'EOF'\n(.*?\n)EOF\n", (ROOT / "README.md").read_text(), re.S)[1]


def test_script_of_the_five_minutes_trains_on_two_instances(jobs):
    jobs.s3.put_object(Bucket=jobs.bucket, Key="numbers/n.txt", Body="\n".join(map(str, range(1, 1001))))
    job = jobs.run("readme", file_in_readme("train.py"), instances=2, torchrun=True, seconds=120,
                   hyperparameters={"lr": "0.5"},
                   channels={"training": (f"s3://{jobs.bucket}/numbers/", "FullyReplicated")})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    name = job["TrainingJobName"]
    assert list(jobs.artifact(name)) == ["model.pt"]
    losses = [float(line.split()[-1]) for line in jobs.lines(name, "algo-1") if " loss " in line]
    assert losses[-1] < losses[0] / 2, losses


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
