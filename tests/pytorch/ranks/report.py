# SPDX-License-Identifier: Apache-2.0
"""How a rank tells the test what happened."""
import json
import os
import sys
import time
import traceback

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])


def tell(case, **facts):
    sys.stdout.write(json.dumps({"case": case, "rank": RANK} | facts) + "\n")
    sys.stdout.flush()


def attempt(case, body):
    """Runs it and tells its problem, if it had one."""
    try:
        body()
        tell(case)
    except Exception:
        tell(case, problem=traceback.format_exc(limit=-4))


def tell_error(case, body):
    """Runs what must fail; tells the error and how long it took to come."""
    start = time.monotonic()
    try:
        body()
        tell(case, problem="there was no error")
    except Exception as error:
        tell(case, kind=type(error).__name__, text=str(error), seconds=time.monotonic() - start)
