# SPDX-License-Identifier: Apache-2.0
"""One rank, as a process: performs the commands that come as lines of JSON, one after another, and answers
each with a line. Times are those of the monotonic clock, which all processes of a machine share.

    rank.py STORE RANK SIZE [NAMESPACE HOST]
"""
import itertools
import json
import os
import signal
import sys
import threading
import time

import yard
from results import given_by, mistake_in, result_of


class WrongResult(Exception):
    code = "WRONG"


class Rank:
    def __init__(self, store, rank, size):
        self.store, self.rank, self.size, self.comm, self.aborted_at = store, rank, size, None, None

    def create(self, **options):
        self.comm = yard.Comm(self.store, options.pop("rank", self.rank), options.pop("size", self.size), **options)

    def become(self, user):
        """Another user from now on, who may not be able to read the library."""
        yard.load()
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    def run(self, kind, abort_after=None, **members):
        """The first 16 bytes of the result in hexadecimal form."""
        self.abort_later(abort_after)
        return self.comm.run(kind, **members)[:16].hex()

    def loop(self, kind, abort_after=None, ahead=0, **members):
        """The operation again and again, until it fails; every result that comes back as done is compared. `ahead`:
        gives what belongs to a later turn, which must be seen."""
        self.abort_later(abort_after)
        dtype = members.get("dtype", "float32")
        for turn in itertools.count():
            result = self.comm.run(kind, given=given_by(self.rank, turn + ahead, dtype), **members)
            if mistake := mistake_in(result, result_of(kind, self.rank, self.size, turn, **members)):
                raise WrongResult(f"{kind} came back as done in turn {turn}, and {mistake}")

    def abort_later(self, seconds):
        def abort():
            self.aborted_at = time.monotonic()
            self.comm.abort("the loss is not a number")

        if seconds is not None:
            threading.Timer(seconds, abort).start()

    def spin(self, seconds):
        """Computes, and looks at nothing else."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    def abort(self, reason):
        self.comm.abort(reason)

    def abort_and_exit(self, reason):
        self.comm.abort(reason)
        os._exit(0)

    def run_and_exit(self, kind, **members):
        try:
            self.comm.run(kind, **members)
        finally:
            os._exit(0)

    def fork(self):
        """A child that does nothing, as an idle worker of a data loader does. Gives its number."""
        child = os.fork()
        if child == 0:
            os.closerange(0, 3)
            signal.alarm(120)
            signal.pause()
            os._exit(0)
        return child

    def free_in_child(self):
        """A child frees what it has of its parent's world, and ends. Gives how."""
        child = os.fork()
        if child == 0:
            self.comm.free()
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def wait_for_fault(self, within):
        end = time.monotonic() + within
        while time.monotonic() < end:
            if fault := self.comm.fault():
                raise fault
            time.sleep(0.005)

    def flight_record(self):
        return self.comm.flight_record()

    def free(self):
        if self.comm is not None:
            self.comm.free()
            self.comm = None


def main():
    store, number, size, *place = sys.argv[1:]
    if place:
        yard.enter(*place)
    rank = Rank(store, int(number), int(size))
    for line in sys.stdin:
        command = json.loads(line)
        answer = {"began": time.monotonic()}
        try:
            answer["value"] = getattr(rank, command.pop("do"))(**command)
        except (yard.YardError, WrongResult) as error:
            answer |= {"code": error.code, "error": str(error), "value": rank.aborted_at}
        print(json.dumps(answer | {"ended": time.monotonic()}), flush=True)
    rank.free()


if __name__ == "__main__":
    main()
