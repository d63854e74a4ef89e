"""``cygrad bench``: calls a second, memory and arithmetic of this machine, beside NumPy where it has the same."""

import time

import numpy as np

import cygrad
from cygrad.storage import dispatch
from cygrad.tools._cli import progress

_ROUNDS = 7


def run(options):
    """Return status, answer and text."""
    rows = []
    cases = list(_cases(options.quick))
    for number, (name, ours, theirs, work, unit) in enumerate(cases, 1):
        progress(f"[{number}/{len(cases)}] {name}")
        own, reference = _smallest(ours), _smallest(theirs) if theirs else None
        rows.append({"name": name, "seconds": own, "numpy_seconds": reference, "rate": work / own, "unit": unit})
    answer = {"isa": dispatch.isa(), "threads": cygrad.get_num_threads(), "rows": rows}
    lines = [f"instruction set {answer['isa']}, {answer['threads']} threads; the smallest of {_ROUNDS} samples", ""]
    lines.append(f"{'':<38}{'cygrad':>12}{'NumPy':>12}{'ratio':>8}{'':>18}")
    for row in rows:
        reference = row["numpy_seconds"]
        beside = f"{_seconds(reference):>12}{row['seconds'] / reference:>8.2f}" if reference else f"{'':>20}"
        lines.append(f"{row['name']:<38}{_seconds(row['seconds']):>12}{beside}{row['rate']:>12.3g} {row['unit']}")
    return 0, answer, "\n".join(lines)


def _cases(quick):
    """(name, function, NumPy's, amount of work, unit) of each measurement."""
    n, size = (10**6, 256) if quick else (10**7, 1024)
    one, one_np = cygrad.ones(1), np.ones(1, np.float32)
    recorded = cygrad.ones(1, requires_grad=True)
    yield "add, 1 element", lambda: one + one, lambda: one_np + one_np, 1e-6, "million a second"
    yield "add, 1 element, recorded", lambda: recorded + one, None, 1e-6, "million a second"
    a_np, b_np, out_np = (np.random.default_rng(k).random(n, np.float32) for k in range(3))
    a, b, out = map(cygrad.from_numpy, (a_np, b_np, out_np))
    gib = 4 * n / 2**30
    yield (
        f"add, {n:,} float32, out=",
        lambda: cygrad.add(a, b, out=out),
        lambda: np.add(a_np, b_np, out_np),
        3 * gib,
        "GiB/s",
    )
    yield f"copy, {n:,} float32", lambda: out.copy_(a), lambda: np.copyto(out_np, a_np), 2 * gib, "GiB/s"
    yield (
        f"exp, {n:,} float32, out=",
        lambda: cygrad.exp(a, out=out),
        lambda: np.exp(a_np, out_np),
        n / 1e9,
        "billion a second",
    )
    yield f"sum, {n:,} float32", lambda: a.sum(), lambda: a_np.sum(), gib, "GiB/s"
    for dtype, scale in (("float32", 1.0), ("float64", 1.0)):
        m_np = np.random.default_rng(3).random((size, size)).astype(dtype) * scale
        m = cygrad.from_numpy(m_np)
        flops = 2 * size**3 / 1e9
        yield f"matmul, {size} × {size} {dtype}", lambda m=m: m @ m, lambda m=m_np: m @ m, flops, "GFLOP/s"
    step = _training_step()
    if step:
        yield "training step, MLP 64-128-10, batch 64", step, None, 1.0, "a second"


def _training_step():
    """Forward, backward and Adam of a small classifier; None without cygrad-nn."""
    nn = getattr(cygrad, "nn", None)
    if nn is None:
        return None
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = cygrad.optim.Adam(model.parameters())
    x, y = cygrad.randn(64, 64), cygrad.arange(64) % 10

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def _smallest(function):
    """Seconds of a call: the smallest of several samples of at least some milliseconds."""
    calls = 1
    while _sample(function, calls) < 2e-3 and calls < 10**6:
        calls *= 4
    return min(_sample(function, calls) for _ in range(_ROUNDS)) / calls


def _sample(function, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - start


def _seconds(value):
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.2f} {unit}"
    return f"{value * 1e9:.0f} ns"
