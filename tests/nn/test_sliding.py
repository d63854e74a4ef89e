"""Convolutions, sliding maxima and batch normalisation: every geometry and layout, any number of threads, every CPU."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest

inf, nan = float("inf"), float("nan")
GROUPS = [(1, 1, 1), (1, 3, 8), (1, 2, 17), (2, 5, 3), (8, 1, 1), (3, 1, 2), (1, 9, 13), (1, 1, 40)]


def geometry(seed):
    """Arguments of a convolution, drawn at random: shapes of input and weight, and how filters slide."""
    r = random.Random(seed)
    dims = r.choice([1, 2, 2, 3])
    groups, channels, filters = r.choice(GROUPS)
    window = [r.choice([1, 2, 3, 5]) for _ in range(dims)]
    stride, dilation, padding = ([r.choice(of) for _ in range(dims)] for of in ([1, 1, 2, 3], [1, 1, 2, 4], [0, 1, 2]))
    reach = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(window, dilation, padding, strict=True)]
    sizes = [max(n, 1) + r.randrange({1: 150, 2: 40, 3: 8}[dims]) for n in reach]
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (r.choice([1, 2, 9]), groups * channels, *sizes), (groups * filters, channels, *window), how


def numbers(library, seed, shape, dtype="float32"):
    return library.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def convolution(library, seed, dtype="float32"):
    """A convolution and the gradients of its operands."""
    shape, window, how = geometry(seed)
    x, w, b = (numbers(library, seed, s, dtype).requires_grad_() for s in (shape, window, window[:1]))
    y = getattr(library.nn.functional, f"conv{len(shape) - 2}d")(x, w, b, **how)
    y.backward(numbers(library, seed, y.shape, dtype))
    return y.detach(), x.grad, w.grad, b.grad


def maxima(library, seed):
    """Sliding maxima, where they are, and the gradient."""
    r = random.Random(seed)
    dims = r.choice([1, 2, 3])
    window = [r.choice([1, 2, 3, 4]) for _ in range(dims)]
    stride, dilation = ([r.choice([1, 2, 3]) for _ in range(dims)] for _ in "sd")
    padding = [r.randrange(k // 2 + 1) for k in window]
    sizes = [d * (k - 1) + 1 + r.randrange(300 if dims == 1 else 20) for k, d in zip(window, dilation, strict=True)]
    x = numbers(library, seed, (3, 2, *sizes)).mul(2).round()           # many are equal
    x[x == 3], x[x == -3] = nan, -inf
    x.requires_grad_()
    pool = getattr(library.nn.functional, f"max_pool{dims}d")
    y, index = pool(x, window, stride, padding, dilation, ceil_mode=seed % 2 == 0, return_indices=True)
    y.backward(numbers(library, seed, y.shape))
    return y.detach(), index, x.grad


def normalised(library, shape, last=False, dtype="float32", bare=False):
    """Batch normalisation, its statistics and gradients."""
    x = numbers(library, 0, shape, dtype)
    x = (x + 5).to(memory_format=library.channels_last) if last else x + 5
    x.requires_grad_()
    w, b, mean, var = (None if bare else numbers(library, k, shape[1], dtype).abs() for k in (1, 2, 3, 4))
    params = [] if bare else [w.requires_grad_(), b.requires_grad_()]
    y = library.nn.functional.batch_norm(x, mean, var, w, b, training=True)
    y.backward(numbers(library, 5, shape, dtype))
    return y.detach(), *(t.grad for t in (x, *params)), *([] if bare else [mean, var])


def assert_alike(got, want, relative):
    for a, b in zip(got, want, strict=True):
        a, b = a.numpy(), b.numpy()
        assert a.shape == b.shape
        finite = np.abs(b[np.isfinite(b)])
        np.testing.assert_allclose(a, b, rtol=0, atol=relative * max(finite.max(initial=0), 1e-30))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(60))
def test_convolutions_are_pytorchs(torch, oracle, seed, dtype):
    relative = {"float32": 2e-5, "float64": 1e-12}[dtype]
    assert_alike(convolution(torch, seed, dtype), convolution(oracle, seed, dtype), relative)


@pytest.mark.parametrize("seed", range(60))
def test_sliding_maxima_are_pytorchs(torch, oracle, seed):
    assert_alike(maxima(torch, seed), maxima(oracle, seed), 1e-6)


@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ((50, 3), False),
        ((7, 40), False),
        ((4, 5, 9), False),
        ((3, 2, 6, 35), False),
        ((2, 20, 5, 4), True),
        ((1, 1, 3, 3), True),
    ],
)
@pytest.mark.parametrize("bare", [False, True])
def test_batch_normalisation_is_pytorchs(torch, oracle, shape, last, bare):
    assert_alike(normalised(torch, shape, last, bare=bare), normalised(oracle, shape, last, bare=bare), 1e-5)
    ours, theirs = (normalised(t, shape, last, "float64", bare) for t in (torch, oracle))
    assert_alike(ours, theirs, 1e-12)
    assert ours[0].stride() == theirs[0].stride()


def test_gradients_have_gradients(torch, nn, beyond_pytorch):
    F, check = nn.functional, torch.autograd.gradgradcheck
    shapes = enumerate([(3, 2, 5, 4), (3, 2, 2, 3), (3,)])
    x, w, b = (numbers(torch, k, s, "float64").requires_grad_() for k, s in shapes)
    assert check(lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=1), (x, w, b))
    assert check(lambda x: F.max_pool2d(x, 2, stride=1, padding=1), (x,))
    w, b = (numbers(torch, k, 2, "float64").requires_grad_() for k in (1, 2))
    assert check(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (x, w, b))


def test_the_third_derivative_of_batch_normalisation(torch, nn, beyond_pytorch):
    """The second is differentiated as if written with the operations of tensors."""
    x = numbers(torch, 0, (5, 2), "float64").requires_grad_()
    w, b = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)

    def thrice(f):
        y = f(x).pow(3).sum()
        for _ in range(3):
            (y,) = torch.autograd.grad(y, x, create_graph=True)
            y = y.pow(2).sum()
        return y.item()

    def plain(x):
        return (x - x.mean(0)) * (x.var(0, correction=0) + 1e-5).rsqrt()

    norm = thrice(lambda x: nn.functional.batch_norm(x, None, None, w, b, training=True))
    assert norm == pytest.approx(thrice(plain))


def test_examples_of_vmap_are_normalised_each(torch, nn, beyond_pytorch):
    x = numbers(torch, 0, (3, 4, 2, 5))

    def norm(x):
        return nn.functional.batch_norm(x, None, None, training=True)

    for f in (norm, torch.func.grad(lambda x: norm(x).pow(3).sum())):
        assert torch.allclose(torch.vmap(f)(x), torch.stack([f(part) for part in x]), atol=1e-5)


def test_examples_of_vmap_have_maxima_and_biases_each(torch, nn, beyond_pytorch):
    x, w, b = numbers(torch, 0, (3, 2, 2, 6, 6)), numbers(torch, 1, (4, 2, 3, 3)), numbers(torch, 2, (3, 4))
    pool = torch.func.grad(lambda x: nn.functional.max_pool2d(x, 2).pow(2).sum())
    assert torch.equal(torch.vmap(pool)(x), torch.stack([pool(part) for part in x]))
    together = torch.vmap(lambda x, b: nn.functional.conv2d(x, w, b))(x, b)
    apart = [nn.functional.conv2d(p, w, q) for p, q in zip(x, b, strict=True)]
    assert torch.allclose(together, torch.stack(apart), atol=1e-5)


def test_an_infinite_element_reaches_no_tap_that_does_not_look_at_it(torch, nn):
    """Lines of a tile stand side by side; what is between them counts for nothing."""
    for filters in (1, 16):
        x = torch.zeros(1, 1, 5, 6)
        x[0, 0, 0, 0], x[0, 0, 1, 0] = inf, nan
        w = torch.zeros(filters, 1, 2, 3, requires_grad=True)
        nn.functional.conv2d(x, w).backward(torch.ones(1, filters, 4, 4))
        assert w.grad[:, 0, 0, 0].isnan().all() and w.grad[:, 0, :, 1:].eq(0).all()


def test_the_number_of_threads_changes_no_bit(torch):
    def everything():
        yield from (t for seed in range(12) for t in convolution(torch, seed))
        yield from (t for seed in range(6) for t in maxima(torch, seed)[::2])
        yield from normalised(torch, (40, 30, 9, 9))
        yield from normalised(torch, (40, 70, 9, 9), True)

    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(b"".join(t.contiguous().numpy().tobytes() for t in everything()))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


ISA = """
import sys
sys.path.insert(0, sys.argv[1])
import cygrad
from test_sliding import assert_alike, convolution, maxima
for seed in range(24):
    assert_alike(convolution(cygrad, seed), convolution(cygrad, seed, "float64"), 2e-5)
    print(*(t.numpy().tobytes().hex() for t in maxima(cygrad, seed)))
"""


def test_every_instruction_set(beyond_pytorch):
    """Single precision agrees with double in each; where nothing is rounded, the instruction sets agree to the bit."""
    from cygrad.storage import dispatch

    printed = set()
    for isa in dispatch.isas_available():
        environment = {**os.environ, "CYGRAD_ISA": isa, "OMP_WAIT_POLICY": "passive"}
        command = [sys.executable, "-c", ISA, os.path.dirname(__file__)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1
