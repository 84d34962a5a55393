# SPDX-License-Identifier: Apache-2.0
"""The last words of the examples, which say how to go on: they are to be true."""
import os
import re
import subprocess


def text_by_the_hint(printed, folder):
    """What the model in the folder writes when its user types what an example has printed, in a shell of their own."""
    command = re.search(r"^  (\S.*/sample\.py.*)$", printed, re.M)[1]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME", "TRAINYARD_ENVS") if name in os.environ}
    done = subprocess.run(["bash", "-c", f"{command} --tokens 5"], cwd=folder, env=kept, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
