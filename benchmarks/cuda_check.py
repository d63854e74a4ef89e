"""What only a GPU can show, in one run of a few minutes: build, compare with the CPU, train, time the main kernels.

Run it from the checkout on a machine with a GPU, nvcc and Python's headers: ``python benchmarks/cuda_check.py``. It
installs into a folder of its own unless ``--no-build`` says that cygrad is installed with CUDA already. Times are
fractions of what the card copies within its own memory, and stand beside PyTorch's where it can be imported. Ends with
the number of failures.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("storage", "autograd", "nn")


def build(folder):
    """Install the packages with CUDA into `folder`."""
    begun = time.monotonic()
    paths = [str(ROOT / "packages" / name) for name in PACKAGES]
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", folder, *paths]
    subprocess.run(command, env=os.environ | {"CYGRAD_CUDA": "1"}, check=True)
    print(f"build: {time.monotonic() - begun:.0f} s")


# ---- right numbers


def row_problem(cygrad, row, call, results, values):
    """What is wrong with a row on the device: None, a text, or the operation that is lacking."""
    far = [v.cuda() if isinstance(v, cygrad.Tensor) else v for v in values]
    try:
        near = results(call(row)(*values))
    except RuntimeError:
        return None
    try:
        found = results(call(row)(*far))
    except NotImplementedError as error:
        return "lacking: " + str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for a, b in zip(near, found, strict=True):
        if isinstance(a, cygrad.Tensor):
            try:
                cygrad.testing.assert_close(b.cpu(), a, rtol=1e-9, atol=1e-9, equal_nan=True)
            except AssertionError as error:
                return str(error).replace("\n", " ")
    return None


def check_rows(cygrad):
    """Every public row of the op table in float64, dense and strided; returns the number of failures."""
    sys.path.insert(0, str(ROOT / "tests/ops"))
    from row_samples import PUBLIC, call, columns, results

    failures = lacking = 0
    for row in PUBLIC:
        values = [v[1] if isinstance(v, cygrad.Tensor) else v for v in columns(row)]
        strided = [cygrad.stack([v, v], -1)[..., 0] if isinstance(v, cygrad.Tensor) and v.ndim else v for v in values]
        for which in (values, strided):
            problem = row_problem(cygrad, row, call, results, which)
            if problem is not None:
                failures += not problem.startswith("lacking")
                lacking += problem.startswith("lacking")
                print(f"  {row.name}: {problem}")
    print(f"rows: {len(PUBLIC)}, failures {failures}, lacking {lacking}")
    return failures


def network(cygrad):
    nn = cygrad.nn
    cygrad.manual_seed(0)
    layers = nn.Linear(20, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)
    return nn.Sequential(*layers).double()


def losses(cygrad, device):
    """A few steps of training in float64."""
    model = network(cygrad).to(device)
    optimizer = cygrad.optim.Adam(model.parameters(), lr=1e-2)
    generator = cygrad.Generator().manual_seed(1)
    x = cygrad.randn(32, 20, generator=generator, dtype=cygrad.float64).to(device)
    y = cygrad.randint(0, 5, (32,), generator=generator).to(device)
    found = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = cygrad.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def check_training(cygrad):
    near, far = losses(cygrad, "cpu"), losses(cygrad, "cuda")
    worst = max(abs(a - b) for a, b in zip(near, far, strict=True))
    right = worst < 1e-8 and far[-1] < far[0]
    verdict = "right" if right else "WRONG"
    print(f"training: losses {far[0]:.4f} to {far[-1]:.4f}, apart from the CPU's by {worst:.1e}: {verdict}")
    return not right


# ---- times


def seconds(lib, call, repeats=20):
    """The best of repeated calls, on the device's own clock."""
    begin, end = lib.cuda.Event(enable_timing=True), lib.cuda.Event(enable_timing=True)
    for _ in range(3):
        call()
    best = float("inf")
    for _ in range(repeats):
        begin.record()
        call()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / 1e3)
    return best


