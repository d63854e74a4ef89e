"""What programs do with a GPU, for cuda_check.py: random numbers, training, streams, memory, other libraries, tests."""

import io
import math
import os
import random as pythons
import subprocess
import sys
import threading
import time
from importlib import import_module

from cuda_parts import FLOATS, ROOT, Numbers, load
from cuda_times import without_cuda

# ---- random numbers, optimisers, training


def random(report):
    cygrad = load()
    f, n = cygrad.nn.functional, 20_000 if report.tiny else 4_000_003
    there = {"device": "cuda"}

    def near(found, wanted, spread):
        """Within five standard errors."""
        allowed = 5 * spread / math.sqrt(n)
        assert abs(found - wanted) <= allowed, f"{found}, where {wanted} +- {allowed:.1e} is right"

    def uniform():
        for dtype in ("float32", "float64"):
            x = cygrad.rand(n, dtype=getattr(cygrad, dtype), **there)
            assert x.min().item() >= 0 and x.max().item() < 1
            near(x.double().mean().item(), 0.5, 12**-0.5)
            near(x.double().square().mean().item(), 1 / 3, 0.3)
            near((x[1:] * x[:-1]).double().mean().item(), 0.25, 0.3)  # neighbours

    def normal():
        x = cygrad.randn(n, **there).double()
        for power, wanted, spread in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
            near((x**power).mean().item(), wanted, spread)
        assert 3 < x.abs().max().item() < 8

    def seeds():
        def draw(seed):
            cygrad.manual_seed(seed)
            return [
                cygrad.randn(1003, **there).cpu(),
                cygrad.randint(0, 99, (77,), **there).cpu(),
                cygrad.randperm(55, **there).cpu(),
            ]

        assert all(map(cygrad.equal, draw(3), draw(3))) and not cygrad.equal(draw(3)[0], draw(4)[0])
        state = cygrad.cuda.get_rng_state()
        x = cygrad.rand(99, **there)
        cygrad.cuda.set_rng_state(state)
        assert cygrad.equal(x, cygrad.rand(99, **there)) and not cygrad.equal(x, cygrad.rand(99, **there))

    def integers():
        x = cygrad.randint(-3, 9, (n,), **there)
        assert x.min().item() == -3 and x.max().item() == 8
        for count in cygrad.bincount(x + 3).tolist():
            near(count / n, 1 / 12, (11 / 144) ** 0.5)
        order = cygrad.randperm(n, **there)
        assert cygrad.equal(order.sort()[0], cygrad.arange(n, **there))

    def chances():
        for p in (0.1, 0.5):
            x = cygrad.ones(n, **there).requires_grad_()
            y = f.dropout(x, p)
            kept = (y > 0).double().mean().item()
            near(kept, 1 - p, (p * (1 - p)) ** 0.5)
            assert abs(y.max().item() - 1 / (1 - p)) < 1e-6
            (g,) = cygrad.autograd.grad(y.sum(), x)
            assert cygrad.equal(g, y.detach())
        near(cygrad.bernoulli(cygrad.full((n,), 0.3, **there)).mean(dtype=cygrad.float64).item(), 0.3, 0.46)
        near(cygrad.empty(n, **there).exponential_(2.0).double().mean().item(), 0.5, 0.5)
        picked = cygrad.multinomial(cygrad.tensor([1.0, 2.0, 5.0], **there), n, replacement=True)
        near((picked == 2).double().mean().item(), 5 / 8, 0.5)

    for name, call in {
        "uniform": uniform,
        "normal": normal,
        "seeds": seeds,
        "integers": integers,
        "chances": chances,
    }.items():
        report.item(name, call)


