#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up JUnit files and prints one closing line: N passed, N failed.

    sum_results.py FOLDER FAILED_STAGES NAMES

A stage that failed without a failed test (a build that breaks, say) counts as one failure. Exits 1
on any failure, and when no test ran at all.
"""
import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def counts(path):
    """(passed, failed, skipped) of one file; a file that cannot be read counts as one failure."""
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError:
        return 0, 1, 0
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    tests, failed, skipped = 0, 0, 0
    for suite in suites:
        number = lambda name: int(suite.get(name) or 0)
        tests += number("tests")
        failed += number("failures") + number("errors")
        skipped += number("skipped") + number("disabled")
    return tests - failed - skipped, failed, skipped


def main():
    folder, failed_stages, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    passed = failed = skipped = 0
    for path in sorted(folder.glob("*.xml")):
        p, f, s = counts(path)
        passed, failed, skipped = passed + p, failed + f, skipped + s
    failed = max(failed, failed_stages)
    if names:
        print(f"Failed stages: {names}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
