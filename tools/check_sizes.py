#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files, functions, parameter lists and modules stay small enough to be read.

An exception is a line of tools/sizes_allowed.txt: "<path> <what> <limit> <reason>", where <what> is
a word of LIMITS below. An exception that is not needed any more is a problem as well.

    tools/check_sizes.py [--root DIRECTORY] [FILE...]
"""
import argparse
import pathlib
import re
import subprocess
import sys

LIMITS = {"header": 250, "source": 500, "test": 600, "function": 60, "parameters": 5, "module": 40,
          "line": 100}
CONTROL = re.compile(r"^(if|for|while|switch|do|else|try|catch|return|case|default)\b")
TYPE = re.compile(r"^(inline\s+)?(namespace|class|struct|enum|union|extern)\b")
NOISE = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*(?:.|\n)*?\*/'
                   r"|(?<![0-9a-fA-F])'(?:\\.[^'\n]*|[^'\\\n])'|^[ \t]*#(?:\\\n|[^\n])*", re.M)


def without_noise(text):
    """The text with strings, comments and preprocessor lines blanked, lines kept."""
    return NOISE.sub(lambda m: "\n" * m[0].count("\n") if m[0][0] in "/# \t" else
                     '""' + "\n" * m[0].count("\n"), text)


def parameters_of(head):
    """How many parameters the declaration `head` has, or None if it is no function's."""
    head = re.sub(r"\[\[[^\]]*\]\]|\b(YARD_GUARD|GUARDED_BY)\s*\((?:[^()]|\([^()]*\))*\)|"
                  r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", head)
    head = head.replace("operator()", "operator_call").replace("->", "").strip()
    head = re.sub(r"operator\s*[<>=!+\-*/%&|^~\[\]]+", "operator_", head)
    angle = depth = commas = 0
    start = None
    for at, c in enumerate(head):
        if c == "<":
            angle += 1
        elif c == ">":
            angle = max(0, angle - 1)
        elif c == "=" and start is None and angle == 0:
            return None  # a variable
        elif c in "([{":
            if c == "(" and angle == 0 and depth == 0 and start is None:
                if not re.search(r"\w\s*$", head[:at]):
                    return None
                start = at
            depth += 1
        elif c in ")]}":
            depth -= 1
            if start is not None and depth == 0:
                inside = head[start + 1:at].strip()
                return 0 if inside in ("", "void") else commas + 1
        elif c == "," and start is not None and depth == 1 and angle == 0:
            commas += 1
    return None


def functions_of(text):
    """(line, lines, parameters) of each function; lines is 0 for a declaration without a body."""
    text = without_noise(text)
    stack = []  # "scope", "function" or "other" for each open brace
    heads = []  # (first line, head) of each open function
    head, first, line, rounds = "", 1, 1, 0
    for c in text:
        if c == "\n":
            line += 1
        in_scope = all(kind == "scope" for kind in stack)
        if not in_scope and c not in "{}":
            continue
        if c == "{":
            stripped = re.sub(r"^(template\s*<[^{]*?>\s*)+(?=class|struct|union)", "", head.strip())
            kind = "other"
            if in_scope and rounds == 0 and TYPE.match(stripped) and not (
                    stripped.startswith("struct") and ")" in stripped):
                kind = "scope"
            elif in_scope and rounds == 0 and not CONTROL.match(stripped) and \
                    parameters_of(stripped) is not None and re.search(
                        r"(\)|const|noexcept|override|final|mutable|>|\w|\})\s*$", stripped):
                kind = "function"
                heads.append((first, parameters_of(stripped)))
            stack.append(kind)
            if kind == "scope":
                head = ""
            continue
        if c == "}":
            kind = stack.pop() if stack else "scope"
            if kind == "function":
                start, parameters = heads.pop()
                yield start, line - start + 1, parameters
            if kind == "other" and all(k == "scope" for k in stack):
                head += "{}"  # an initialiser: its statement goes on
            elif kind != "other":
                head = ""
            continue
        rounds += (c == "(") - (c == ")")
        if c == ";" and rounds == 0:
            parameters = parameters_of(head.strip())
            if parameters is not None and not TYPE.match(head.strip()):
                yield first, 0, parameters
            head = ""
        elif head.strip() in ("public:", "private:", "protected:"):
            head = c
            first = line
        else:
            if not head.strip():
                first = line
            head += c


def kind_of(name):
    if name.endswith(".h"):
        return "header"
    return "test" if name.endswith("_test.cc") else "source"


def measure(name, text):
    """(what, size, line) of all that has a limit in one file."""
    lines = text.splitlines()
    yield kind_of(name), len(lines), len(lines)
    for number, line in enumerate(lines, 1):
        yield "line", len(line), number
    for number, length, parameters in functions_of(text):
        yield "function", length, number
        if length or name.endswith(".h"):
            yield "parameters", parameters, number


def read_allowed(path):
    allowed = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.strip() and not line.startswith("#"):
            name, what, limit, reason = line.split(None, 3)
            if what not in LIMITS or not reason:
                sys.exit(f"{path}: not understood: {line}")
            allowed[name, what] = int(limit)
    return allowed


def check(root, names, allowed, whole):
    needed = set()

    def problem(name, what, size, number):
        if size <= LIMITS[what]:
            return None
        needed.add((name, what))
        limit = allowed.get((name, what), LIMITS[what])
        unit = {"parameters": "", "module": " files", "line": " columns"}.get(what, " lines")
        return f"{name}:{number}: {what}: {size}{unit}, limit {limit}" if size > limit else None

    modules = {}
    for name in names:
        text = (root / name).read_text(errors="replace")
        for what, size, number in measure(name, text):
            yield problem(name, what, size, number)
        if name.startswith("src/") and kind_of(name) != "test":
            module = "/".join(name.split("/")[:2])
            modules[module] = modules.get(module, 0) + 1
    for module, count in sorted(modules.items()) if whole else ():
        yield problem(module, "module", count, 1)
    for name, what in sorted(set(allowed) - needed) if whole else ():
        yield f"tools/sizes_allowed.txt: {name} {what}: not needed any more, remove the line"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    root = options.root.resolve()
    names = options.files
    if not names:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.cc",
                                 "*.h"], check=True, capture_output=True, text=True).stdout
        names = sorted({n for n in listed.splitlines() if (root / n).is_file()})
    allowed = read_allowed(root / "tools" / "sizes_allowed.txt")
    problems = [p for p in check(root, names, allowed, not options.files) if p]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
