#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What may be on the disk after the power went at one moment.

Reads the journal that interpose.cc wrote, and builds a directory from the part of it before that moment.
What a sync covers is there. Of the rest, a state without a seed has nothing at all; one with a seed has some
of it: each write whole, in part (torn at 512 or 4,096 bytes) or not, each new name, rename and removal or not.

    replay.py JOURNAL BASELINE OUT [--at BYTES] [--seed N]

BASELINE holds the files as they were before the first record.
"""
import argparse
import os
import random
import struct
from pathlib import Path

HEAD = struct.Struct("<IIQQQ")
FOUND, CREATE, WRITE, TRUNCATE, RENAME, LINK, UNLINK, MKDIR, RMDIR, SYNC, SYNC_DIR, SYNC_ALL = range(1, 13)
NAMES = (FOUND, CREATE, RENAME, LINK, UNLINK, MKDIR, RMDIR)


class Record:
    __slots__ = ("kind", "file", "offset", "began", "payload", "end")

    def __init__(self, kind, file, offset, began, payload, end):
        self.kind, self.file, self.offset, self.began, self.payload, self.end = kind, file, offset, began, payload, end

    def paths(self):
        return [part.decode() for part in self.payload.split(b"\0")]


def read_journal(path):
    """All records; `end` is where each ends in the journal, by which moments are named."""
    data, at, records = Path(path).read_bytes(), 0, []
    while at + HEAD.size <= len(data):
        kind, size, file, offset, began = HEAD.unpack_from(data, at)
        at += HEAD.size + size
        if at > len(data):
            break
        records.append(Record(kind, file, offset, began, data[at - size:at], at))
    return records


def parent(path):
    return os.path.dirname(path) or "."


class Synced:
    """Up to which record each file and each directory is on disk."""

    def __init__(self, records):
        self.files, self.directories, self.all = {}, {}, 0
        for record in records:
            if record.kind == SYNC:
                self.files[record.file] = max(self.files.get(record.file, 0), record.began)
            elif record.kind == SYNC_DIR:
                path = record.payload.decode()
                self.directories[path] = max(self.directories.get(path, 0), record.began)
            elif record.kind == SYNC_ALL:
                self.all = max(self.all, record.began)

    def covers(self, number, record):
        if number < self.all or record.kind == FOUND:
            return True
        if record.kind in (WRITE, TRUNCATE):
            return number < self.files.get(record.file, 0)
        return any(number < self.directories.get(parent(path), 0) for path in record.paths() if path)


def torn(record, rng):
    """A part of a write: up to a sector's end, or some of its pages."""
    size = len(record.payload)
    if rng.random() < 0.5:
        cut = rng.randrange(0, size + 1) // 512 * 512
        return [(record.offset, record.payload[:cut])]
    pieces, at = [], 0
    while at < size:
        end = min(size, (record.offset + at) // 4096 * 4096 + 4096 - record.offset)
        if rng.random() < 0.5:
            pieces.append((record.offset + at, record.payload[at:end]))
        at = end
    return pieces


class Disk:
    def __init__(self, baseline):
        self.baseline, self.names, self.folders, self.contents = Path(baseline), {}, {"."}, {}

    def has_folder(self, path):
        return path == "." or path in self.folders

    def rename(self, old, new):
        if old in self.names:
            moved = self.names.pop(old)
            if new and self.has_folder(parent(new)):
                self.names[new] = moved
        elif old in self.folders and new:
            def to(path):
                return new + path[len(old):] if path == old or path.startswith(old + "/") else path
            self.folders = {to(path) for path in self.folders}
            self.names = {to(path): file for path, file in self.names.items()}

    def apply(self, record):
        path = record.paths()[0]
        if record.kind == RENAME:
            self.rename(*record.paths())
        elif record.kind == MKDIR and self.has_folder(parent(path)):
            self.folders.add(path)
        elif record.kind in (FOUND, CREATE, LINK) and self.has_folder(parent(path)):
            self.names[path] = record.file
            if record.kind == FOUND:
                self.contents[record.file] = bytearray((self.baseline / path).read_bytes())
        elif record.kind == UNLINK:
            self.names.pop(path, None)
        elif record.kind == RMDIR:
            self.folders.discard(path)

    def write(self, file, offset, data):
        content = self.contents.setdefault(file, bytearray())
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset:offset + len(data)] = data

    def truncate(self, file, size):
        content = self.contents.setdefault(file, bytearray())
        del content[size:]
        content.extend(bytes(size - len(content)))

    def save(self, out):
        out = Path(out)
        out.mkdir(mode=0o700)
        for folder in sorted(self.folders - {"."}):
            (out / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.baseline.rglob("*"):
            target = out / path.relative_to(self.baseline)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(path.read_bytes())
        written = {}
        for path, file in self.names.items():
            if path.endswith("-shm"):  # SQLite makes it anew
                continue
            if file in written:
                (out / path).unlink(missing_ok=True)
                os.link(written[file], out / path)
                continue
            (out / path).write_bytes(self.contents.get(file, b""))
            (out / path).chmod(0o600)
            written[file] = out / path


def build(records, baseline, out, at=None, seed=None, blind_to=()):
    """The state at the moment when the journal had `at` bytes (default: its end). A server that leaves out syncs of
    the kinds `blind_to` would leave the same: whether a test finds that out tells what it is worth."""
    records = [record for record in records if at is None or record.end <= at]
    synced, disk = Synced([record for record in records if record.kind not in blind_to]), Disk(baseline)
    rng = random.Random(seed)
    kept = rng.choice((0.2, 0.5, 0.9))
    for number, record in enumerate(records):
        if record.kind in (SYNC, SYNC_DIR, SYNC_ALL):
            continue
        is_there = synced.covers(number, record)
        if not is_there and (seed is None or rng.random() > kept):
            continue
        if record.kind in NAMES:
            disk.apply(record)
        elif record.kind == TRUNCATE:
            disk.truncate(record.file, record.offset)
        elif is_there or rng.random() < 0.6:
            disk.write(record.file, record.offset, record.payload)
        else:
            for offset, data in torn(record, rng):
                disk.write(record.file, offset, data)
    disk.save(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("journal")
    parser.add_argument("baseline")
    parser.add_argument("out")
    parser.add_argument("--at", type=int)
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    build(read_journal(args.journal), args.baseline, args.out, args.at, args.seed)


if __name__ == "__main__":
    main()