def launch_seconds(lib, count=2000):
    """One call of a small operation, as the calling thread feels it."""
    x = lib.ones(1, device="cuda")
    best = float("inf")
    for _ in range(5):
        lib.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(count):
            x + x
        best = min(best, (time.perf_counter() - begun) / count)
    return best


def cases(lib, n=1 << 13):
    """name -> (call, bytes that have to move) over a matrix of n x n float32; 256 MB."""
    x, y = lib.ones(n, n, device="cuda"), lib.ones(n, n, device="cuda")
    w, b = lib.ones(n, device="cuda"), lib.zeros(n, device="cuda")
    size = 4 * n * n
    f = lib.nn.functional
    return {
        "copy": (lambda: x.clone(), 2 * size),
        "add": (lambda: x + y, 3 * size),
        "exp": (lambda: x.exp(), 2 * size),
        "add in place": (lambda: x.add_(0), 2 * size),
        "to float16": (lambda: x.half(), size + size // 2),
        "sum": (lambda: x.sum(), size),
        "sum(0)": (lambda: x.sum(0), size),
        "sum(1)": (lambda: x.sum(1), size),
        "softmax": (lambda: x.softmax(1), 2 * size),
        "layer norm": (lambda: f.layer_norm(x, (n,), w, b), 2 * size),
        "transposed copy": (lambda: x.t().contiguous(), 2 * size),
        "transposed add": (lambda: x.t() + y, 3 * size),
    }


def matrix_rates(lib, n=4096):
    """Operations a second of a product, by dtype."""
    found = {}
    for name in ("float32", "float16", "bfloat16"):
        a = lib.ones(n, n, device="cuda", dtype=getattr(lib, name))
        try:
            found[name] = 2 * n**3 / seconds(lib, lambda a=a: a @ a)
        except RuntimeError as error:
            print(f"  matmul {name}: {error}")
    return found


def time_all(lib, other):
    mine, theirs = cases(lib), cases(other) if other else {}
    measured = {}
    copy = mine["copy"][1] / seconds(lib, mine["copy"][0])
    driver = driver_copy(lib)
    print(f"copy bandwidth: {copy / 1e9:.0f} GB/s, the driver's own {driver / 1e9:.0f} GB/s")
    best = max(copy, driver)
    for name, (call, nbytes) in mine.items():
        try:
            measured[name] = seconds(lib, call)
        except (RuntimeError, NotImplementedError) as error:
            print(f"  {name}: {error}")
            continue
        line = f"  {name:<16} {nbytes / measured[name] / best:6.1%} of copy bandwidth"
        print(line + (f", {measured[name] / seconds(other, theirs[name][0]):5.2f} x torch's time" if other else ""))
    rates, their_rates = matrix_rates(lib), matrix_rates(other) if other else {}
    for name, rate in rates.items():
        beside = f", torch {their_rates[name] / 1e12:.1f}" if other else ""
        print(f"  matmul {name:<9} {rate / 1e12:7.1f} Tflop/s{beside}")
    beside = f", torch {launch_seconds(other) * 1e6:.2f}" if other else ""
    print(f"launch: {launch_seconds(lib) * 1e6:.2f} us a call{beside}")


def driver_copy(lib):
    """Bytes a second, both ways counted, of a copy that the driver makes."""
    source = lib.ones(1 << 26, device="cuda")
    target = lib.empty_like(source)
    s, t = source.untyped_storage(), target.untyped_storage()
    return 2 * s.nbytes() / seconds(lib, lambda: t.copy_(s))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="cygrad is installed with CUDA already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not options.no_build:
            build(folder)
            sys.path.insert(0, folder)
        import cygrad
        import cygrad.nn

        print(cygrad.cuda.get_device_properties() if cygrad.cuda.is_available() else cygrad.storage.cuda.why_not())
        cygrad.cuda.init()
        failures = check_rows(cygrad) + check_training(cygrad)
        try:
            import torch
        except ImportError:
            torch = None
        time_all(cygrad, torch)
    print(f"failures: {failures}")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
