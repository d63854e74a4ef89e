"""Loads core, and with it the OpenMP library, so that waiting threads sleep instead of spinning.

On a machine with other work a spinning team makes one loop wait for up to 20 ms; on an idle one a sleeping team costs a
few microseconds a loop, and loops that short are not split. libgomp reads the setting once, when it is loaded; the
environment is put back afterwards. OMP_WAIT_POLICY or GOMP_SPINCOUNT, where set, are left alone.
"""

import os

_ours = not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
if _ours:
    os.environ["GOMP_SPINCOUNT"] = "0"
try:
    from . import core  # noqa: F401
finally:
    if _ours:
        del os.environ["GOMP_SPINCOUNT"]