def optimizers(report):
    """Some steps over parameters of several sizes, more than one launch takes, beside the CPU."""
    cygrad = load()
    optim = cygrad.optim
    kinds = {
        "SGD": lambda p: optim.SGD(p, lr=0.1),
        "SGD, momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        "Adam": lambda p: optim.Adam(p, lr=0.01),
        "AdamW": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
        "AMSGrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
        "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5),
        "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
        "Adadelta": lambda p: optim.Adadelta(p),
        "Adamax": lambda p: optim.Adamax(p),
        "NAdam": lambda p: optim.NAdam(p),
        "RAdam": lambda p: optim.RAdam(p),
        "Rprop": lambda p: optim.Rprop(p),
    }
    shapes = [(1,), (31,), (9, 7)] * 12 if report.tiny else [(1,), (31,), (257, 129), (4099,)] * 12 + [(1_000_003,)]

    def one(make):
        for dtype in ("float64", "float32"):
            numbers = Numbers(cygrad)
            start = [numbers(*shape, dtype=dtype) for shape in shapes]
            found = {}
            for device in ("cpu", "cuda", "cuda again"):
                parameters = [x.double() if device == "cpu" else x.to("cuda") for x in start]
                parameters = [x.clone().requires_grad_() for x in parameters]
                optimizer = make(parameters)
                for k in range(3):
                    for p in parameters:
                        p.grad = (p.detach() * (k + 1)).sin() + 0.1
                    optimizer.step()
                cygrad.nn.utils.clip_grad_norm_(parameters, 0.5)
                found[device] = [t.detach().cpu() for p in parameters for t in (p, p.grad)]
            assert all(map(cygrad.equal, found["cuda"], found["cuda again"])), f"{dtype}: not the same from run to run"
            for a, b in zip(found["cuda"], found["cpu"], strict=True):
                cygrad.testing.assert_close(
                    a.double(), b, rtol=1e-9 if dtype == "float64" else 1e-3, atol=1e-9 if dtype == "float64" else 1e-4
                )

    for name, make in kinds.items():
        report.item(name, one, make)


def networks(cygrad, tiny):
    """name -> (a function that makes a model, inputs, targets); float64."""
    nn, numbers = cygrad.nn, Numbers(cygrad, 1)
    n = 4 if tiny else 32

    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(17, 16), nn.Linear(16, 17)
            self.blocks = nn.ModuleList(
                [nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=True) for _ in range(2)]
            )

        def forward(self, tokens):
            x = self.words(tokens)
            mask = cygrad.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
            for block in self.blocks:
                x = block(x, src_mask=mask)
            return self.head(x).flatten(0, 1)

    class Series(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.head = nn.LSTM(6, 12, 2, batch_first=True), nn.Linear(12, 5)

        def forward(self, x):
            return self.head(self.steps(x)[0][:, -1])

    def images():
        return nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 5),
        )

    def layers():
        return nn.Sequential(
            nn.Linear(20, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)
        )

    tokens = numbers.whole(n, 13, high=17)
    return {
        "MLP": (layers, numbers(n, 20), numbers.whole(n, high=5)),
        "CNN": (images, numbers(n, 1, 12, 12), numbers.whole(n, high=5)),
        "GPT": (Text, tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()),
        "LSTM": (Series, numbers(n, 9, 6), numbers.whole(n, high=5)),
    }


def training(report):
    """Losses of some steps: in float64 those of the CPU, in float32 and under autocast near them, twice the same."""
    cygrad = load()
    steps = 4 if report.tiny else 20

    def losses(make, x, y, device, mode="float64"):
        cygrad.manual_seed(0)
        model = make().to(device, getattr(cygrad, mode.replace("autocast", "float32")))
        x, y = x.to(device), y.to(device)
        x = x.to(next(model.parameters()).dtype) if x.is_floating_point() else x
        optimizer, scaler = (
            cygrad.optim.AdamW(model.parameters(), lr=1e-2),
            cygrad.amp.GradScaler("cuda", enabled=mode == "autocast"),
        )
        found = []
        for _ in range(steps):
            optimizer.zero_grad()
            with cygrad.autocast("cuda", enabled=mode == "autocast"):
                loss = cygrad.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append(loss.detach())
        return [loss.item() for loss in found]

    def one(make, x, y):
        near = losses(make, x, y, "cpu")
        for mode, allowed in (("float64", 1e-7), ("float32", 2e-2), ("autocast", 1e-1)):
            far, again = (losses(make, x, y, "cuda", mode) for _ in range(2))
            assert far == again, f"{mode}: {far} and {again} in two runs"
            apart = max(abs(a - b) for a, b in zip(near, far, strict=True))
            assert apart < allowed and far[-1] < far[0], f"{mode}: {far}, on the CPU {near}"
            if mode == "float64":
                report.say(f"losses {far[0]:.4f} to {far[-1]:.4f}, apart from the CPU's by {apart:.1e}")

    for name, (make, x, y) in networks(cygrad, report.tiny).items():
        report.item(name, one, make, x, y, limit=45)


