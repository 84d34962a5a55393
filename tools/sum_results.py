#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up JUnit files and prints one closing line: N passed, N failed.

    sum_results.py FOLDER FAILED_STAGES NAMES
    sum_results.py --worth-a-rerun FILE

STAGE.again.xml holds the second run of what failed in STAGE.xml: a test that passed in it counts as
passed, and is named as unsteady. A stage that failed without a failed test (a build that breaks, say)
counts as one failure. Exits 1 on any failure, and when no test ran at all.

With --worth-a-rerun: exits 0 when one to five tests of the file failed, none of which has a verdict that
holds at once. Those draw what they do, or hunt for rare losses: a second run that passes says nothing
about the first. They are pytest's marked `at_once`, and ctest's over random seeds.
"""
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

DRAWN = re.compile("Random|Seeds/")


def suites_of(path):
    """The suites of one file; None for a file that cannot be read."""
    try:
        root = ET.parse(path).getroot()
    except (ET.ParseError, OSError):
        return None
    return [root] if root.tag == "testsuite" else root.findall("testsuite")


def counts(path):
    """(passed, failed, skipped) of one file; a file that cannot be read counts as one failure."""
    suites = suites_of(path)
    if suites is None:
        return 0, 1, 0
    tests, failed, skipped = 0, 0, 0
    for suite in suites:
        number = lambda name: int(suite.get(name) or 0)
        tests += number("tests")
        failed += number("failures") + number("errors")
        skipped += number("skipped") + number("disabled")
    return tests - failed - skipped, failed, skipped


def passed_in(path):
    """The names of the tests that passed in this file."""
    return [
        f"{case.get('classname')}.{case.get('name')}"
        for suite in suites_of(path) or []
        for case in suite.iter("testcase")
        if all(case.find(fault) is None for fault in ("failure", "error", "skipped"))
        and case.get("status", "run") == "run"
    ]


def holds_at_once(case):
    marked = any(one.get("name") == "at_once" for one in case.iter("property"))
    return marked or DRAWN.search(case.get("name") or "") is not None


def is_worth_a_rerun(path):
    failed = [
        case
        for suite in suites_of(path) or []
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return 1 <= len(failed) <= 5 and not any(map(holds_at_once, failed))


def main():
    if sys.argv[1] == "--worth-a-rerun":
        sys.exit(0 if is_worth_a_rerun(Path(sys.argv[2])) else 1)
    folder, failed_stages, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    passed = failed = skipped = 0
    unsteady = []
    for path in sorted(folder.glob("*.xml")):
        if path.name.endswith(".again.xml"):
            steady = passed_in(path)
            unsteady += steady
            passed, failed = passed + len(steady), failed - len(steady)
            continue
        p, f, s = counts(path)
        passed, failed, skipped = passed + p, failed + f, skipped + s
    failed = max(failed, failed_stages)
    if names:
        print(f"Failed stages: {names}")
    for name in unsteady:
        print(f"Unsteady (failed, then passed): {name}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
