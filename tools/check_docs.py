#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file of the repository that README.md, docs/ or a module's README names in `backticks` exists, and every
test that docs/security.md names does, one at least for each threat.

    check_docs.py [ROOT]
"""
import re
import sys
from pathlib import Path

NAMED = re.compile(r"`((?:src|docs|tools|tests|bench|examples|apps|python|cmake)/[\w./-]*\w/?)`")


def missing(root):
    pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("bench/*.md"), *root.glob("src/*/README.md")]
    for page in pages:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for name in NAMED.findall(line):
                if not (root / name).exists():
                    yield f"{page.relative_to(root)}:{number}: no such file: {name}"

# tests/e2e/x_test.py::test_name, src/m/x_test.cc::Suite.Name, or a fuzz target.
TEST = re.compile(r"`((?:src|tests)/[\w./-]+)::([\w.]+)`|`(testing/fuzz/target_\w+\.cc)`")


def is_test(root, file, name):
    if not (root / file).is_file():
        return False
    form = rf"^def {name}\(" if file.endswith(".py") else r"^TEST(_[FP])?\(" + name.replace(".", r",\s*") + r"\)"
    return re.search(form, (root / file).read_text(), re.MULTILINE) is not None


def untested(root):
    """Of docs/security.md: lines of its tables of threats without a test, and tests that are not there."""
    page, in_table = root / "docs/security.md", False
    for number, line in enumerate(page.read_text().splitlines() if page.exists() else [], 1):
        if line.startswith("| threat |"):
            in_table = True
        elif not line.startswith("|"):
            in_table = False
        elif in_table and not line.startswith("|-"):
            found = TEST.findall(line)
            if not found:
                yield f"docs/security.md:{number}: no test is named for this threat"
            for file, name, target in found:
                if not (is_test(root, file, name) if file else (root / target).is_file()):
                    yield f"docs/security.md:{number}: no such test: {file + '::' + name if file else target}"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = [*missing(root), *untested(root)]
    print("\n".join(found) if found else "docs: every file and test that they name exists")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
