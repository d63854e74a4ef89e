"""What the profiler costs: time of one operation with and without it, interleaved, for operations from 1 to 100 us."""

import statistics
import time

import cygrad
from cygrad.profiler import profile

SIZES = (10, 1_000, 10_000, 30_000, 100_000, 300_000)
ROUNDS, CALLS = 15, 200


def seconds(x):
    began = time.perf_counter()
    for _ in range(CALLS):
        x.exp()
    return (time.perf_counter() - began) / CALLS


def main():
    cygrad.set_num_threads(1)
    print(f"{'elements':>10}{'plain':>12}{'profiled':>12}{'added':>10}{'share':>9}")
    for size in SIZES:
        x = cygrad.ones(size)
        seconds(x)
        pairs = []
        for _ in range(ROUNDS):
            plain = seconds(x)
            with profile():
                pairs.append((plain, seconds(x)))
        plain = statistics.median(p for p, _ in pairs)
        added = statistics.median(q - p for p, q in pairs)
        line = f"{size:>10}{plain * 1e6:>9.2f} us{(plain + added) * 1e6:>9.2f} us"
        print(f"{line}{added * 1e9:>7.0f} ns{added / plain:>9.1%}")


if __name__ == "__main__":
    main()
