# SPDX-License-Identifier: Apache-2.0
"""One rank, as a process: performs the commands that come as lines of JSON, one after another, and answers
each with a line. Times are those of the monotonic clock, which all processes of a machine share.

    rank.py STORE RANK SIZE [NAMESPACE HOST]
"""
import json
import os
import signal
import sys
import threading
import time

import yard


class Rank:
    def __init__(self, store, rank, size):
        self.store, self.rank, self.size, self.comm = store, rank, size, None

    def create(self, **options):
        self.comm = yard.Comm(self.store, options.pop("rank", self.rank), options.pop("size", self.size), **options)

    def run(self, kind, abort_after=None, **members):
        if abort_after is not None:
            threading.Timer(abort_after, self.comm.abort, ["the loss is not a number"]).start()
        return self.comm.run(kind, **members)

    def loop(self, kind, **members):
        """The operation again and again, until it fails."""
        while True:
            self.comm.run(kind, **members)

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
        except yard.YardError as error:
            answer |= {"code": error.code, "error": str(error)}
        print(json.dumps(answer | {"ended": time.monotonic()}), flush=True)
    rank.free()


if __name__ == "__main__":
    main()
