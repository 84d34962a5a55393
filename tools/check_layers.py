#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes go down the floors of the architecture, and only where a module's CMakeLists says so.

For each `#include "x/..."` of a module in src/: x must be the module itself or stand in its DEPS;
each of the DEPS must be allowed by the table below; DEPS have no cycle; x/internal/ is x's own.

    tools/check_layers.py [--root DIRECTORY]
"""
import argparse
import pathlib
import re
import sys

# docs: the "may include" column of the architecture's table of modules, lower floors first.
ALLOWED = {
    "base": "",
    "formats": "base",
    "topo": "base",
    "http": "base",
    "sandbox": "base",
    "sql": "base",
    "layout": "base topo",
    "s3": "base formats http sql",
    "api": "base formats",
    "wire": "base formats http",
    "slurm": "base",
    "comm": "base formats topo layout",
    "data": "base formats s3",
    "ckpt": "base formats layout s3 comm",
    "plan": "base topo layout comm",
    "store": "base formats http s3 api",
    "control": "base formats topo sql s3 api wire",
    "instance": "base formats topo http sandbox s3 wire comm ckpt",
    "train": "base formats topo layout s3 comm data ckpt",
    "doctor": "base comm sandbox instance",
    "engine": "base sandbox slurm wire control",
    "cluster": "base formats s3 api wire sandbox slurm comm control",
}
ALLOWED = {module: set(below.split()) for module, below in ALLOWED.items()}
ALLOWED["server"] = set(ALLOWED) - {"train"}
ALLOWED["cli"] = set(ALLOWED) - {"train"}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
KEYWORDS = {"SRCS", "DEPS", "LIBS", "TESTS"}


def deps_of(cmake_lists):
    """{module: set of DEPS} of the add_module() calls in one file's text."""
    text = re.sub(r"#.*", "", cmake_lists)
    modules = {}
    for call in re.findall(r"add_module\(([^)]*)\)", text):
        words = call.split()
        section, deps = "", set()
        for word in words[1:]:
            if word in KEYWORDS:
                section = word
            elif section == "DEPS":
                deps.add(word)
        modules[words[0]] = deps
    return modules


def find_cycle(deps):
    """The modules of one cycle, or None."""
    done, path = set(), []

    def visit(module):
        if module in path:
            return path[path.index(module):] + [module]
        if module in done:
            return None
        path.append(module)
        for below in sorted(deps.get(module, ())):
            if cycle := visit(below):
                return cycle
        path.pop()
        done.add(module)
        return None

    return next((cycle for module in sorted(deps) if (cycle := visit(module))), None)


def check_file(path, name, module, deps, modules):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match or "/" not in match[1]:
            continue
        other, rest = match[1].split("/", 1)
        if other not in modules:
            continue  # testing/, a system header in quotes
        if other != module and other not in deps:
            yield f"{name}:{number}: {module} may not include {other} (not in its DEPS)"
        elif other != module and rest.startswith("internal/"):
            yield f"{name}:{number}: {match[1]} is internal to {other}"


def check(root):
    folders = sorted(p.parent for p in (root / "src").glob("*/CMakeLists.txt"))
    deps = {}
    for folder in folders:
        deps |= deps_of((folder / "CMakeLists.txt").read_text())
    modules = {p.name for p in (root / "src").iterdir() if p.is_dir()} | set(ALLOWED)
    for module in sorted(deps):
        if module not in ALLOWED:
            yield f"src/{module}/CMakeLists.txt:1: {module} is on no floor (tools/check_layers.py)"
            continue
        for other in sorted(deps[module] - ALLOWED[module]):
            yield f"src/{module}/CMakeLists.txt:1: {module} may not depend on {other}"
    if cycle := find_cycle(deps):
        yield f"src/{cycle[0]}/CMakeLists.txt:1: DEPS go round: {' -> '.join(cycle)}"
    for module in sorted(deps):
        for path in sorted((root / "src" / module).rglob("*")):
            if path.suffix in (".h", ".cc", ".ipp"):
                name = path.relative_to(root)
                yield from check_file(path, name, module, deps[module], modules)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    problems = list(check(parser.parse_args().root.resolve()))
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
