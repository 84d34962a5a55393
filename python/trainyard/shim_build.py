# SPDX-License-Identifier: Apache-2.0
"""Finds, or makes, the one compiled file of the backend, for the PyTorch that is installed.

C++ classes of PyTorch have no stable layout: the file (backend.cc) is compiled against the very
version, and named for it, for Python's, for the library's and for its own text. It is looked for in
this package (a wheel may bring it) and in ~/.cache/trainyard/torch-shim, and compiled there once
otherwise, which takes about 20 s and g++ with C++20.

    python -m trainyard.shim_build [FOLDER]     compiles into FOLDER, and prints the file
"""
import ctypes
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

_HERE = Path(__file__).resolve().parent / "torch"
_BUILT = _HERE / "built"
_NAME = "trainyard.torch._shim"
_lock = threading.Lock()
_loaded = None


def _source_tree():
    """The repository, when the package is used from there."""
    root = _HERE.parents[2]
    return root if (root / "src/comm/c/yard_comm.h").is_file() else None


def _header_folder():
    tree = _source_tree()
    return tree / "src/comm/c" if tree else _HERE / "shim"


def _library():
    """libyardcomm.so: of the wheel, or of the tree's build."""
    given = os.environ.get("TRAINYARD_COMM_LIBRARY")
    tree = _source_tree()
    places = [Path(given)] if given else [_HERE.parent / "lib/libyardcomm.so"]
    if tree and not given:
        places.append(tree / "build/release/lib/libyardcomm.so")
    for place in places:
        if place.is_file():
            return place
    raise ImportError(f"trainyard: libyardcomm.so is not at {' or '.join(map(str, places))}: "
                      "build it with `./yard build`, or install the wheel")


def _sources():
    own = {file for file in (_HERE / "shim").glob("*.h") if file.name != "yard_comm.h"}
    return [_HERE / "backend.cc", *sorted(own), _header_folder() / "yard_comm.h"]


def _torch_folder():
    return Path(importlib.util.find_spec("torch").origin).parent


def _torch_version():
    """Without importing torch, for tools: version.py sets plain names."""
    names = {}
    exec((_torch_folder() / "version.py").read_text(), names)
    return f"{names['__version__']} {names.get('git_version', '')}"


def _key():
    text = hashlib.sha256()
    for part in (_torch_version(), sysconfig.get_config_var("SOABI"), platform.machine()):
        text.update(f"{part}\n".encode())
    for source in _sources():
        text.update(source.name.encode() + source.read_bytes())
    return text.hexdigest()[:16]


def _cache():
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "trainyard/torch-shim"


def _command(compiler, target):
    torch = _torch_folder()
    includes = [f"-I{_HERE}", f"-I{_HERE / 'shim'}", f"-I{_header_folder()}"]
    for folder in (torch / "include", torch / "include/torch/csrc/api/include",
                   sysconfig.get_paths()["include"]):
        includes += ["-isystem", str(folder)]
    return [compiler, "-std=c++20", "-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden",
            "-D_GLIBCXX_USE_CXX11_ABI=1", "-DYARD_SHIM_NAME=_shim", *includes,
            str(_HERE / "backend.cc"), "-o", str(target), f"-L{torch / 'lib'}", "-ltorch_python",
            "-ltorch_cpu", "-lc10", "-Wl,--no-as-needed", f"-L{_library().parent}", "-lyardcomm"]


def build(folder):
    """The compiled file for this PyTorch in `folder`, made when it is not there. One process at a
    time; an unfinished one is never seen."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"shim-{_key()}.so"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
        if not compiler:
            raise ImportError(
                f"trainyard: there is no backend compiled for PyTorch {_torch_version().split()[0]}, "
                "and no g++ to compile it: install g++ (12 or newer), or a wheel of trainyard that "
                "was made for this PyTorch")
        headers = sysconfig.get_paths()["include"]
        if not os.path.exists(f"{headers}/Python.h"):
            raise ImportError(f"trainyard: the backend is compiled for PyTorch {_torch_version().split()[0]}, which "
                              f"wants Python's headers in {headers}: install python3-dev (Debian)")
        print(f"trainyard: compiling the backend for PyTorch {_torch_version().split()[0]} (once; it "
              f"is kept in {folder})", file=sys.stderr, flush=True)
        unfinished = target.with_suffix(f".{os.getpid()}")
        done = subprocess.run(_command(compiler, unfinished), capture_output=True, text=True)
        if done.returncode != 0:
            raise ImportError("trainyard: the backend does not compile for PyTorch "
                              f"{_torch_version()}:\n{done.stderr[-4000:]}")
        os.replace(unfinished, target)
    return target


def _compiled():
    """The compiled file for this PyTorch, where there is one."""
    name = f"shim-{_key()}.so"
    return next((folder / name for folder in (_BUILT, _cache()) if (folder / name).is_file()), None)


def is_compiled():
    return _compiled() is not None


def _find():
    return _compiled() or build(_cache())


def shim():
    """The compiled module. ImportError says what is missing."""
    global _loaded
    with _lock:
        if _loaded is None:
            library = _library()
            ctypes.CDLL(str(library))  # found by its name when the module is loaded
            file = str(_find())
            loader = importlib.machinery.ExtensionFileLoader(_NAME, file)
            module = importlib.util.module_from_spec(
                importlib.util.spec_from_file_location(_NAME, file, loader=loader))
            loader.exec_module(module)
            if module.abi != module.header_abi:
                raise ImportError(f"trainyard: {library} has the interface {module.abi}, but the "
                                  f"backend wants {module.header_abi}: install one wheel for both")
            _loaded = module
    return _loaded


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else _cache()))
