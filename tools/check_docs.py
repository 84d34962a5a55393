#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file of the repository that README.md, docs/ or a module's README names in `backticks` exists, and so does
every verb and flag of ./yard and trainyard that stands in backticks or in a block of code, and every test that
docs/security.md names, one at least for each threat. docs/api.md names the operations that are served, and
docs/security.md the fuzz targets.

    check_docs.py [ROOT]
"""
import json
import re
import sys
from pathlib import Path

NAMED = re.compile(r"`((?:src|docs|tools|tests|bench|examples|apps|python|cmake)/[\w./-]*\w/?)`")


def lines_of(root):
    """All pages line by line: where a line is, its text, and whether it is in a block of code."""
    pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("bench/*.md"), *root.glob("src/*/README.md")]
    for page in pages:
        in_block = False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            in_block ^= line.lstrip().startswith("```")
            yield f"{page.relative_to(root)}:{number}", line, in_block


def missing(root):
    for place, line, _ in lines_of(root):
        for name in NAMED.findall(line):
            if not (root / name).exists():
                yield f"{place}: no such file: {name}"


# Where the verbs of each program stand, each once, and the files that its flags are in.
PROGRAMS = {
    "./yard": ("yard", r"^    ([a-z]+)(?: \| [^)]*)?\) ", ("yard", "tools/*", "bench/*.py")),
    "trainyard": ("src/cli/program.cc", r'^    \{"([a-z]+)", ', ("src/**/*.cc",)),
}
COMMAND = re.compile(r"(?<![\w./-])(\./yard|trainyard) ([a-z]+)\b(?![./-])([^`#;&|]*)")
FLAG = re.compile(r"(?<=[\s\[])--[a-z][a-z-]+")


def unknown_commands(root):
    known = {}
    for program, (table, verb, sources) in PROGRAMS.items():
        if (root / table).exists():
            texts = [file.read_text() for pattern in sources for file in root.glob(pattern) if file.is_file()]
            known[program] = set(re.findall(verb, (root / table).read_text(), re.MULTILINE)), "\n".join(texts)
    for place, line, in_block in lines_of(root):
        for code in [line] if in_block else re.findall(r"`([^`]+)`", line):
            for program, verb, rest in COMMAND.findall(code):
                verbs, text = known.get(program, ({verb}, rest))
                if verb not in verbs:
                    yield f"{place}: no such verb: {program} {verb}"
                for flag in FLAG.findall(rest):
                    if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text):
                        yield f"{place}: no such flag: {program} {verb} {flag}"


# As AWS names them: a verb, and what it is done to.
OPERATION = re.compile(r"\b(?:Add|Create|Delete|Describe|Filter|Get|List|Put|Search|Signal|Simulate|Stop|Update)"
                       r"(?:[A-Z]\w+|\b)")
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


def unnamed(root):
    """Operations and fuzz targets that the code has and their page does not name, or the other way round."""
    page = root / "docs/api.md"
    if page.exists():
        services = {}
        for model in sorted((root / "src/api/model").glob("*_model.json")):
            for name, service in json.loads(model.read_text())["services"].items():
                services.setdefault(name, set()).update(service["operations"])
        told = {name: set(OPERATION.findall(text)) for name, text in
                re.findall(r"^\| `(\w+)` \| ([^|]*) \|$", page.read_text(), re.MULTILINE)}
        for name in sorted(services.keys() | told.keys()):
            if wrong := services.get(name, set()) ^ told.get(name, set()):
                yield f"docs/api.md: {name}: served or named, not both: {', '.join(sorted(wrong))}"
    page = root / "docs/security.md"
    if page.exists():
        targets = {file.stem.removeprefix("target_") for file in (root / "testing/fuzz").glob("target_*.cc")}
        table = page.read_text().partition("| target |")[2].partition("\n\n")[0]
        if wrong := targets ^ set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)):
            yield f"docs/security.md: fuzz targets that are there or named, not both: {', '.join(sorted(wrong))}"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = [*missing(root), *unknown_commands(root), *untested(root), *unnamed(root)]
    print("\n".join(found) if found else "docs: every file, command and test that they name exists")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
