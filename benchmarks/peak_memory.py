"""Peak memory of operations and training steps beside PyTorch's, where that is installed.

``python benchmarks/peak_memory.py``

Each operation runs in a process of its own, once to warm up on small tensors and once on large ones. Printed is by how
much the peak of the resident set grew over what was resident before the call, in MB, with the size of the result. An
operation that makes no temporary needs its result and little more. Of training, the peak of three steps is printed, by
how much it grew over what was resident after the import: parameters, states of the optimizer, and what a step needs
besides.
``--training`` measures this alone. Linux only: the peak is reset through /proc.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.cases import GPT_PARTS, training

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


MODELS = {   # as the training steps of cases.py, large enough that arrays count and not what a library keeps anyway
    "MLP 784-1024-1024-10, batch 512, Adam": """
model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
x, y = torch.randn(512, 784), torch.randint(0, 10, (512,))
optimizer = optim.Adam(model.parameters(), lr=1e-4)""",
    "CNN 3-32-64-10, 64 images of 64 x 64, SGD": """
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                      nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
                      nn.Flatten(), nn.Linear(64 * 16 * 16, 10))
x, y = torch.randn(64, 3, 64, 64), torch.randint(0, 10, (64,))
optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)""",
    "GPT of 4 blocks, width 256, 16 x 128 letters, AdamW": GPT_PARTS + """
model = GPT(65, 256, 8, 4, 128)
x, y = torch.randint(0, 65, (16, 128)), torch.randint(0, 65, (16 * 128,))
optimizer = optim.AdamW(model.parameters(), lr=1e-4)""",
}

TRAINING = """
import sys
sys.path.insert(0, {root!r})
from benchmarks.cases import Case

def status(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key))

Case("memory", "nothing", "", "None").prepared({library!r})(1)
before = status("VmRSS")
Case("memory", {name!r}, {make!r}, "step()").prepared({library!r})(3)
print((status("VmHWM") - before) / 1024)
"""


def measured_training(library, name):
    """Growth of the peak in MB, or None where the library cannot do it."""
    make, _ = training(MODELS[name])
    code = TRAINING.format(root=str(Path(__file__).resolve().parents[1]), library=library, name=name, make=make)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def print_training():
    print("| training step | cygrad's peak | PyTorch's peak | ratio |\n|---|---|---|---|")
    for name in MODELS:
        ours, theirs = measured_training("cygrad", name), measured_training("torch", name)
        cells = [f"{peak:.0f} MB" if peak else "not there" for peak in (ours, theirs)]
        ratio = ours / theirs if ours and theirs else float("nan")
        print(f"| {name} | {cells[0]} | {cells[1]} | {ratio:.2f} |", flush=True)


def measured(library, name):
    """(growth of the peak, size of the result) in MB, or None where the library cannot do it."""
    n, make, call = OPERATIONS[name]
    code = CHILD.format(library=library, make=make, call=call, n=n)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return tuple(map(float, done.stdout.split())) if done.returncode == 0 else None


def main():
    print_training()
    if "--training" in sys.argv[1:]:
        return
    print("| operation | result | cygrad's peak | PyTorch's peak |\n|---|---|---|---|")
    for name in OPERATIONS:
        ours, theirs = measured("cygrad", name), measured("torch", name)
        cells = [f"{pair[0]:.0f} MB" if pair else "not there" for pair in (ours, theirs)]
        size = ours or theirs or (0, 0)
        print(f"| {name} | {size[1]:.0f} MB | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
