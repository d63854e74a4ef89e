"""Peak memory of single operations beside PyTorch's, where that is installed: ``python benchmarks/peak_memory.py``.

Each operation runs in a process of its own, once to warm up on small tensors and once on large ones. Printed is by how
much the peak of the resident set grew over what was resident before the call, in MB, with the size of the result. An
operation that makes no temporary needs its result and little more. Linux only: the peak is reset through /proc.
"""

import subprocess
import sys

OPERATIONS = {  # name: (small and large side of the square inputs, code that makes them, code that is measured)
    "add": (4000, "a, b = t.ones(n, n), t.ones(n, n)", "a + b"),
    "add, transposed": (4000, "a, b = t.ones(n, n).t(), t.ones(n, n)", "a + b"),
    "exp, every second column": (4000, "a = t.ones(n, 2 * n)[:, ::2]", "a.exp()"),
    "sum(0)": (4000, "a = t.ones(n, n)", "a.sum(0)"),
    "sum(1), transposed": (4000, "a = t.ones(n, n).t()", "a.sum(1)"),
    "softmax(1)": (4000, "a = t.ones(n, n)", "t.softmax(a, 1)"),
    "softmax(0)": (4000, "a = t.ones(n, n)", "t.softmax(a, 0)"),
    "a.t() @ b.t()": (2000, "a, b = t.ones(n, n), t.ones(n, n)", "a.t() @ b.t()"),
    "a[mask]": (4000, "a = t.ones(n, n); a[::2] = -1; m = a > 0", "a[m]"),
    "a[mask] = 0": (4000, "a = t.ones(n, n); a[::2] = -1; m = a > 0", "a.__setitem__(m, 0)"),
    "var(1)": (4000, "a = t.ones(n, n)", "a.var(1)"),
    "sort(1)": (4000, "a = t.ones(n, n)", "t.sort(a, 1)"),
    "half add": (4000, "a = t.ones(n, n).half()", "a + a"),
}

CHILD = """
import importlib, sys
t = importlib.import_module({library!r})
t.set_num_threads(2)

def status(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key))

def run(n):
    {make}
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    result = {call}
    parts = [p for p in (result if isinstance(result, tuple) else (result,)) if p is not None]
    return status("VmHWM") - before, sum(p.numel() * p.element_size() for p in parts) // 1024

run(64)
grown, result = run({n})
print(grown / 1024, result / 1024)
"""


def measured(library, name):
    """(growth of the peak, size of the result) in MB, or None where the library cannot do it."""
    n, make, call = OPERATIONS[name]
    code = CHILD.format(library=library, make=make, call=call, n=n)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return tuple(map(float, done.stdout.split())) if done.returncode == 0 else None


def main():
    print("| operation | result | cygrad's peak | PyTorch's peak |\n|---|---|---|---|")
    for name in OPERATIONS:
        ours, theirs = measured("cygrad", name), measured("torch", name)
        cells = [f"{pair[0]:.0f} MB" if pair else "not there" for pair in (ours, theirs)]
        size = ours or theirs or (0, 0)
        print(f"| {name} | {size[1]:.0f} MB | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
