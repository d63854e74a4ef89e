"""Settings of the whole test run: what is tested is printed first, and random examples are the same in every run."""

import os

from hypothesis import settings

settings.register_profile("cygrad", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("cygrad")


def pytest_report_header(config):
    import cygrad.storage

    isa = os.environ.get("CYGRAD_ISA", "the best this machine has")
    threads = os.environ.get("OMP_NUM_THREADS", "default")
    return f"cygrad: {os.path.dirname(cygrad.storage.__file__)}, instruction set: {isa}, OpenMP threads: {threads}"
