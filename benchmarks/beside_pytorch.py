"""Time every case of ``cases.py`` on cygrad and on PyTorch, turn by turn: ``python benchmarks/beside_pytorch.py``.

Each library lives in a process of its own, so that two OpenMP runtimes never meet, and only one of the two runs at a
time. The ratio of a case is the median over the rounds of the ratio of two neighbouring samples: absolute times of a
shared machine drift by a factor of two, such ratios by a few hundredths. Below 1, cygrad is faster.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from dataclasses import astuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.cases import CASES, GROUPS, Case

SAMPLE = 0.01      # seconds that a sample takes at least
PAUSE = 0.03       # between turns: OpenMP's threads spin for a while after their work, on the other library's core


def timed(run, n):
    start = time.perf_counter()
    run(n)
    return time.perf_counter() - start


def work(library):
    """The life of a worker: a line gives a case and a number of runs, the answer is how long one took."""
    run, fields = None, None
    for line in sys.stdin:
        wanted, n = json.loads(line)
        if wanted != fields:
            run = None      # what the case before holds goes first
            run, fields = Case(*wanted).prepared(library), wanted
            timed(run, 1)
        if n == 0:      # how many runs make a sample
            n, seconds = 1, timed(run, 1)
            while seconds < SAMPLE:
                n = max(2 * n, int(n * SAMPLE / max(seconds, 1e-9) * 0.5))
                seconds = timed(run, n)
            print(json.dumps(n), flush=True)
        else:
            print(json.dumps(timed(run, n) / n), flush=True)


class Worker:
    def __init__(self, library):
        self.child = subprocess.Popen(
            [sys.executable, __file__, "--worker", library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, case, n):
        time.sleep(PAUSE)
        self.child.stdin.write(json.dumps((astuple(case), n)) + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            raise RuntimeError(f"{case.label}: the worker ended with code {self.child.wait()}")
        return json.loads(answer)


def compared(case, workers, rounds):
    """Median ratio of the case, and each library's shortest time per operation in seconds."""
    counts = [worker.ask(case, 0) for worker in workers]
    samples = []
    for turn in range(rounds):
        order = (0, 1) if turn % 2 else (1, 0)
        found = {k: workers[k].ask(case, counts[k]) / case.per for k in order}
        samples.append((found[0], found[1]))
    return statistics.median(a / b for a, b in samples), *(min(column) for column in zip(*samples, strict=True))


def readable(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose group/name it is found in")
    parser.add_argument("--rounds", type=int, default=15, help="pairs of samples a case (default: 15)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker)
    workers = [Worker("cygrad"), Worker("torch")]
    figures, summary = {}, []
    for group, (what, aim) in GROUPS.items():
        cases = [c for c in CASES if c.group == group and re.search(options.only, c.label)]
        if not cases:
            continue
        print(f"\n### {group}: {what}\n\n| case | cygrad | PyTorch | ratio |\n|---|---|---|---|", flush=True)
        for case in cases:
            ratio, ours, theirs = compared(case, workers, options.rounds)
            figures[case.label] = {"ratio": ratio, "cygrad": ours, "torch": theirs}
            print(f"| {case.name} | {readable(ours)} | {readable(theirs)} | {ratio:.2f} |", flush=True)
        found = {c.name: figures[c.label]["ratio"] for c in cases}
        slowest = max(found, key=found.get)
        middle = statistics.median(found.values())
        summary.append(f"| {group}: {what} | {aim} | {middle:.2f} | {found[slowest]:.2f} ({slowest}) |")
    print("\n### Ratios by group\n\n| group | aim | median | slowest |\n|---|---|---|---|", *summary, sep="\n")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"\nPython {platform.python_version()}, {cpus} CPUs, {platform.machine()}, load {os.getloadavg()[0]:.1f}")
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
