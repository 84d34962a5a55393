# SPDX-License-Identifier: Apache-2.0
"""Finds, in a journal of testing/powerloss, the moments between the two syncs of a put.

A small object's content and the row that names it are synced at the same time (src/s3/directory/index_unconfirmed.cc),
so that the power may go when either of them is on the disk alone.
"""
import re

from replay import CREATE, FOUND, SYNC, WRITE

CONTENT = re.compile(r"objects/data/[0-9a-f]{2}/([0-9a-f]{32})$")
INDEX_LOG = "objects/index.db-wal"


def between_syncs(records):
    """{"row": moments at which a row is on the disk and its content is not, "content": the other way round}."""
    found = {"row": [], "content": []}
    contents, logs = {}, set()  # files: {number: identifier}, numbers
    unsynced, rows, log_synced = {}, {}, 0  # identifiers: written and not synced; the first record that names them
    for number, record in enumerate(records):
        if record.kind in (FOUND, CREATE):
            path = record.paths()[0]
            if match := CONTENT.match(path):
                contents[record.file] = match[1]
            elif path == INDEX_LOG:
                logs.add(record.file)
        elif record.kind == WRITE and record.file in contents:
            unsynced[contents[record.file]] = number
        elif record.kind == WRITE and record.file in logs:
            for identifier in unsynced:
                if identifier not in rows and identifier.encode() in record.payload:
                    rows[identifier] = number
        elif record.kind == SYNC and record.file in contents:
            identifier = contents[record.file]
            if unsynced.get(identifier, record.began) < record.began:
                del unsynced[identifier]
                if rows.get(identifier, -1) >= log_synced:
                    found["content"].append(record.end)
        elif record.kind == SYNC and record.file in logs:
            before, log_synced = log_synced, max(log_synced, record.began)
            if any(before <= rows.get(identifier, -1) < log_synced for identifier in unsynced):
                found["row"].append(record.end)
    return found
