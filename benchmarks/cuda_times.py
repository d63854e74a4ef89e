"""Times on a GPU for cuda_check.py: what the card has, whether anything runs, kernels, launches, a GPT; beside PyTorch.

A figure is the median of several, each of some calls between two events. Before the first event the device is given
work enough that the calls wait for it, not it for the calls: the time of launching through Python is then hidden, and
is measured by itself.
"""

import re
import shutil
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median

AIM_OF_LAUNCH, AIM_OF_STEP = 4e-6, 1.2


def without_cuda(name):
    """Whether PyTorch is not there, or a build for the CPU, by its file of versions: importing it takes seconds."""
    spec = find_spec(name)
    if spec is None or not spec.origin:
        return True
    file = Path(spec.origin).with_name("version.py")
    return file.is_file() and re.search(r"^cuda\b[^=]*=\s*None", file.read_text(), re.MULTILINE) is not None


def load(report):
    """cygrad, and PyTorch where it has a device. cygrad first, so that it finds NVIDIA's libraries by itself."""
    cygrad = import_module("cygrad")
    import_module("cygrad.nn")
    cygrad.cuda.init()
    if without_cuda("torch"):
        return cygrad, None
    try:
        torch = import_module("torch")
        if not torch.cuda.is_available():
            return cygrad, None
    except Exception as error:  # a broken one raises whatever it likes
        if not isinstance(error, ModuleNotFoundError):
            report.say(f"torch is not used: {type(error).__name__}: {error}")
        return cygrad, None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # as it is for cygrad's products
    cygrad.backends.cuda.matmul.allow_tf32 = cygrad.backends.cudnn.allow_tf32 = False
    return cygrad, torch


# ---- the machine


def output(*command):
    if shutil.which(command[0]) is None:
        return f"{command[0]}: not there"
    done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    return "; ".join((done.stdout or done.stderr).strip().splitlines())[:900]


def libraries():
    """Files of cuBLAS, cuDNN and OpenBLAS that this process has loaded."""
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if "/" in line}
    return sorted(f for f in files if any(n in f for n in ("libcublas", "libcudnn.", "openblas", "libcuda.")))


