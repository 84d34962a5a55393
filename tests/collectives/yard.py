# SPDX-License-Identifier: Apache-2.0
"""The collectives library through its C face (src/comm/c/yard_comm.h), with nothing but ctypes; and a
rendezvous store in a folder, which ranks of all network namespaces reach."""
import ctypes
import os
import time
import urllib.parse
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARY = Path(os.environ.get("YARD_COMM_LIBRARY", ROOT / "build/release/lib/libyardcomm.so"))
ABI = 6

CODES = ("OK INVALID_ARGUMENT NOT_FOUND ALREADY_EXISTS CONFLICT DENIED EXHAUSTED UNAVAILABLE DEADLINE CANCELLED "
         "CORRUPT UNIMPLEMENTED INTERNAL").split()
DTYPES = "float32 float64 bfloat16 float16 int8 int16 int32 int64 uint8 bool".split()
SIZES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2}
REDUCTIONS = "none sum product min max average and or xor".split()
KINDS = "barrier all_reduce reduce_scatter all_gather broadcast reduce gather scatter all_to_all send receive".split()
# Options that ranks of tests have from their environment, as scripts with PyTorch do.
VARIABLES = {"sockets": b"TRAINYARD_COMM_SOCKETS", "status": b"TRAINYARD_COMM_STATUS",
             "fabric": b"TRAINYARD_COMM_FABRIC", "fabric_filter": b"FI_PROVIDER"}
REDUCING = ("all_reduce", "reduce_scatter", "reduce")

libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype, libc.malloc.argtypes = c_void_p, [c_size_t]


class YardError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = CODES[code]


class StoreFace(ctypes.Structure):
    CLAIM = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t),
                             POINTER(c_void_p))
    WAIT_FOR = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_char_p), c_size_t, c_int64, POINTER(c_void_p),
                                POINTER(c_size_t), POINTER(c_void_p))
    HAS = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(c_int), POINTER(c_void_p))
    _fields_ = [("context", c_void_p), ("claim", CLAIM), ("wait_for", WAIT_FOR), ("has", HAS), ("where", c_char_p)]


class Options(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("rank", c_int32), ("size", c_int32), ("timeout_ms", c_int64),
                ("join_timeout_ms", c_int64), ("interface", c_char_p), ("host", c_char_p), ("sockets", c_char_p),
                ("status", c_char_p), ("transports", c_char_p), ("fabric_filter", c_char_p), ("fabric", c_char_p),
                ("table", c_char_p), ("mesh_scratch", c_uint64), ("mesh_sort", c_uint64), ("sweep_ms", c_int64),
                ("address", c_char_p)]


class Operation(ctypes.Structure):
    _fields_ = [("kind", c_int), ("dtype", c_int), ("reduce", c_int), ("root", c_int32), ("tag", c_uint32),
                ("input", c_void_p), ("input_bytes", c_size_t), ("output", c_void_p), ("output_bytes", c_size_t),
                ("counts", POINTER(c_uint64)), ("counts_size", c_size_t), ("receive_counts", POINTER(c_uint64)),
                ("receive_counts_size", c_size_t), ("timeout_ms", c_int64)]


def load():
    library = ctypes.CDLL(str(LIBRARY))
    assert library.yard_comm_abi() == ABI, f"{LIBRARY} has another ABI than {ABI}"
    library.yard_free.argtypes = library.yard_comm_free.argtypes = [c_void_p]
    library.yard_comm_create.argtypes = [POINTER(Options), POINTER(StoreFace), POINTER(c_void_p), POINTER(c_void_p)]
    library.yard_comm_run.argtypes = [c_void_p, POINTER(Operation), POINTER(c_void_p)]
    library.yard_comm_abort.argtypes = [c_void_p, c_char_p]
    library.yard_comm_fault.argtypes = [c_void_p, POINTER(c_void_p)]
    library.yard_comm_flight_record.argtypes, library.yard_comm_flight_record.restype = [c_void_p], c_void_p
    return library


