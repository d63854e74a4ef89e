"""Loads core, and with it the OpenMP library, after saying how long its waiting threads spin before they sleep.

On a machine with other work, spinning is bad: each loop may wait until the spinning thread gives its core to the one
that is waited for. On an idle machine, sleeping is bad: the system wakes a thread on the core of the one that wakes it,
where the two take turns, and a loop takes as long as on one core. So the load at the time of import decides. Spinning
ends after a millisecond or two at most.

libgomp reads the setting once, when it is loaded; the environment is put back afterwards. OMP_WAIT_POLICY or
GOMP_SPINCOUNT, where set, are left alone.
"""

import os

SPINS = 20_000      # rounds of waiting, some 50 to 100 ns each


def _idle() -> bool:
    """Whether the machine had cores to spare in the last minute."""
    try:
        return os.getloadavg()[0] < 0.75 * (os.cpu_count() or 1)
    except (AttributeError, OSError):
        return False


_ours = not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
if _ours:
    os.environ["GOMP_SPINCOUNT"] = str(SPINS if _idle() else 0)
try:
    from . import core  # noqa: F401
finally:
    if _ours:
        del os.environ["GOMP_SPINCOUNT"]
