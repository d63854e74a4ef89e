"""What only a GPU can show, in one run of a few minutes: build, compare with the CPU, train, time the main kernels.

Run it from the checkout on a machine with a GPU, nvcc and Python's headers: ``python benchmarks/cuda_check.py``. It
installs into a folder of its own unless ``--no-build`` says that cygrad is installed with CUDA already. Times are
fractions of what the card copies within its own memory, and stand beside PyTorch's where it can be imported. Ends with
the number of failures.

The script itself is tried without a GPU, in a minute, where cygrad was built with ``CYGRAD_CUDA=host``:
``CYGRAD_CUDA_HOST=1 python benchmarks/cuda_check.py --no-build --size 32 --rows '^a'``. Times then mean nothing.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("storage", "autograd", "nn")


def build(folder):
    """Install the packages with CUDA into `folder`; all are built at once, since each waits for one long file."""
    begun, pip = time.monotonic(), [sys.executable, "-m", "pip"]
    wheels, environment = Path(folder, "wheels"), {"CYGRAD_CUDA": "1"} | os.environ
    commands = [[*pip, "wheel", "-q", "--no-deps", "-w", wheels, ROOT / "packages" / name] for name in PACKAGES]
    running = [subprocess.Popen(command, env=environment) for command in commands]
    if sum(process.wait() != 0 for process in running):
        sys.exit("the build failed")
    subprocess.run([*pip, "install", "-q", "--target", folder, *wheels.glob("*.whl")], check=True)
    print(f"build: {time.monotonic() - begun:.0f} s", flush=True)


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


def check_rows(cygrad, pattern):
    """Public rows of the op table in float64, dense and strided; returns the number of failures."""
    sys.path.insert(0, str(ROOT / "tests/ops"))
    from row_samples import PUBLIC, call, columns, results

    failures = lacking = 0
    rows = [row for row in PUBLIC if re.search(pattern, row.name)]
    for row in rows:
        values = [v[1] if isinstance(v, cygrad.Tensor) else v for v in columns(row)]
        strided = [cygrad.stack([v, v], -1)[..., 0] if isinstance(v, cygrad.Tensor) and v.ndim else v for v in values]
        for which in (values, strided):
            problem = row_problem(cygrad, row, call, results, which)
            if problem is not None:
                failures += not problem.startswith("lacking")
                lacking += problem.startswith("lacking")
                print(f"  {row.name}: {problem}")
    print(f"rows: {len(rows)}, failures {failures}, lacking {lacking}", flush=True)
    return failures


def wrong(name, found, right, error):
    """Whether a result is farther from the CPU's in float64 than `error` times its largest element; says so."""
    far = (found.cpu().double() - right).abs().max().item() / max(right.abs().max().item(), 1e-30)
    if not far <= error:
        print(f"  {name}: apart from the CPU's by {far:.1e}, {error:.0e} are allowed")
    return not far <= error


