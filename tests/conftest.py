"""Settings of the whole test run: what is tested is printed first, and random examples are the same in every run."""

import os
import signal

from hypothesis import settings

settings.register_profile("cygrad", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("cygrad")

# A shell starts what runs behind it with Ctrl-C ignored, which children inherit: tests that interrupt one would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config):
    backend = os.environ.get("CYGRAD_TEST_BACKEND", "cygrad")
    if backend != "cygrad":
        return f"tested is {backend}, in place of cygrad"
    isa = os.environ.get("CYGRAD_ISA", "the best this machine has")
    threads = os.environ.get("OMP_NUM_THREADS", "one for each CPU")
    return f"cygrad: instruction set: {isa}; OpenMP threads: {threads}"