class FolderStore:
    """Set-once keys, each a file; claims are atomic by link(2)."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def path(self, key):
        return self.folder / urllib.parse.quote(key, safe="")

    def claim(self, key, value):
        made = self.folder / f".{os.getpid()}-{time.monotonic_ns()}"
        made.write_bytes(value)
        try:
            os.link(made, self.path(key))
        except FileExistsError:
            pass
        made.unlink()
        return self.path(key).read_bytes()

    def wait_for(self, keys, seconds):
        """The values, or None when they are not all there in time."""
        end = time.monotonic() + seconds
        while not all(self.has(key) for key in keys):
            if time.monotonic() > end:
                return None
            time.sleep(0.002)
        return [self.path(key).read_bytes() for key in keys]

    def has(self, key):
        return self.path(key).exists()

    def face(self):
        def give(value, place, size=None):
            memory = libc.malloc(len(value) + 1)
            ctypes.memmove(memory, value + b"\0", len(value) + 1)
            place[0] = memory
            if size is not None:
                size[0] = len(value)

        def claim(_, key, value, size, held, held_size, error):
            give(self.claim(key.decode(), ctypes.string_at(value, size)), held, held_size)
            return 0

        def wait_for(_, keys, count, milliseconds, values, sizes, error):
            names = [keys[i].decode() for i in range(count)]
            found = self.wait_for(names, milliseconds / 1000)
            if found is None:
                give(b"not all keys are there in time", error)
                return CODES.index("DEADLINE")
            for i, value in enumerate(found):
                give(value, ctypes.pointer(ctypes.c_void_p.from_address(ctypes.addressof(values.contents) + 8 * i)),
                     ctypes.pointer(c_size_t.from_address(ctypes.addressof(sizes.contents) + 8 * i)))
            return 0

        def has(_, key, is_there, error):
            is_there[0] = int(self.has(key.decode()))
            return 0

        return StoreFace(None, StoreFace.CLAIM(claim), StoreFace.WAIT_FOR(wait_for), StoreFace.HAS(has),
                         str(self.folder).encode())


class Comm:
    """A communicator. `run` blocks, and lets other threads of Python go on."""

    def __init__(self, store, rank, size, name="world", timeout=30.0, join_timeout=20.0, interface="", host="",
                 transports="", address=""):
        self.library, self.rank, self.size, self.handle = load(), rank, size, c_void_p()
        told = {field: os.environb.get(variable) for field, variable in VARIABLES.items()}
        options = Options(name.encode(), rank, size, round(timeout * 1000), round(join_timeout * 1000),
                          interface.encode(), host.encode(), transports=transports.encode(),
                          address=address.encode(), **told)
        face = None if address else byref(FolderStore(store).face())
        self._do(self.library.yard_comm_create, byref(options), face, byref(self.handle))

    def _take(self, text):
        value = ctypes.string_at(text).decode() if text else ""
        self.library.yard_free(text)
        return value

    def _do(self, function, *arguments):
        error = c_void_p()
        code = function(*arguments, byref(error))
        if code != 0:
            raise YardError(code, self._take(error))

    def run(self, kind, count=1, dtype="float32", reduce="sum", root=-1, timeout=0.0, given=b"\1"):
        """One operation of `count` elements as its signature has them, on private memory that holds `given`, a byte
        or an element, again and again; gives the bytes of the result."""
        size = count * SIZES.get(dtype, 1)
        part = size // self.size
        is_root = self.rank == root
        needs = {"barrier": (0, 0), "all_reduce": (0, size), "broadcast": (0, size), "all_gather": (part, size),
                 "reduce_scatter": (size, part), "reduce": (size, size if is_root else 0),
                 "gather": (part, size if is_root else 0), "scatter": (size if is_root else 0, part),
                 "all_to_all": (size, size), "send": (size, 0), "receive": (0, size)}
        source, taken = (ctypes.create_string_buffer(given * (n // len(given)), n) if n else None
                         for n in needs[kind])
        operation = Operation(
            KINDS.index(kind), DTYPES.index(dtype), REDUCTIONS.index(reduce if kind in REDUCING else "none"), root, 0,
            ctypes.cast(source, c_void_p), needs[kind][0], ctypes.cast(taken, c_void_p), needs[kind][1],
            None, 0, None, 0, round(timeout * 1000))
        self._do(self.library.yard_comm_run, self.handle, byref(operation))
        return taken.raw if taken else b""

    def abort(self, reason):
        self.library.yard_comm_abort(self.handle, reason.encode())

    def fault(self):
        """What ended it, or None."""
        try:
            self._do(self.library.yard_comm_fault, self.handle)
        except YardError as error:
            return error
        return None

    def flight_record(self):
        return self._take(self.library.yard_comm_flight_record(self.handle))

    def free(self):
        self.library.yard_comm_free(self.handle)
        self.handle = None


def enter(namespace, host):
    """This process goes into the network namespace of `ip netns`, and calls its machine `host`."""
    with open(f"/run/netns/{namespace}") as file:
        for call in (lambda: libc.setns(file.fileno(), 0x40000000), lambda: libc.unshare(0x04000000),
                     lambda: libc.sethostname(host.encode(), len(host))):
            if call() != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
