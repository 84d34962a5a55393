#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/sum_results.py over files as ctest and pytest write them."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "sum_results.py"
FAILED = '<testcase classname="a" name="slow"><failure/></testcase>'


def suite(cases, failures=0):
    return (f'<testsuites><testsuite tests="{cases.count("<testcase")}" failures="{failures}">{cases}'
            "</testsuite></testsuites>")


def passing(name):
    return f'<testcase classname="a" name="{name}"/>'


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def add(self, name, text):
        (self.folder / name).write_text(text)

    def sum(self, failed_stages=0, names=""):
        done = subprocess.run([sys.executable, TOOL, self.folder, str(failed_stages), names],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_adds_up(self):
        self.add("unit.xml", suite(passing("x") + passing("y")))
        self.add("check.xml", '<testsuite tests="1" failures="0"/>')
        self.assertEqual(self.sum(), (0, ["3 passed, 0 failed"]))

    def test_no_test_is_no_success(self):
        self.assertEqual(self.sum(), (1, ["0 passed, 0 failed"]))

    def test_a_stage_that_broke_counts(self):
        self.add("unit.xml", suite(passing("x")))
        self.assertEqual(self.sum(1, "build"), (1, ["Failed stages: build", "1 passed, 1 failed"]))

    def test_what_passed_the_second_time_is_named(self):
        self.add("unit.xml", suite(passing("x") + FAILED, failures=1))
        self.add("unit.again.xml", suite(passing("slow")))
        self.assertEqual(self.sum(), (0, ["Unsteady (failed, then passed): a.slow", "2 passed, 0 failed"]))

    def test_what_fails_twice_has_failed(self):
        self.add("unit.xml", suite(passing("x") + FAILED, failures=1))
        self.add("unit.again.xml", suite(FAILED, failures=1))
        self.assertEqual(self.sum(1, "unit"), (1, ["Failed stages: unit", "1 passed, 1 failed"]))

    def test_few_failures_are_worth_a_rerun(self):
        self.add("x.xml", suite(passing("y") + FAILED, failures=1))
        self.assertTrue(self.is_worth_a_rerun("x.xml"))
        self.add("x.xml", suite(passing("y")))
        self.assertFalse(self.is_worth_a_rerun("x.xml"))
        self.add("x.xml", suite(FAILED * 6, failures=6))
        self.assertFalse(self.is_worth_a_rerun("x.xml"))
        self.add("x.xml", "<testsuite")
        self.assertFalse(self.is_worth_a_rerun("x.xml"))

    def test_what_may_be_a_rare_loss_is_not(self):
        hunt = ('<testcase classname="a" name="kills"><properties><property name="at_once" value="yes"/></properties>'
                "<failure/></testcase>")
        drawn = '<testcase classname="comm.Seeds/RandomOperations.X/1" name="comm.Seeds/RandomOperations.X/1"><failure/></testcase>'
        for one in (hunt, drawn):
            self.add("x.xml", suite(FAILED + one, failures=2))
            self.assertFalse(self.is_worth_a_rerun("x.xml"))

    def is_worth_a_rerun(self, name):
        done = subprocess.run([sys.executable, TOOL, "--worth-a-rerun", self.folder / name], capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode == 0

    def test_a_torn_file_is_a_failure(self):
        self.add("unit.xml", "<testsuite")
        self.assertEqual(self.sum(), (1, ["0 passed, 1 failed"]))


if __name__ == "__main__":
    unittest.main()