GEOMETRIES = [  # of the image, of the weight, other arguments
    ((4, 8, 30), (6, 4, 3), {"padding": 1, "groups": 2}),
    ((4, 8, 15, 14), (16, 8, 3, 3), {"padding": 1}),
    ((4, 8, 15, 14), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    ((4, 8, 15, 14), (6, 8, 3, 2), {"stride": (2, 1), "dilation": (1, 2)}),
    ((2, 3, 8, 9, 7), (4, 3, 2, 3, 2), {"stride": (1, 2, 1), "padding": 1}),
]


def check_convolutions(cygrad):
    """Results and gradients by cuDNN, where it is, and by patches."""
    cudnn = cygrad.backends.cudnn
    print(f"cuDNN: {cudnn.version() if cudnn.is_available() else 'not found, convolutions are products with patches'}")
    failures = 0
    for name, error in (("float64", 1e-12), ("float32", 1e-5), ("float16", 1e-2), ("bfloat16", 5e-2)):
        dtype = getattr(cygrad, name)
        for image, weight, options in GEOMETRIES:
            values = [cygrad.randn(size, dtype=cygrad.float64).to(dtype) for size in (image, weight, weight[:1])]
            convolve = getattr(cygrad.nn.functional, f"conv{len(image) - 2}d")
            near = [v.clone().double().requires_grad_() for v in values]
            right = convolve(*near, **options)
            right.sum().backward()
            for enabled in (True, False) if cudnn.is_available() else (False,):
                with cudnn.flags(enabled=enabled, allow_tf32=False):
                    far = [v.cuda().requires_grad_() for v in values]
                    found = convolve(*far, **options)
                    found.sum().backward()
                pairs = [(found, right), *((a.grad, b.grad) for a, b in zip(far, near, strict=True))]
                what = f"convolution {image} {weight} {name} {'by cuDNN' if enabled else 'by patches'}"
                failures += sum(wrong(what, a.detach(), b.detach(), error) for a, b in pairs)
    print(f"convolutions: failures {failures}", flush=True)
    return failures


def check_order(cygrad, count):
    """Sorting, scans and sums through equal indices, of many elements."""
    n = min(count, 1 << 20)
    x = cygrad.randn(n)
    values, places = x.cuda().sort(stable=True)
    wanted = x.sort(stable=True)
    failures = int(values.cpu().tolist() != wanted[0].tolist() or places.cpu().tolist() != wanted[1].tolist())
    rows = x.reshape(-1, 64)
    failures += rows.cuda().sort(1, stable=True)[1].tolist() != rows.sort(1, stable=True)[1].tolist()
    failures += wrong("cumsum", x.double().cuda().cumsum(0), x.double().cumsum(0), 1e-10)
    index = cygrad.randint(0, 1000, (n,))
    sums = [cygrad.zeros(1000, device="cuda").index_add_(0, index.cuda(), x.cuda()) for _ in range(2)]
    failures += wrong("index_add", sums[0], cygrad.zeros(1000).double().index_add_(0, index, x.double()), 1e-4)
    failures += sums[0].tolist() != sums[1].tolist()
    print(f"order: failures {failures}", flush=True)
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
    print(f"training: losses {far[0]:.4f} to {far[-1]:.4f}, apart from the CPU's by {worst:.1e}: {verdict}", flush=True)
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


def cases(lib, n):
    """name -> (call, bytes that have to move) over a matrix of n x n float32."""
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


def training_step(lib, n):
    """A step of a GPT of width 256, or smaller: forward, backward, AdamW."""
    nn, width, words, length = lib.nn, min(n, 256), min(n, 1024), min(n, 128)
    layer = {"nhead": 4, "dim_feedforward": 4 * width, "dropout": 0.0, "batch_first": True, "norm_first": True}
    embed, out = nn.Embedding(words, width).to("cuda"), nn.Linear(width, words).to("cuda")
    blocks = [nn.TransformerEncoderLayer(width, **layer).to("cuda") for _ in range(4)]
    parameters = [p for m in (embed, out, *blocks) for p in m.parameters()]
    optimizer = lib.optim.AdamW(parameters, lr=1e-4)
    tokens = lib.arange(8 * length, device="cuda").reshape(8, length) % words
    mask = lib.ones(length, length, device="cuda").triu(1).bool()

    def step():
        optimizer.zero_grad()
        x = embed(tokens)
        for block in blocks:
            x = block(x, src_mask=mask)
        nn.functional.cross_entropy(out(x).reshape(-1, words), tokens.reshape(-1)).backward()
        optimizer.step()

    return step


def matrix_rates(lib, n):
    """Operations a second of a product, by dtype."""
    found = {}
    for name in ("float32", "float16", "bfloat16"):
        a = lib.ones(n, n, device="cuda", dtype=getattr(lib, name))
        try:
            found[name] = 2 * n**3 / seconds(lib, lambda a=a: a @ a)
        except RuntimeError as error:
            print(f"  matmul {name}: {error}")
    return found


def time_all(lib, other, n):
    mine, theirs = cases(lib, n), cases(other, n) if other else {}
    measured = {}
    copy = mine["copy"][1] / seconds(lib, mine["copy"][0])
    driver = driver_copy(lib, n * n)
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
    rates, their_rates = matrix_rates(lib, n // 2), matrix_rates(other, n // 2) if other else {}
    for name, rate in rates.items():
        beside = f", torch {their_rates[name] / 1e12:.1f}" if other else ""
        print(f"  matmul {name:<9} {rate / 1e12:7.1f} Tflop/s{beside}")
    beside = f", torch {launch_seconds(other) * 1e6:.2f}" if other else ""
    print(f"launch: {launch_seconds(lib) * 1e6:.2f} us a call{beside}")
    beside = f", torch {seconds(other, training_step(other, n)) * 1e3:.2f}" if other else ""
    print(f"GPT training step: {seconds(lib, training_step(lib, n)) * 1e3:.2f} ms{beside}")


def driver_copy(lib, count):
    """Bytes a second, both ways counted, of a copy that the driver makes."""
    source = lib.ones(count, device="cuda")
    target = lib.empty_like(source)
    s, t = source.untyped_storage(), target.untyped_storage()
    return 2 * s.nbytes() / seconds(lib, lambda: t.copy_(s))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="cygrad is installed with CUDA already")
    parser.add_argument("--size", type=int, default=1 << 13, help="side of the matrices that are timed; 8192: 256 MB")
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows of the op table whose name has this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not options.no_build:
            build(folder)
            sys.path.insert(0, folder)
        import cygrad
        import cygrad.nn

        print(cygrad.cuda.get_device_properties() if cygrad.cuda.is_available() else cygrad.storage.cuda.why_not())
        cygrad.cuda.init()
        failures = check_rows(cygrad, options.rows) + check_training(cygrad) + check_convolutions(cygrad)
        failures += check_order(cygrad, options.size * options.size)
        try:
            import torch
        except ImportError:
            torch = None
        time_all(cygrad, torch if torch is not None and torch.cuda.is_available() else None, options.size)
    print(f"failures: {failures}")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
