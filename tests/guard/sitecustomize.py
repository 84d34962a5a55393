# SPDX-License-Identifier: Apache-2.0
"""Python loads this at its start where it stands on PYTHONPATH: nothing leaves this machine.

Looking up or connecting to anything but this machine fails, and is written to $YARD_GUARD_LOG. SDKs
swallow some of these failures (telemetry), so the tests look at the log.
"""
import os
import sys

HERE = {"127.0.0.1", "::1", "localhost", "", None}


def guard(event, arguments):
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[-1], tuple):
        host = arguments[-1][0]
    else:
        return
    if (host.decode() if isinstance(host, bytes) else host) not in HERE:
        with open(os.environ["YARD_GUARD_LOG"], "a") as log:
            log.write(f"{event} {host}\n")
        raise PermissionError(f"{host} is not this machine")


sys.addaudithook(guard)
