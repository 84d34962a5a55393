#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/attend.sh: what becomes of a command when the shell that attends it gets a signal."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "attend.sh"
SHELL = f"set -euo pipefail; . '{TOOL}'; trap 'echo heard $times' EXIT; listen; "
PATIENCE = 50


class Attend(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, text):
        (self.folder / name).write_text("#!/bin/bash\n" + text)
        (self.folder / name).chmod(0o755)

    def start(self, script):
        # As from a terminal: a run in the background of a script has SIGINT ignored, and so would all it starts.
        self.shell = subprocess.Popen(["bash", "-c", SHELL + script], cwd=self.folder, stdout=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(self.shell.stdout.close)
        self.addCleanup(self.shell.wait)
        self.addCleanup(self.shell.kill)

    def wait_for(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def end(self):
        code = self.shell.wait(PATIENCE)
        return code, self.shell.stdout.read().splitlines()

    def has(self, name):
        return lambda: (self.folder / name).exists()

    def test_gives_the_status_of_what_ends_by_itself(self):
        self.start("attend true; attend bash -c 'exit 3'; echo never")
        self.assertEqual(self.end(), (3, ["heard 0"]))

    def test_ends_the_command_and_all_below_it(self):
        self.program("below", "echo $$ >pid.new; mv pid.new pid; exec sleep 1000")
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            self.start("attend bash -c './below; true'; echo never")
            self.wait_for(self.has("pid"))
            pid = int((self.folder / "pid").read_text())
            (self.folder / "pid").unlink()
            self.shell.send_signal(number)
            self.assertEqual(self.end(), (code, ["heard 1"]))
            self.wait_for(lambda: not os.path.exists(f"/proc/{pid}"))

    def test_counts_signals_at_one_moment_once(self):
        """The second before any of the commands with which the first one is heard."""
        self.start("set -T; trap '[[ ${FUNCNAME[0]-} != hear ]] || ((at++ != n)) || kill -TERM $$' DEBUG; "
                   "for n in {0..9}; do times=0 heard_at=0 at=0; kill -TERM $$; : ; "
                   "[[ $times -eq 1 ]] || { echo $n; break; }; done; trap - DEBUG")
        self.assertEqual(self.end(), (0, ["heard 1"]))

    def test_counts_signals_that_come_together_once(self):
        self.program("patient", "trap 'echo told' TERM; touch ready; until [ -e go ]; do sleep 0.01; done")
        self.start("attend ./patient")
        self.wait_for(self.has("ready"))
        self.shell.send_signal(signal.SIGTERM)
        self.shell.send_signal(signal.SIGINT)
        line = self.shell.stdout.readline()
        (self.folder / "go").touch()
        code, rest = self.end()
        self.assertEqual((line, rest), ("told\n", ["heard 1"]))
        self.assertIn(code, (130, 143))  # of signals that wait, the shell may take either one first

    def test_lets_apt_end_what_it_has_begun(self):
        self.program("apt-get", "trap '' INT; touch ready; until [ -e go ]; do sleep 0.01; done; echo whole")
        self.program("beside", "trap 'touch go; exit' TERM; touch near; while :; do sleep 0.01; done")
        self.start("attend bash -c './beside & ./apt-get; true'")
        self.wait_for(lambda: self.has("ready")() and self.has("near")())
        self.shell.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(), (143, ["whole", "heard 1"]))


if __name__ == "__main__":
    unittest.main()
