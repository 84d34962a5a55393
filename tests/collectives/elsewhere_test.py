# SPDX-License-Identifier: Apache-2.0
"""Operations that something else performs, through the C face: what is none is refused, and harms nothing."""
import ctypes
from ctypes import POINTER, byref, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p

import pytest
import yard


class Elsewhere(ctypes.Structure):
    _fields_ = [("kind", c_int), ("dtype", c_int), ("reduce", c_int), ("root", c_int32), ("count", c_uint64),
                ("bytes", c_uint64), ("tag", c_uint32)]


def operation(**members):
    return Elsewhere(**{"kind": yard.KINDS.index("all_reduce"), "dtype": yard.DTYPES.index("float32"),
                        "reduce": yard.REDUCTIONS.index("sum"), "root": -1, "count": 4, "bytes": 16} | members)


class Other(yard.Comm):
    """A communicator of one rank whose operations something else performs."""

    def __init__(self, store):
        super().__init__(store, 0, 1)
        taken = POINTER(Elsewhere)
        self.library.yard_comm_agree.argtypes = [c_void_p, taken, c_int64, POINTER(c_void_p), POINTER(c_void_p)]
        self.library.yard_comm_begin.argtypes = [c_void_p, taken, POINTER(c_uint64), POINTER(c_void_p)]
        self.library.yard_comm_end.argtypes, self.library.yard_comm_end.restype = [c_void_p, c_uint64, taken, c_int], None
        self.library.yard_comm_give_up.argtypes = [c_void_p, c_uint64, taken, c_int64, POINTER(c_void_p)]

    def agree(self, what):
        self._do(self.library.yard_comm_agree, self.handle, byref(what), 1000, byref(c_void_p()))

    def begin(self, what):
        sequence = c_uint64()
        self._do(self.library.yard_comm_begin, self.handle, byref(what), byref(sequence))
        return sequence.value

    def end(self, sequence, what):
        self.library.yard_comm_end(self.handle, sequence, byref(what), 1)

    def give_up(self, sequence, what):
        self._do(self.library.yard_comm_give_up, self.handle, sequence, byref(what), 1000)


@pytest.fixture
def comm(tmp_path, monkeypatch):
    for variable in yard.VARIABLES.values():
        monkeypatch.delenv(variable.decode(), raising=False)
    made = Other(tmp_path)
    yield made
    made.free()


@pytest.mark.parametrize("wrong", [{"kind": -1}, {"kind": 11}, {"dtype": -1}, {"dtype": 10}, {"reduce": -1},
                                   {"reduce": 9}], ids=str)
def test_what_is_no_operation_is_refused_and_ends_nothing(comm, wrong):
    sequence = comm.begin(operation())
    for call in (comm.agree, comm.begin, lambda what: comm.give_up(sequence, what)):
        with pytest.raises(yard.YardError, match="does not know") as refused:
            call(operation(**wrong))
        assert refused.value.code == "INVALID_ARGUMENT"
    comm.end(sequence, operation(**wrong))
    assert '"state":"started"' in comm.flight_record()
    comm.end(sequence, operation())
    assert '"state":"completed"' in comm.flight_record()
    assert comm.fault() is None
    assert comm.begin(operation()) == sequence + 1
