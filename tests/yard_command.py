# SPDX-License-Identifier: Apache-2.0
"""./yard in an environment that knows of no other server than that of one home."""
import os
import subprocess

from conftest import ROOT


def environment(home, **variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TRAINYARD_HOME"))}
    return clean | {"TRAINYARD_HOME": str(home)} | variables


def yard(*arguments, home, folder=None, **variables):
    return subprocess.run([ROOT / "yard", *arguments], capture_output=True, text=True, timeout=120, cwd=folder,
                          env=environment(home, **variables))
