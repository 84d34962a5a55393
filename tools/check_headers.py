#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each of our headers compiles alone: whoever includes it need not know what to include before.

The build itself shows this for x.h when x.cc or x_test.cc includes it first. The others are compiled
here; what compiled once is remembered under build/check/headers by the hash of the header and of all our
headers that it reaches, so that a second run is short.

    tools/check_headers.py [--root DIRECTORY]
"""
import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-DJSON_USE_IMPLICIT_CONVERSIONS=0", "-fsyntax-only",
         "-Wno-pragma-once-outside-header"]
ELSEWHERE = "python/"  # compiled against the headers of the PyTorch that is installed, by tools/torch_backend
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)


def reached(root, name, seen):
    """Adds `name` and all our headers that it includes to `seen`, as {name: content}."""
    if name in seen or not (root / name).is_file():
        return
    seen[name] = (root / name).read_bytes()
    for match in INCLUDE.findall(seen[name]):
        for folder in ("src/", ""):
            reached(root, folder + match.decode(), seen)


def key_of(root, name, compiler):
    seen = {}
    reached(root, name, seen)
    digest = hashlib.sha256(repr((compiler, FLAGS, name)).encode())
    for part in sorted(seen):
        digest.update(part.encode() + b"\0" + seen[part] + b"\0")
    return digest.hexdigest()


def shown_by_build(root, name):
    stem = name[:-len(".h")]
    included = name.removeprefix("src/").encode()
    for source in (root / f"{stem}.cc", root / f"{stem}_test.cc"):
        if source.is_file() and (first := re.search(rb'^\s*#\s*include\s*["<]([^">]+)',
                                                    source.read_bytes(), re.M)):
            if first[1] == included:
                return True
    return False


def compile_alone(root, name):
    command = ["g++", *FLAGS, f"-I{root / 'src'}", f"-I{root}", "-x", "c++-header", name]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    root = parser.parse_args().root.resolve()
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.h"],
                            check=True, capture_output=True, text=True).stdout
    compiler = subprocess.run(["g++", "--version"], check=True, capture_output=True,
                              text=True).stdout
    known = root / "build" / "check" / "headers"
    known.mkdir(parents=True, exist_ok=True)
    names = [name for name in sorted(set(listed.splitlines()))
             if (root / name).is_file() and not name.startswith(ELSEWHERE) and not shown_by_build(root, name)]
    keys = {name: key_of(root, name, compiler) for name in names}
    new = [name for name in keys if not (known / keys[name]).exists()]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, result in zip(new, pool.map(lambda name: compile_alone(root, name), new)):
            if result.returncode == 0:
                (known / keys[name]).touch()
            else:
                failed += 1
                print("\n".join(result.stderr.splitlines()[:12]))
    for stale in set(os.listdir(known)) - set(keys.values()):
        (known / stale).unlink()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
