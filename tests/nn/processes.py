"""Whether processes have ended, for tests that start some."""

import contextlib
import time


def running(pids):
    """Those of the processes that have not ended."""
    alive = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] != "Z":
                alive.append(pid)
    return alive


def gone(pids, seconds=20):
    end = time.monotonic() + seconds
    while running(pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
