# SPDX-License-Identifier: Apache-2.0
"""What ranks give to an operation that they run again and again, and what it must give to each. The values differ
between ranks and between turns, so that a result which is partly reduced, or an earlier one, is seen."""
import struct

FORMATS = {"float32": "=f", "int32": "=i"}
COMBINE = {"sum": sum, "max": max}


def given_by(rank, turn, dtype="float32"):
    """One element; all of a buffer are alike."""
    return struct.pack(FORMATS[dtype], value_of(rank, turn))


def value_of(rank, turn):
    return (rank + 1) * (turn % 97 + 1)  # sums are exact


def result_of(kind, rank, size, turn, count=1, dtype="float32", reduce="sum", root=-1):
    """The bytes that `rank` of `size` must get."""
    combined = struct.pack(FORMATS[dtype], COMBINE[reduce](value_of(one, turn) for one in range(size)))
    if kind == "all_reduce" or (kind == "reduce" and rank == root):
        return combined * count
    if kind == "all_gather":
        return b"".join(given_by(one, turn, dtype) * (count // size) for one in range(size))
    assert kind in ("barrier", "reduce"), f"no result of {kind} is known here"
    return b""


def mistake_in(result, wanted):
    """Where and how the one differs from the other; None when it does not."""
    if result == wanted:
        return None
    at = next((at for at, (one, other) in enumerate(zip(result, wanted)) if one != other), len(wanted))
    wrong = sum(one != other for one, other in zip(result, wanted))
    return (f"byte {at} of {len(wanted)} is the first of {wrong} wrong ones: {result[at:at + 8].hex()} instead of "
            f"{wanted[at:at + 8].hex()}")