# ---- streams, memory, other libraries, threads


def streams(report):
    cygrad = load()
    cuda, n = cygrad.cuda, 1000 if report.tiny else 4_000_000
    side = 16 if report.tiny else 4096

    def work(stream):
        """Some milliseconds of work on a stream, so that what comes next has to wait."""
        with cuda.stream(stream):
            a = cygrad.ones(side, side, device="cuda")
            return a @ a

    def order_of_events():
        s, t = cuda.Stream(), cuda.Stream()
        for k in range(10):
            x, event = cygrad.zeros(n, device="cuda"), cuda.Event()
            s.wait_stream(cuda.current_stream())
            held = work(s)
            with cuda.stream(s):
                x.fill_(k + 1)
                event.record()
            t.wait_event(event)
            with cuda.stream(t):
                total = (x == k + 1).all()
            t.synchronize()
            assert total.item(), "a stream did not wait for an event"
            s.synchronize()
            del held

    def memory_of_streams():
        s = cuda.Stream()
        for _ in range(10):
            x = cygrad.ones(n, device="cuda")
            s.wait_stream(cuda.current_stream())
            held = work(s)
            with cuda.stream(s):
                total = x.sum()
            x.record_stream(s)
            del x
            y = cygrad.full((n,), 5.0, device="cuda")
            s.synchronize()
            assert total.item() == n, "memory was given out again while a stream still read it"
            del y, held

    def pinned():
        s = cuda.Stream()
        for k in range(10):
            source, target = cygrad.full((n,), float(k)).pin_memory(), cygrad.zeros(n).pin_memory()
            assert source.is_pinned()
            held = work(s)
            with cuda.stream(s):
                there = source.to("cuda", non_blocking=True)
                del source
                target.copy_(there * 2, non_blocking=True)
            other = [cygrad.full((n,), -1.0).pin_memory() for _ in range(2)]
            s.synchronize()
            assert bool((target == 2.0 * k).all()), "a copy of page-locked memory was wrong"
            del other, held
        for k in range(20):  # memory that is not, which may be changed at once
            x = cygrad.full((n,), float(k))
            y = x.to("cuda", non_blocking=True)
            x.fill_(-1)
            assert bool((y == k).all().item())

    def backward():
        s = cuda.Stream()
        x = cygrad.full((n,), 2.0, device="cuda", requires_grad=True)
        for k in range(5):
            s.wait_stream(cuda.current_stream())
            held = work(s)
            with cuda.stream(s):
                y = (x * x).exp().log()
            cuda.current_stream().wait_stream(s)
            y.sum().backward()
            assert abs(x.grad.mean().item() - 4 * (k + 1)) < 1e-3
            del held

    def elapsed():
        begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        held = work(cuda.current_stream())
        end.record()
        end.synchronize()
        assert begin.query() and end.query() and 0 <= begin.elapsed_time(end) < 5000
        del held

    def many():
        all_of_them = [cuda.Stream() for _ in range(32)]
        results = []
        for k, s in enumerate(all_of_them):
            with cuda.stream(s):
                results.append((cygrad.arange(n // 10, device="cuda") + k).sum())
        cuda.synchronize()
        assert [r.item() for r in results] == [sum(range(n // 10)) + k * (n // 10) for k in range(32)]

    def side_by_side():
        wrong = []

        def run(k):
            s = cuda.Stream()
            try:
                with cuda.stream(s):
                    for _ in range(5 if report.tiny else 50):
                        x = cygrad.full((4099,), float(k), device="cuda", requires_grad=True)
                        (x * x).sum().backward()
                        if not bool((x.grad == 2 * k).all()):
                            wrong.append(k)
            except Exception as error:
                wrong.append(repr(error))

        threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong, f"{wrong}"

    for name, call in {
        "events": order_of_events,
        "record_stream": memory_of_streams,
        "pinned": pinned,
        "backward": backward,
        "elapsed": elapsed,
        "many": many,
        "threads": side_by_side,
    }.items():
        report.item(name, call)


def memory(report):
    cygrad = load()
    cuda = cygrad.cuda

    def counting():
        cuda.empty_cache()
        before = cuda.memory_allocated()
        x = cygrad.empty(1000, device="cuda")
        assert cuda.memory_allocated() - before == 4096 and cuda.max_memory_allocated() >= before + 4096
        place = x.data_ptr()
        del x
        assert cuda.memory_allocated() == before and cygrad.empty(1000, device="cuda").data_ptr() == place
        cuda.empty_cache()

    def refused():
        try:
            cygrad.empty(1 << 50, dtype=cygrad.uint8, device="cuda")
        except cuda.OutOfMemoryError as error:
            assert "Tried to allocate" in str(error) and "free" in str(error), str(error)
        else:
            raise AssertionError("a PiB was allocated")
        assert cygrad.ones(3, device="cuda").sum().item() == 3

    def filled():
        """Blocks until there is no more, with what else uses the card; then all is there again."""
        cuda.empty_cache()
        share = 0.0012 if report.tiny else 0.01
        cuda.set_per_process_memory_fraction(share)
        blocks, size = [], int(cuda.mem_get_info()[1] * share / 7)
        try:
            for _ in range(20):
                blocks.append(cygrad.full((size,), len(blocks), dtype=cygrad.uint8, device="cuda"))
            raise AssertionError("the limit was passed")
        except cuda.OutOfMemoryError:
            assert 4 <= len(blocks) <= 7, f"{len(blocks)} blocks of a seventh"
            assert all(int(b[-1]) == k for k, b in enumerate(blocks))
            del blocks[::2]
            assert cygrad.full((size,), 9, dtype=cygrad.uint8, device="cuda")[-1].item() == 9
        finally:
            blocks.clear()
            cuda.set_per_process_memory_fraction(1.0)
        cuda.empty_cache()

    def mixed():
        """Blocks of all sizes come and go; none may change another."""
        generator, kept = pythons.Random(0), {}
        streams_of = [cuda.default_stream(), cuda.Stream(), cuda.Stream()]
        before = cuda.memory_allocated()
        for k in range(100 if report.tiny else 3000):
            if kept and generator.random() < 0.5:
                key = generator.choice(list(kept))
                value, x = kept.pop(key)
                assert x[0].item() == x[-1].item() == value
                del x
            with cuda.stream(generator.choice(streams_of)) as _:
                size = int(2 ** generator.uniform(0, 10 if report.tiny else 22))
                x = cygrad.full((size,), float(k), device="cuda")
                cuda.current_stream().synchronize()
            kept[k] = float(k), x
            del x
        assert all(x[0].item() == x[-1].item() == value for value, x in kept.values())
        kept.clear()
        assert cuda.memory_allocated() == before

    for name, call in {"counting": counting, "refused": refused, "filled": filled, "mixed": mixed}.items():
        report.item(name, call)


def sharing(report):
    """DLPack with PyTorch, CuPy and NumPy; page-locked memory in a loader; pickles."""
    cygrad = load()

    def torch_there():
        if without_cuda("torch"):
            report.skip("no torch with CUDA")
        try:
            torch = import_module("torch")
        except Exception as error:
            report.skip(f"no torch: {type(error).__name__}")
        if not torch.cuda.is_available():
            report.skip("torch has no device")
        return torch

    def with_torch():
        torch = torch_there()
        for dtype in (*FLOATS, "int64", "uint8", "bool", "complex64"):
            x = torch.arange(24, device="cuda").reshape(4, 6).to(getattr(torch, dtype))
            for view in (x, x.t(), x[1:, ::2]):
                y = cygrad.from_dlpack(view)
                assert y.data_ptr() == view.data_ptr() and y.tolist() == view.tolist(), dtype
                back = torch.from_dlpack(y)
                assert back.data_ptr() == view.data_ptr() and torch.equal(back, view), dtype
        x = cygrad.zeros(5, device="cuda")
        torch.from_dlpack(x).fill_(3)
        torch.cuda.synchronize()
        assert x.tolist() == [3] * 5

    def over_streams():
        """Each side's stream waits for the other's."""
        torch = torch_there()
        n = 4_000_000
        for k in range(20):
            theirs, ours = torch.cuda.Stream(), cygrad.cuda.Stream()
            with torch.cuda.stream(theirs):
                a = torch.ones(4096, 4096, device="cuda")
                a = a @ a
                x = torch.full((n,), float(k), device="cuda")
            with cygrad.cuda.stream(ours), torch.cuda.stream(theirs):
                y = cygrad.from_dlpack(x)
                total = (y == k).all()
                z = y * 2
                back = torch.from_dlpack(z)
                right = (back == 2 * k).all()
            assert total.item() and bool(right), "one library did not wait for the other"
            torch.cuda.synchronize()
            cygrad.cuda.synchronize()
            del x, y, z, back, a

    def with_cupy():
        try:
            cupy = import_module("cupy")
        except Exception as error:
            report.skip(f"no CuPy: {type(error).__name__}")
        x = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)
        y = cygrad.from_dlpack(x)
        assert y.tolist() == x.tolist() and y.data_ptr() == x.data.ptr
        y.add_(1)
        cygrad.cuda.synchronize()
        assert x.tolist() == (cygrad.arange(12.0).reshape(3, 4) + 1).tolist()
        z = cupy.from_dlpack(cygrad.arange(6.0, device="cuda"))
        assert z.tolist() == list(range(6))
        del z

    def with_numpy():
        x = cygrad.arange(5.0, device="cuda")
        assert (
            cygrad.from_numpy(x.cpu().numpy()).cuda().tolist() == x.tolist()
            and x.numpy(force=True).tolist() == x.tolist()
        )
        try:
            x.numpy()
        except TypeError:
            return
        raise AssertionError("memory of the device was lent to NumPy")

    def loader():
        data = cygrad.utils.data
        loaded = data.DataLoader(data.TensorDataset(cygrad.arange(100.0).view(50, 2)), 8, pin_memory=True)
        total = sum(batch.to("cuda", non_blocking=True).sum() for (batch,) in loaded)
        assert total.item() == 4950

    def files():
        import_module("cygrad.serialization")
        x, file = cygrad.arange(1000.0, device="cuda"), io.BytesIO()
        cygrad.save({"x": x, "view": x[5:]}, file)
        file.seek(0)
        back = cygrad.load(file)
        assert back["x"].is_cuda and cygrad.equal(back["x"], x) and cygrad.equal(back["view"], x[5:])

    for name, call in {
        "torch": with_torch,
        "torch, streams": over_streams,
        "CuPy": with_cupy,
        "NumPy": with_numpy,
        "loader": loader,
        "files": files,
    }.items():
        report.item(name, call)


def large(report):
    """More than 2^31 elements, which are cut into launches."""
    cygrad = load()
    n = (1 << 12 if report.tiny else 1 << 31) + 17
    if not report.tiny and cygrad.cuda.mem_get_info()[0] < 30 * n // 2:
        report.say("there is too little memory")
        return

    def bytes_of(value):
        return cygrad.full((n,), value, dtype=cygrad.int8, device="cuda")

    def elements():
        x = bytes_of(3)
        x[-1] = 5
        x.add_(1)
        y = x + x
        ends = (y[0].item(), y[n // 2].item(), y[-2].item(), y[-1].item())
        assert ends == (8, 8, 8, 12) and y.sum().item() == 8 * n + 4 and int(y.amax()) == 12

    def counted():
        x = bytes_of(0)
        x[-3] = x[7] = 1
        assert x.count_nonzero().item() == 2 and x.bool().any().item()
        assert x.argmax().item() == 7 and x.nonzero().flatten().tolist() == [7, n - 3]
        assert x.view(n)[[n - 3]].tolist() == [1]

    def copied():
        x = bytes_of(1)[: n // 16 * 16].view(-1, 16)
        x[-1] = 2
        y = x.t().contiguous()
        assert y.shape[0] == 16 and y[3, -1].item() == 2 and y[0, 0].item() == 1 and y.sum().item() == x.sum().item()
        z = x.half()[-1].tolist()
        assert z == [2] * 16

    for name, call in {"elements": elements, "counted": counted, "copied": copied}.items():
        report.item(name, call)


# ---- what has files of its own


def run_python(report, name, *command, limit=140):
    """Run a program and pass on its last lines; its exit status."""
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    begun = time.monotonic()
    limit = min(limit, report.end - begun - 4)
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace")
        raise AssertionError(f"{name} did not end in {limit:.0f} s; it said: {said[-1500:]}") from None
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    for line in said[-40:]:
        report.say(line[:300])
    assert done.returncode == 0, f"{name} ended with {done.returncode}: {said[-1] if said else 'it said nothing'}"


def tests(report):
    """tests/cuda, those of imitations left out by themselves; and those which compile for the processor."""
    load()
    try:
        import_module("pytest")
        import_module("hypothesis")
    except ImportError as error:
        report.say(f"not run: {error}")
        return
    apart = "test_device_resources", "test_check_script", "test_failed_launches"
    modules = sorted(p for p in (ROOT / "tests/cuda").glob("test_*.py")
                     if p.stem not in apart and "import device_code" not in p.read_text()
                     and "from device_code" not in p.read_text())  # fmt: skip
    try:
        import_module("xdist")
        many = ["-n", str(max(2, min(8, len(os.sched_getaffinity(0)) // 2)))]
    except ImportError:
        many = []
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line", "-rfE"]
    if report.tiny:
        modules = [ROOT / "tests/cuda/test_old_names.py"]
        many = []
    if many:
        report.item("all", run_python, report, "pytest", *options, *many, *map(str, modules), limit=145)
        return
    for path in modules:  # a crash takes one module along
        report.item(path.stem, run_python, report, path.stem, *options, str(path), limit=100)


def samples(report):
    """The samples that PyTorch's own tests have of functions and layers, on the device beside the CPU."""
    load()
    try:
        import_module("torch")
        import_module("expecttest")
    except Exception as error:
        report.say(f"not run: {type(error).__name__}: {error}")
        return
    program = str(ROOT / "tests/parity/on_device.py")
    if report.tiny:
        report.item("some", run_python, report, "on_device.py", program, "sum", limit=60)
        return
    parts = max(2, min(6, len(os.sched_getaffinity(0)) // 2))
    done = []

    def one(k):
        try:
            run_python(report, f"slice {k}", program, "--slice", f"{k}/{parts}", limit=110)
        except AssertionError as error:
            done.append(str(error))

    def all_of_them():
        threads = [threading.Thread(target=one, args=(k,)) for k in range(parts)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not done, "; ".join(done)

    report.item("all", all_of_them, limit=118)


# ---- for the test of the script


def faults(report):
    """What may happen to a part, on purpose."""

    def fail():
        raise ValueError("on purpose")

    calls = {
        "before": lambda: None,
        "wrong": fail,
        "between": lambda: None,
        "crash": os.abort,
        "behind the crash": lambda: None,
        "hang": lambda: time.sleep(1000),
        "after": lambda: None,
    }
    for name, call in calls.items():
        report.item(name, call)
