# SPDX-License-Identifier: Apache-2.0
"""The library is told everything: Python's threads may set a variable while it makes a group on another one."""
import subprocess

import yard


def test_the_library_reads_no_environment_variable():
    table = subprocess.run(["nm", "--dynamic", "--undefined-only", yard.LIBRARY], check=True, capture_output=True,
                           text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in table.splitlines()}
    assert "dlopen" in names  # the table is the one meant
    assert not names & {"getenv", "secure_getenv", "environ", "__environ", "setenv", "putenv", "unsetenv"}
