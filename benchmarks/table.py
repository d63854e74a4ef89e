"""Print the table of the README: times of cygrad beside NumPy's, all taken in one process, turn by turn.

On a shared machine absolute times drift by a factor of two, and the ratios of neighbouring runs do not: every row takes
one sample of each library in turn, and shows the smallest of each and their ratio. Run by ``nox -s bench``, or with
``python benchmarks/table.py`` where cygrad is installed.
"""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import backward, gemm, overhead, pointwise, reduce, train

ROUNDS = 25
CHILDREN = 9


def sample(call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def smallest(calls, per_sample):
    """Smallest time of each function, sampled in turn; the first round warms caches and is thrown away."""
    rounds = [[sample(call, per_sample) for call in calls] for _ in range(ROUNDS + 1)]
    return [min(column) for column in zip(*rounds[1:], strict=True)]


def bound(benchmark, method, *parameters):
    """The timed method of an asv benchmark, set up and with its parameters filled in."""
    instance = benchmark()
    instance.setup(*parameters)
    return lambda: getattr(instance, method)(*parameters)


def import_time(library):
    """Seconds from a running interpreter to the imported library, in a process of its own."""
    code = f"import time; t = time.perf_counter(); import {library}; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def rows():
    """Label, time of cygrad and of NumPy in seconds (None where NumPy has no counterpart)."""
    plain, recorded, reference = smallest(
        [bound(overhead.Add, "time_calls", by) for by in ("cygrad", "cygrad recorded", "numpy")], 5
    )
    yield "add, 1 element", plain / overhead.CALLS, reference / overhead.CALLS
    yield "add, 1 element, recorded", recorded / overhead.CALLS, reference / overhead.CALLS
    for label, benchmark, method, *more, per_sample in (
        ("add, 10⁷ floats", pointwise.Large, "time_add", 1),
        ("exp, 10⁷ floats", pointwise.Large, "time_exp", 1),
        ("sum, 10⁷ floats", reduce.Large, "time_sum", 2),
        ("matmul, 512 × 512", gemm.Square, "time_matmul", 512, 5),
        ("digits training step, batch 32", train.Digits, "time_step", 20),
    ):
        calls = [bound(benchmark, method, library, *more) for library in ("cygrad", "numpy")]
        yield label, *smallest(calls, per_sample)
    chain = bound(backward.Chain, "time_backward", "mul")
    yield "backward through 1,000 multiplications", *smallest([chain], 5), None
    times = [(import_time("cygrad"), import_time("numpy")) for _ in range(CHILDREN)]
    yield "import", *map(min, zip(*times, strict=True))


def readable(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def main():
    print("| | cygrad | NumPy | ratio |\n|---|---|---|---|")
    for label, ours, theirs in rows():
        other = f"{readable(theirs)} | {ours / theirs:.2f}" if theirs else "| "
        print(f"| {label} | {readable(ours)} | {other} |", flush=True)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"\nPython {platform.python_version()}, {cpus} CPUs, {platform.machine()}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
