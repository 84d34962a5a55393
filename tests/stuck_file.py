# SPDX-License-Identifier: Apache-2.0
"""A file that whoever reads it hangs in the kernel, where not even SIGKILL ends him: a FUSE file system
of one file whose server takes every read and answers none (include/uapi/linux/fuse.h). Needs root."""
import contextlib
import ctypes
import errno
import os
import select
import struct
import tempfile
import threading

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 25, 26, 36, 42
MNT_DETACH = 2
SIZE = 4096


def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack("<6Q3I7I", node, SIZE, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, SIZE, 0)


def answer(opcode, node):
    """The body of the answer; a number is an error; nothing: no answer at all."""
    if opcode in (READ, FORGET, BATCH_FORGET, INTERRUPT):
        return None
    if opcode == INIT:
        return struct.pack("<4I2H2I2HI7I", 7, 31, 0, 0, 12, 9, SIZE, 1, 1, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        return struct.pack("<4Q2I", 2, 0, 3600, 3600, 0, 0) + attributes(2)
    if opcode == GETATTR:
        return struct.pack("<Q2I", 3600, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<Q2I", 1, 1, 0)  # direct I/O: every read comes to us
    return b"" if opcode in (FLUSH, RELEASE) else -errno.ENOSYS


def serve(device, over):
    while not over.is_set():
        if not select.select([device], [], [], 0.1)[0]:
            continue
        try:
            request = os.read(device, 1 << 17)
        except OSError:  # unmounted
            return
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        body = answer(opcode, node)
        if body is not None:
            error, body = (body, b"") if isinstance(body, int) else (0, body)
            os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


@contextlib.contextmanager
def stuck_file():
    """The file's path; at the end every reader gets an error, and so comes back from the kernel."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Not below /tmp, which a container does not show.
    with tempfile.TemporaryDirectory(dir="/srv") as folder:
        device, over = os.open("/dev/fuse", os.O_RDWR), threading.Event()
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if libc.mount(b"stuck", folder.encode(), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount a FUSE file system")
        server = threading.Thread(target=serve, args=(device, over))
        server.start()
        try:
            yield f"{folder}/file"
        finally:
            over.set()
            server.join()
            os.close(device)  # ends the connection, and with it whoever waits
            libc.umount2(folder.encode(), MNT_DETACH)
