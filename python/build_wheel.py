# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel `trainyard`: the packages of this folder, the built library, and its C header.

A build backend (PEP 517) that needs nothing: `pip wheel python/` and tools/wheel use it. The same
files give the same bytes.
"""
import base64
import hashlib
import platform
import sys
import tomllib
import zipfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_TREE = _HERE.parent
_LIBRARY = _TREE / "build/release/lib/libyardcomm.so"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of all members


def _packages():
    """{name in the wheel: file}."""
    files = {}
    for package in ("trainyard", "smdistributed"):
        for file in sorted((_HERE / package).rglob("*")):
            if file.is_file() and file.suffix in (".py", ".cc", ".h"):
                files[file.relative_to(_HERE).as_posix()] = file
    files["trainyard/torch/shim/yard_comm.h"] = _TREE / "src/comm/c/yard_comm.h"
    files["trainyard/lib/libyardcomm.so"] = _LIBRARY
    return files


def _metadata(project):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}",
             f"Summary: {project['description']}", f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}"]
    return "\n".join(lines) + "\n"


def _entry_points(project):
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in entries.items()), ""]
    return "\n".join(lines)


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if not _LIBRARY.is_file():
        raise SystemExit(f"{_LIBRARY} is missing: run ./yard build first")
    project = tomllib.loads((_HERE / "pyproject.toml").read_text())["project"]
    stem = f"{project['name']}-{project['version']}"
    tag = f"py3-none-linux_{platform.machine()}"
    members = {name: file.read_bytes() for name, file in _packages().items()}
    info = f"{stem}.dist-info"
    members[f"{info}/METADATA"] = _metadata(project).encode()
    members[f"{info}/entry_points.txt"] = _entry_points(project).encode()
    members[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: trainyard\n"
                                f"Root-Is-Purelib: false\nTag: {tag}\n").encode()
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in members.items())
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{stem}-{tag}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, data in members.items():
            entry = zipfile.ZipInfo(member, _EPOCH)
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


if __name__ == "__main__":
    print(Path(sys.argv[1]) / build_wheel(sys.argv[1]))