def versions(report):
    report.figure("python", f"Python {sys.version.split()[0]}")
    query = "name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw"
    report.item(
        "nvidia-smi",
        lambda: report.figure("card", output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")),
    )
    report.item("nvcc", lambda: report.figure("nvcc", output("nvcc", "--version").split("; ")[-1]))

    def of_cygrad():
        cygrad = import_module("cygrad")
        report.figure("cygrad", f"cygrad in {cygrad.__path__[0]}: {cygrad.storage.cuda.why_not() or 'CUDA is there'}")
        report.figure("device", str(cygrad.cuda.get_device_properties()))
        free, total = cygrad.cuda.mem_get_info()
        report.figure("memory", f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free", free=free, total=total)

    def of_libraries():
        cygrad = import_module("cygrad")
        x = cygrad.ones(8, 8, device="cuda")
        (x @ x).sum().item()
        cudnn = cygrad.backends.cudnn
        report.figure("cuDNN", f"cuDNN {cudnn.version() if cudnn.is_available() else 'is not found'}")
        report.figure("libraries", ", ".join(libraries()))

    def of_torch():
        _, torch = load(report)
        if torch is None:
            report.skip("no torch with a device")
        found = f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
        report.figure("torch", f"{found}, on {torch.cuda.get_device_name()}")

    report.item("cygrad", of_cygrad, limit=25)
    report.item("libraries", of_libraries, limit=25)
    report.item("torch", of_torch, limit=28)


def smoke(report):
    """One operation of each kind: if the first fails, everything does."""
    cygrad, _ = load(report)
    x = cygrad.arange(12.0).reshape(3, 4)
    f, there = cygrad.nn.functional, lambda: x.cuda()
    image, weight = cygrad.ones(1, 2, 5, 5), cygrad.ones(3, 2, 3, 3)
    calls = {
        "there and back": (lambda: there().cpu().tolist(), x.tolist()),
        "fill": (lambda: cygrad.full((3,), 2.0, device="cuda").tolist(), [2.0] * 3),
        "add": (lambda: (there() + 1).tolist(), (x + 1).tolist()),
        "strided": (lambda: (there().t() * 2).contiguous().tolist(), (x.t() * 2).tolist()),
        "sum": (lambda: there().sum().item(), 66.0),
        "sum(0)": (lambda: there().sum(0).tolist(), x.sum(0).tolist()),
        "softmax": (lambda: round(there().softmax(1).sum().item(), 4), 3.0),
        "layer norm": (lambda: round(f.layer_norm(there(), (4,)).sum().item(), 4), 0.0),
        "cumsum": (lambda: there().cumsum(1).tolist(), x.cumsum(1).tolist()),
        "sort": (lambda: there().sort(1, descending=True)[0].tolist(), x.flip(1).tolist()),
        "index": (lambda: there()[cygrad.tensor([2, 0])].tolist(), x[[2, 0]].tolist()),
        "mask": (lambda: there()[there() > 5].tolist(), x[x > 5].tolist()),
        "random": (lambda: bool((cygrad.rand(9, device="cuda") < 1).all()), True),
        "product": (lambda: (there() @ there().t()).tolist(), (x @ x.t()).tolist()),
        "convolution": (lambda: f.conv2d(image.cuda(), weight.cuda()).sum().item(), 18.0 * 27),
        "stream": (lambda: on_stream(cygrad), 2.0),
        "backward": (lambda: backward(cygrad), [2.0, 2.0]),
    }
    for name, (call, wanted) in calls.items():
        report.item(name, equal, call, wanted)


def equal(call, wanted):
    found = call()
    assert found == wanted, f"{found}, where {wanted} is right"


def on_stream(cygrad):
    stream = cygrad.cuda.Stream()
    with cygrad.cuda.stream(stream):
        x = cygrad.ones((), device="cuda") + 1
    stream.synchronize()
    return x.item()


def backward(cygrad):
    x = cygrad.ones(2, device="cuda", requires_grad=True)
    (x * x).sum().backward()
    return x.grad.tolist()


# ---- measuring


class Clock:
    """Seconds of calls of one library on the device's own clock."""

    def __init__(self, lib, tiny):
        self.lib, self.tiny = lib, tiny
        n = 32 if tiny else 4096
        self.a = lib.randn(n, n, device="cuda")

    def spin(self):
        """Some milliseconds of work, during which the calls that are timed are handed over."""
        try:
            self.a @ self.a
        except RuntimeError:  # without cuBLAS
            for _ in range(2 if self.tiny else 50):
                self.a.sin()

    def once(self, call, count, full=True):
        begin, end = (self.lib.cuda.Event(enable_timing=True) for _ in range(2))
        self.lib.cuda.synchronize()
        if full:
            self.spin()
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    def times(self, call, rounds=3):
        """Several times for one call, after warming up; as many calls each as take some 20 ms."""
        for _ in range(3):
            call()
        count = 2 if self.tiny else max(3, min(20, int(0.02 / max(self.once(call, 2), 1e-7))))
        return [self.once(call, count) for _ in range(rounds)]


def beside(clocks, calls):
    """Median seconds by library, which take turns."""
    found = [[] for _ in clocks]
    for _ in range(2):
        for seen, clock, call in zip(found, clocks, calls, strict=True):
            seen += clock.times(call)
    return [median(seen) for seen in found]


def lines_of_figures(report, clocks, best, cases, aims=True):
    """Time each case, and print what part of the copy bandwidth it reaches.

    A case: functions that make the calls of the libraries, bytes that have to move, aim.
    """

    def one(name, calls, nbytes, aim):
        calls = [make() for make in calls]
        seconds = beside(clocks, calls)
        text, facts = f"{name:<22} {seconds[0] * 1e6:9.1f} us", {"seconds": seconds[0]}
        if nbytes:
            rates = [nbytes / s for s in seconds]
            facts |= {"bytes": nbytes, "rate": rates[0], "fraction": rates[0] / best}
            text += f" {rates[0] / 1e9:7.0f} GB/s, {rates[0] / best:6.1%} of the copy's"
        if aim and aims:
            facts |= {"aim": aim, "met": rates[0] >= aim * best}
            text += f" (aim {aim:.0%})"
        if len(seconds) > 1:
            facts |= {"torch_seconds": seconds[1]}
            text += f"; torch {seconds[1] * 1e6:9.1f} us" + (f", {rates[1] / best:6.1%}" if nbytes else "")
            text += f"; {seconds[0] / seconds[1]:5.2f} x"
        report.figure(name, text, **facts)

    for name, (makes, nbytes, aim) in cases.items():
        report.item(name, one, name, makes, nbytes, aim)


def cases_of(libs, table, *arguments):
    """name -> (functions that make a call of each library, bytes, aim), from a table that one library fills."""
    tables = [table(lib, *arguments) for lib in libs]
    return {name: ([t[name][0] for t in tables], *tables[0][name][1:]) for name in tables[0]}


def kept(call):
    """For a case whose operands are there already."""
    return lambda: call


def copies(report, clocks, n):
    """Bytes a second of a copy within the card's memory, both ways counted: the best that either library gets."""
    best = 0.0
    for clock in clocks:
        x = clock.lib.randn(n, n, device="cuda")
        y = clock.lib.empty_like(x)
        for name, call in (("copy_", lambda x=x, y=y: y.copy_(x)), ("clone", x.clone)):
            rate = 2 * 4 * n * n / median(clock.times(call))
            name = f"{name} of {clock.lib.__name__}"
            report.figure(name, f"{name:<22} {rate / 1e9:7.0f} GB/s", rate=rate)
            best = max(best, rate)
    report.figure("copy bandwidth", f"copy bandwidth: {best / 1e9:.0f} GB/s, of {4 * n * n / 2**20:.4g} MiB", rate=best)
    return best


def main_kernels(lib, n):
    """Those with an aim, over n x n float32."""
    x, y = lib.randn(n, n, device="cuda"), lib.randn(n, n, device="cuda")
    out = lib.empty_like(x)
    w, b = lib.randn(n, device="cuda"), lib.randn(n, device="cuda")
    size, f = 4 * n * n, lib.nn.functional
    return {
        "add": (kept(lambda: lib.add(x, y, out=out)), 3 * size, 0.85),
        "exp": (kept(lambda: lib.exp(x, out=out)), 2 * size, 0.85),
        "add in place": (kept(lambda: out.add_(1)), 2 * size, 0.85),
        "x * 2 + y": (kept(lambda: lib.add(y, x, alpha=2)), 3 * size, 0.85),
        "gelu": (kept(lambda: f.gelu(x)), 2 * size, 0.85),
        "where": (kept(lambda: lib.where(x > 0, x, y)), (1 + 1 / 4 + 1 / 4 + 3) * size, 0.85),
        "a column added": (kept(lambda: x + w[:, None]), 2 * size, 0.85),
        "to float16": (kept(lambda: x.half()), size + size // 2, 0.85),
        "sum": (kept(lambda: x.sum()), size, 0.85),
        "sum(0)": (kept(lambda: x.sum(0)), size, 0.85),
        "sum(1)": (kept(lambda: x.sum(1)), size, 0.85),
        "amax(1)": (kept(lambda: x.amax(1)), size, 0.85),
        "var(1)": (kept(lambda: x.var(1)), size, 0.85),
        "softmax": (kept(lambda: x.softmax(1)), 2 * size, 0.8),
        "log_softmax": (kept(lambda: x.log_softmax(1)), 2 * size, 0.8),
        "layer norm": (kept(lambda: f.layer_norm(x, (n,), w, b)), 2 * size, 0.8),
        "transposed copy": (kept(lambda: out.copy_(x.t())), 2 * size, 0.6),
        "transposed add": (kept(lambda: lib.add(x.t(), y, out=out)), 3 * size, 0.6),
        "permuted copy": (kept(lambda: x.view(n, 8, n // 8).permute(2, 0, 1).contiguous()), 2 * size, 0.6),
    }


def kernels(report):
    cygrad, torch = load(report)
    libs, n = [lib for lib in (cygrad, torch) if lib], report.size
    if not report.tiny:  # two libraries with some matrices each
        while n > 1024 and len(libs) * 6 * 4 * n * n > cygrad.cuda.mem_get_info()[0]:
            n //= 2
    clocks = [Clock(lib, report.tiny) for lib in libs]
    best = report.item("copy bandwidth", copies, report, clocks, n) or copies(report, clocks, n)
    lines_of_figures(report, clocks, best, cases_of(libs, main_kernels, n))
    report.figure("clocks after", output("nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw",
                                         "--format=csv,noheader"))  # fmt: skip


def other_kernels(lib, n):
    """What has no aim of its own: halves, gradients, scans, sorts, indices, random numbers, steps; over n x n."""
    f, size = lib.nn.functional, 4 * n * n
    x = lib.randn(n, n, device="cuda")
    h, g = x.half(), x.bfloat16()
    w, b = lib.randn(n, device="cuda"), lib.randn(n, device="cuda")
    p = x.clone().requires_grad_()
    words = min(50257, n * n // 64)
    table = lib.randn(words, 64, device="cuda", requires_grad=True)
    index = lib.randint(0, words, (n * n // 64,), device="cuda")
    target = lib.randint(0, n, (n,), device="cuda")
    column = lib.randint(0, n, (n, n), device="cuda")
    image = lib.randn(4, 16, n // 8, n // 8, device="cuda")
    pinned = lib.randn(n, n).pin_memory()
    row = x.view(-1)

    def through(function, *leaves):
        """Forward and backward."""

        def make():
            y = function()
            seed = lib.randn(y.shape, device="cuda").to(y.dtype)
            return lambda: lib.autograd.grad(function(), leaves, seed)

        return make

    def optimizer(kind):
        def make():
            parameters = [x.clone().requires_grad_() for _ in range(2)]
            for q in parameters:
                q.grad = x.clone()
            return kind(parameters, lr=1e-3).step

        return make

    return {
        "half add": (kept(lambda: h + h), 3 * size // 2, None),
        "half exp": (kept(lambda: h.exp()), size, None),
        "half sum(1)": (kept(lambda: h.sum(1)), size // 2, None),
        "half softmax": (kept(lambda: h.softmax(1)), size, None),
        "bf16 layer norm": (kept(lambda: f.layer_norm(g, (n,), w.bfloat16(), b.bfloat16())), size, None),
        "bf16 transposed": (kept(lambda: g.t().contiguous()), size, None),
        "cumsum(1)": (kept(lambda: x.cumsum(1)), 2 * size, None),
        "cumsum, one line": (kept(lambda: row.cumsum(0)), 2 * size, None),
        "sort(1)": (kept(lambda: x.sort(1)), 0, None),
        "sort, one line": (kept(lambda: row.sort()), 0, None),
        "topk(8)": (kept(lambda: x.topk(8)), size, None),
        "argmax(1)": (kept(lambda: x.argmax(1)), size, None),
        "gather": (kept(lambda: x.gather(1, column)), 4 * size, None),
        "scatter_add": (kept(lambda: lib.zeros_like(x).scatter_add_(1, column, x)), 0, None),
        "index_select": (kept(lambda: x.index_select(0, target)), 2 * size, None),
        "mask": (kept(lambda: x[x > 0]), 0, None),
        "rand": (kept(lambda: lib.rand(n, n, device="cuda")), size, None),
        "randn": (kept(lambda: lib.randn(n, n, device="cuda")), size, None),
        "dropout": (kept(lambda: f.dropout(x, 0.1)), 2 * size, None),
        "cat": (kept(lambda: lib.cat([x, x], 1)), 4 * size, None),
        "embedding, backward": (through(lambda: f.embedding(index, table), table), 0, None),
        "cross entropy, backward": (through(lambda: f.cross_entropy(p, target), p), 0, None),
        "softmax, backward": (through(lambda: p.softmax(1), p), 7 * size, None),
        "layer norm, backward": (through(lambda: f.layer_norm(p, (n,), w, b), p), 7 * size, None),
        "gelu, backward": (through(lambda: f.gelu(p), p), 7 * size, None),
        "max_pool2d": (kept(lambda: f.max_pool2d(image, 2)), 0, None),
        "batch norm": (kept(lambda: f.batch_norm(image, None, None, training=True)), 0, None),
        "AdamW step": (optimizer(lib.optim.AdamW), 2 * 7 * size, None),
        "SGD step": (optimizer(lib.optim.SGD), 2 * 3 * size, None),
        "to the device, pinned": (kept(lambda: x.copy_(pinned, non_blocking=True)), size, None),
        "to the CPU, pinned": (kept(lambda: pinned.copy_(x, non_blocking=True)), size, None),
    }


def more_kernels(report):
    """A quarter of the elements of the main kernels."""
    cygrad, torch = load(report)
    libs, n = [lib for lib in (cygrad, torch) if lib], max(32, report.size // 2)
    clocks = [Clock(lib, report.tiny) for lib in libs]
    best = copies(report, clocks, n)
    lines_of_figures(report, clocks, best, cases_of(libs, other_kernels, n))


def matrices(report):
    """Operations a second of products by dtype and layout, and of a convolution. TF32 is off for both libraries."""
    cygrad, torch = load(report)
    libs, n = [lib for lib in (cygrad, torch) if lib], max(32, report.size // 2)
    clocks, side = [Clock(lib, report.tiny) for lib in libs], max(4, n // 64)

    def one(name, makes, operations):
        seconds = beside(clocks, [make() for make in makes])
        text = f"{name:<22} {operations / seconds[0] / 1e12:7.1f} Tflop/s"
        text += f"; torch {operations / seconds[1] / 1e12:7.1f}; {seconds[0] / seconds[1]:5.2f} x" if torch else ""
        report.figure(name, text, seconds=seconds, rate=operations / seconds[0])

    def product(lib, name, layout):
        def make():
            a, b = (lib.randn(n, n, device="cuda").to(getattr(lib, name)) for _ in range(2))
            a, b = (a.t() if layout[0] == "t" else a), (b.t() if layout[1] == "t" else b)
            return lambda: a @ b

        return make

    def attention(lib, name):
        def make():
            q, k, v = (lib.randn(8, 12, n // 8, 64, device="cuda").to(getattr(lib, name)) for _ in range(3))
            return lambda: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        return make

    def convolution(lib, name):
        def make():
            x = lib.randn(8, 64, side, side, device="cuda").to(getattr(lib, name))
            w = lib.randn(64, 64, 3, 3, device="cuda").to(getattr(lib, name))
            return lambda: lib.nn.functional.conv2d(x, w, padding=1)

        return make

    for name in ("float32", "float16", "bfloat16", "float64"):
        for layout in ("nn", "nt", "tn") if name == "bfloat16" else ("nn",):
            title = f"product {name} {layout}"
            report.item(title, one, title, [product(lib, name, layout) for lib in libs], 2 * n**3)
    for name in ("float32", "bfloat16"):
        operations = 4 * 8 * 12 * 64 * (n // 8) ** 2
        report.item(f"attention {name}", one, f"attention {name}", [attention(lib, name) for lib in libs], operations)
        operations = 2 * 9 * 64 * 64 * 8 * side**2
        report.item(f"conv2d {name}", one, f"conv2d {name}", [convolution(lib, name) for lib in libs], operations)


# ---- launching, training


def launch(report):
    """Calls of small operations as the calling thread feels them: not waited for, and fewer than the queue holds."""
    cygrad, torch = load(report)
    count = 20 if report.tiny else 500

    def seconds(lib, make):
        call, best = make(lib), float("inf")
        for _ in range(9):
            lib.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(count):
                call()
            best = min(best, (time.perf_counter() - begun) / count)
        return best

    def one(name, make, aim):
        found = seconds(cygrad, make)
        text, facts = f"{name:<22} {found * 1e6:6.2f} us a call", {"seconds": found}
        if aim:
            facts |= {"aim": aim, "met": found <= aim}
            text += f" (aim {aim * 1e6:.0f})"
        if torch:
            facts["torch_seconds"] = seconds(torch, make)
            text += f"; torch {facts['torch_seconds'] * 1e6:6.2f}"
        report.figure(f"launch: {name}", f"launch: {text}", **facts)

    def of_vector(call):
        def make(lib):
            x = lib.ones(8, device="cuda")
            return lambda: call(lib, x)

        return make

    def recorded(lib):
        x = lib.ones(8, device="cuda", requires_grad=True)
        return lambda: x * x

    cases = {
        "x + x": (of_vector(lambda lib, x: x + x), AIM_OF_LAUNCH),
        "x.add_(1)": (of_vector(lambda lib, x: x.add_(1)), AIM_OF_LAUNCH),
        "x * x, recorded": (recorded, None),
        "x.sum()": (of_vector(lambda lib, x: x.sum()), None),
        "x.t(), no launch": (of_vector(lambda lib, x: x.t()), None),
        "empty, no launch": (of_vector(lambda lib, x: lib.empty(8, device="cuda")), None),
        "full": (of_vector(lambda lib, x: lib.full((8,), 2.0, device="cuda")), None),
    }
    for name, (make, aim) in cases.items():
        report.item(name, one, name, make, aim)


SIZES = {  # width, heads, layers, words, length, batch
    "small": (256, 4, 4, 1024, 128, 8),
    "GPT-2 small": (768, 12, 12, 50257, 1024, 8),
    "tiny": (16, 2, 1, 32, 8, 2),
}


def model(lib, width, heads, layers, words, length, batch):
    """A language model as nanoGPT writes it."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            parts = [p.view(b, t, heads, c // heads).transpose(1, 2) for p in self.qkv(self.before(x)).split(width, 2)]
            y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(nn.functional.gelu(self.up(self.after(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens, targets):
            x = self.words(tokens) + self.places(lib.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            x = self.head(self.norm(x))
            return nn.functional.cross_entropy(x.view(-1, words), targets.view(-1))

    return Model()


def trainer(lib, shape, weights, tokens, precision):
    """A function that trains for one step and returns the loss, from given weights."""
    m = model(lib, *shape)
    with lib.no_grad():
        for p, w in zip(m.parameters(), weights, strict=True):
            p.copy_(lib.from_numpy(w))
    m.to("cuda")
    optimizer = lib.optim.AdamW(m.parameters(), lr=1e-4)
    x, y = (lib.from_numpy(t).to("cuda") for t in tokens)

    def step():
        optimizer.zero_grad()
        if precision == "fp32":
            loss = m(x, y)
        else:
            with lib.autocast("cuda", dtype=lib.bfloat16):
                loss = m(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def start_of(lib, shape):
    """Weights and tokens, drawn by NumPy, for the models of both libraries."""
    import numpy as np

    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(tuple(p.shape), dtype=np.float32) * np.float32(0.02) if p.ndim > 1
               else p.detach().numpy().copy() for p in model(lib, *shape).parameters()]  # fmt: skip
    whole = rng.integers(0, shape[3], (shape[5], shape[4] + 1))
    return weights, (np.ascontiguousarray(whole[:, :-1]), np.ascontiguousarray(whole[:, 1:]))


def gpt(report):
    """Steps of training in a row, without waiting for one, by both libraries in turn and from the same weights."""
    cygrad, torch = load(report)
    libs = [lib for lib in (cygrad, torch) if lib]
    clocks = [Clock(lib, report.tiny) for lib in libs]

    def one(title, shape, precision, weights, tokens):
        count = 2 if report.tiny else 20 if shape[0] < 512 else 6
        steps, losses, peaks = [], [], []
        for lib in libs:
            lib.cuda.reset_peak_memory_stats()
            before = lib.cuda.memory_allocated()
            steps.append(trainer(lib, shape, weights, tokens, precision))
            losses.append([steps[-1]().item() for _ in range(3)])
            peaks.append((lib.cuda.max_memory_allocated() - before) / 2**30)
        found = [[] for _ in libs]
        for _ in range(3):
            for clock, step, seen in zip(clocks, steps, found, strict=True):
                seen.append(clock.once(step, count, full=False))
        mine = median(found[0])
        text, facts = f"GPT {title}: {mine * 1e3:.2f} ms a step", {"seconds": found, "losses": losses, "peaks": peaks}
        text += f", {shape[4] * shape[5] / mine:.0f} tokens/s, {peaks[0]:.1f} GiB"
        if torch:
            ratio = mine / median(found[1])
            facts |= {"aim": AIM_OF_STEP, "met": ratio <= AIM_OF_STEP}
            text += f"; torch {median(found[1]) * 1e3:.2f} ms, {peaks[1]:.1f} GiB; {ratio:.2f} x (aim {AIM_OF_STEP})"
        report.figure(f"GPT {title}", text, **facts)
        apart = max(abs(a - b) for a, b in zip(losses[0], losses[-1], strict=True))
        assert apart < (1e-3 if precision == "fp32" else 5e-2), f"losses {losses} of the libraries are apart"

    for size, shape in SIZES.items():
        if (size == "tiny") == report.tiny:
            *rest, batch = shape
            while batch > 1 and rest[0] > 512 and 6 * batch * 2**30 > cygrad.cuda.mem_get_info()[0]:
                batch //= 2  # some 3 GiB for each library and text
            weights, tokens = start_of(cygrad, (*rest, batch))
            for precision in ("fp32", "bf16"):
                title = f"{size} {precision}"
                report.item(title, one, title, (*rest, batch), precision, weights, tokens, limit=40)
            for lib in libs:
                lib.cuda.empty_cache()
