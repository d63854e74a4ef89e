"""Operations on a device beside the same operations on the CPU, forward and backward.

Run with the extension built by CYGRAD_CUDA=host, where kernels are loops of the processor, or on a machine with a GPU.
"""

import numpy as np
import pytest

import cygrad

if not cygrad.cuda.is_available():
    pytest.skip("no CUDA device, real or imitated (CYGRAD_CUDA_HOST=1)", allow_module_level=True)

F = cygrad.nn.functional


def numbers(*shape, dtype=cygrad.float64, low=-2.0, high=2.0, seed=0):
    x = np.random.default_rng(seed + len(shape)).uniform(low, high, shape)
    return cygrad.tensor(x).to(dtype)


def whole(*shape, high=4, seed=1):
    return cygrad.tensor(np.random.default_rng(seed).integers(0, high, shape))


def images():
    return numbers(2, 3, 8, 9)


X, Y = numbers(4, 5), numbers(4, 5, seed=9)
CUBE = numbers(3, 4, 5)
INDEX = whole(6)

# name: (function, tensors that need a gradient, other tensors)
CASES = {
    "add": (lambda x, y: x + y, [X, Y], []),
    "broadcast": (lambda x, y: x * y[0], [X, Y], []),
    "number": (lambda x: 2 * x + 1 - x / 3, [X], []),
    "transposed": (lambda x, y: x.t() * y.t(), [X, Y], []),
    "chain": (lambda x: x.sin().exp().tanh().sigmoid(), [X], []),
    "power": (lambda x: (x * x + 1) ** 1.5, [X], []),
    "where": (lambda x, y: cygrad.where(x > y, x, y), [X, Y], []),
    "clamp": (lambda x: x.clamp(-1, 1), [X], []),
    "special": (lambda x: cygrad.erf(x) + cygrad.lgamma(x.abs() + 1), [X], []),
    "sum": (lambda x: x.sum(1), [CUBE], []),
    "sum all": (lambda x: x.sum(), [CUBE], []),
    "sum dims": (lambda x: x.sum((0, 2), keepdim=True), [CUBE], []),
    "mean": (lambda x: x.mean(0), [CUBE], []),
    "prod": (lambda x: x.prod(1), [CUBE], []),
    "amax": (lambda x: x.amax(1), [CUBE], []),
    "max dim": (lambda x: x.max(2)[0], [CUBE], []),
    "argmax": (lambda x: x.argmax(1), [], [CUBE]),
    "any": (lambda x: (x > 1).any(1), [], [CUBE]),
    "var": (lambda x: x.var(1), [CUBE], []),
    "std": (lambda x: x.std(), [CUBE], []),
    "norm": (lambda x: x.norm(), [CUBE], []),
    "norm 3": (lambda x: x.norm(3, dim=1), [CUBE], []),
    "logsumexp": (lambda x: x.logsumexp(1), [CUBE], []),
    "softmax": (lambda x: x.softmax(2), [CUBE], []),
    "softmax middle": (lambda x: x.softmax(1), [CUBE], []),
    "log_softmax": (lambda x: x.log_softmax(-1), [CUBE], []),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), [CUBE, numbers(5), numbers(5, seed=3)], []),
    "cumsum": (lambda x: x.cumsum(1), [CUBE], []),
    "cumprod": (lambda x: x.cumprod(2), [CUBE], []),
    "cummax": (lambda x: x.cummax(1)[0], [CUBE], []),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), [CUBE], []),
    "sort": (lambda x: x.sort(1)[0], [CUBE], []),
    "sort down": (lambda x: x.sort(2, descending=True)[0], [CUBE], []),
    "argsort": (lambda x: x.argsort(0), [], [CUBE]),
    "topk": (lambda x: x.topk(2, 1)[0], [CUBE], []),
    "kthvalue": (lambda x: x.kthvalue(2, 1)[0], [CUBE], []),
    "searchsorted": (lambda x, y: cygrad.searchsorted(x.sort(1)[0], y), [], [X, Y]),
    "repeat_interleave": (lambda x, n: x.repeat_interleave(n, 0), [X], [cygrad.tensor([2, 0, 1, 3])]),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), [X, Y], []),
    "scatter_reduce": (lambda x, y, i: x.scatter_reduce(1, i, y, "amax"), [X, Y], [whole(4, 5)]),
    "scatter_reduce mean": (lambda x, y, i: x.scatter_reduce(1, i, y, "mean"), [X, Y], [whole(4, 5)]),
    "index_reduce mean": (lambda x, y, i: x.index_reduce(0, i, y, "mean", include_self=False),
                          [], [X, numbers(6, 5), INDEX]),
    "unique rows": (lambda x: cygrad.unique(x, dim=0), [], [whole(9, 2, high=3)]),
    "expanded gradient": (lambda x: x.as_strided((3, 3), (1, 1)), [X], []),
    "index_reduce": (lambda x, y, i: x.index_reduce(0, i, y, "prod", include_self=False),
                     [], [X, numbers(6, 5), INDEX]),
    "mm": (lambda a, b: a @ b, [X, numbers(5, 3)], []),
    "mm transposed": (lambda a, b: a.t() @ b, [X, Y], []),
    "mv": (lambda a, v: a @ v, [X, numbers(5)], []),
    "bmm": (lambda a, b: a @ b, [CUBE, numbers(3, 5, 2)], []),
    "addmm": (lambda c, a, b: cygrad.addmm(c, a, b, beta=0.5, alpha=2), [numbers(3), X, numbers(5, 3)], []),
    "linear": (lambda x, w, b: F.linear(x, w, b), [CUBE, numbers(2, 5), numbers(2)], []),
    "dot": (lambda a, b: a.dot(b), [numbers(7), numbers(7, seed=2)], []),
    "index_select": (lambda x, i: x.index_select(0, i), [X], [INDEX]),
    "index": (lambda x, i: x[i], [X], [INDEX]),
    "index two": (lambda x, i: x[:, i, i], [CUBE], [INDEX]),
    "mask": (lambda x: x[x > 0], [X], []),
    "masked_select": (lambda x: x.masked_select(x > 0), [X], []),
    "gather": (lambda x, i: x.gather(1, i), [X], [whole(4, 3)]),
    "take": (lambda x, i: x.take(i), [X], [INDEX]),
    "scatter_add": (lambda x, y, i: x.scatter_add(1, i, y), [X, Y], [whole(4, 5)]),
    "index_add": (lambda x, y, i: x.index_add(0, i, y), [X, numbers(6, 5)], [INDEX]),
    "index_put": (lambda x, y, i: x.index_put((i,), y), [X, numbers(6, 5)], [cygrad.tensor([0, 1, 1, 3, 0, 2])]),
    "embedding": (lambda w, i: F.embedding(i, w), [X], [whole(3, 2)]),
    "nonzero": (lambda x: (x > 0).nonzero(), [], [CUBE]),
    "cat": (lambda x, y: cygrad.cat([x, y], 1), [X, Y], []),
    "stack": (lambda x, y: cygrad.stack([x, y], 1), [X, Y], []),
    "flip": (lambda x: x.flip(1), [CUBE], []),
    "roll": (lambda x: x.roll(2, 1), [CUBE], []),
    "tril": (lambda x: x.tril(), [CUBE], []),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=3.0), [CUBE], []),
    "repeat": (lambda x: x.repeat(2, 3), [X], []),
    "views": (lambda x: x[1:, ::2].t().reshape(-1), [X], []),
    "cross entropy": (lambda x, t: F.cross_entropy(x, t), [X], [whole(4)]),
    "mse": (lambda x, y: F.mse_loss(x, y), [X, Y], []),
    "gelu": (lambda x: F.gelu(x), [X], []),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                  [numbers(2, 2, 5, 4), numbers(2, 2, 5, 4, seed=5), numbers(2, 2, 5, 3, seed=6)], []),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
                   [images(), numbers(3), numbers(3, seed=4)], []),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), [images(), numbers(4, 3, 3, 3), numbers(4)], []),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), [images()], []),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, stride=2), [images()], []),
}  # fmt: skip


def run(name, device):
    function, moving, still = CASES[name]
    leaves = [x.detach().to(device).requires_grad_() for x in moving]
    y = function(*leaves, *(x.to(device) for x in still))
    assert y.device == cygrad.device(device) if device == "cpu" else y.is_cuda
    if not moving:
        return [y]
    weight = numbers(*y.shape, seed=77).to(device)
    (y * weight).sum().backward()
    return [y.detach(), *(x.grad for x in leaves)]


@pytest.mark.parametrize("name", CASES)
def test_same_as_on_cpu(name):
    for got, want in zip(run(name, "cuda"), run(name, "cpu"), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-9, atol=1e-11)


REDUCED = (cygrad.float16, cygrad.bfloat16, cygrad.float32, cygrad.int16, cygrad.int64, cygrad.uint8, cygrad.bool)


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_casts_and_sums_of_every_kind(dtype):
    x = (CUBE * 3).to(dtype)
    assert x.cuda().to(cygrad.float64).cpu().tolist() == x.to(cygrad.float64).tolist()
    assert CUBE.cuda().mul(3).to(dtype).cpu().tolist() == x.tolist()
    got, want = x.cuda().sum(1).cpu(), x.sum(1)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.to(cygrad.float64).numpy(), want.to(cygrad.float64).numpy(), rtol=1e-2)
    assert x.t().cuda().amax(0).cpu().tolist() == x.t().amax(0).tolist() if x.dim() == 2 else True


@pytest.mark.parametrize(
    "name", ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD")
)
def test_optimisers(name):
    results = []
    for device in ("cpu", "cuda"):
        parameters = [cygrad.nn.Parameter(x.clone().to(device)) for x in (X, CUBE)]
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(cygrad.optim, name)(parameters, **options)
        for _ in range(3):
            optimizer.zero_grad()
            sum((p * p.sin()).sum() for p in parameters).backward()
            optimizer.step()
        results.append([p.detach().cpu().numpy() for p in parameters])
    for got, want in zip(*reversed(results), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_random_numbers():
    cygrad.cuda.manual_seed(5)
    x = cygrad.empty(20000, device="cuda").uniform_(-1, 3)
    cygrad.cuda.manual_seed(5)
    assert (x == cygrad.empty(20000, device="cuda").uniform_(-1, 3)).all().item()
    assert not (x == cygrad.empty(20000, device="cuda").uniform_(-1, 3)).any().item()
    assert x.min().item() >= -1 and x.max().item() < 3 and abs(x.mean().item() - 1) < 0.05
    z = cygrad.empty(40000, dtype=cygrad.float64, device="cuda").normal_(2, 3)
    assert abs(z.mean().item() - 2) < 0.06 and abs(z.std().item() - 3) < 0.06
    k = cygrad.randint(3, 9, (5000,), device="cuda")
    assert sorted(set(k.tolist())) == list(range(3, 9))
    assert sorted(cygrad.randperm(100, device="cuda").tolist()) == list(range(100))


@pytest.mark.parametrize("rate", (0.5, 4.0, 30.0, 900.0))
def test_numbers_found_by_rejection(rate):
    """Means and variances within six standard errors."""
    n = 20000
    a = cygrad.full((n,), rate, dtype=cygrad.float64, device="cuda")
    p = cygrad.full_like(a, 0.3)
    trials = cygrad.full_like(a, 40 * rate)
    drawn = {
        "poisson": (cygrad.poisson(a), rate, rate),
        "binomial": (cygrad.binomial(trials, p), 12 * rate, 8.4 * rate),
        "many of few": (cygrad.binomial(trials, 1 - p), 28 * rate, 8.4 * rate),
        "gamma": (cygrad.distributions.Gamma(a, cygrad.ones_like(a)).sample(), rate, rate),
    }
    for name, (x, mean, variance) in drawn.items():
        assert x.is_cuda and x.dtype == cygrad.float64
        assert abs(x.mean().item() - mean) < 6 * (variance / n) ** 0.5, name
        assert abs(x.var().item() / variance - 1) < 0.15, name


def test_a_wrong_index_is_told_with_its_number():
    x = X.cuda()
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 4"):
        x[cygrad.tensor([0, 7], device="cuda")]
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.gather(1, cygrad.tensor([[9]], device="cuda"))


@pytest.mark.parametrize(
    "dtype", (cygrad.uint8, cygrad.float16, cygrad.float32, cygrad.float64, cygrad.complex128), ids=str
)
@pytest.mark.parametrize(
    ("shape", "order"),
    [((70, 130), (1, 0)), ((3, 40, 65), (0, 2, 1)), ((33, 2, 50), (2, 1, 0)), ((17, 64, 16), (2, 0, 1))],
)
def test_large_tensors_turned(shape, order, dtype):
    """Tiles through shared memory: full and partial ones, in batches, of every width."""
    x = cygrad.arange(int(np.prod(shape))).remainder(251).reshape(shape).to(dtype)
    got = x.cuda().permute(order).contiguous()
    assert got.is_contiguous() and (got.cpu() == x.permute(order)).all().item()
    part = x.cuda().permute(order)[1:]
    assert (part.clone().cpu() == x.permute(order)[1:]).all().item()


@pytest.mark.parametrize("n", (1, 255, 256, 257, 1000, 5000))
def test_long_lines_sorted_and_scanned(n):
    """Several tiles and runs: sorting is stable, sums run through tiles and chunks."""
    x = whole(3, n, high=50, seed=n)
    for descending in (False, True):
        values, places = x.cuda().sort(1, descending=descending, stable=True)
        want = x.sort(1, descending=descending, stable=True)
        assert (values.cpu() == want[0]).all().item() and (places.cpu() == want[1]).all().item()
    assert (x.cuda().cumsum(1).cpu() == x.cumsum(1)).all().item()
    assert (x.t().cuda().cumsum(0).cpu() == x.t().cumsum(0)).all().item()
    line = numbers(40 * n)
    np.testing.assert_allclose(line.cuda().cumsum(0).cpu().numpy(), line.cumsum(0).numpy(), rtol=1e-9, atol=1e-9)


def test_equal_indices_are_taken_in_order():
    """Of writes the last one stays, and sums are the same in every run; of many equal ones they round in blocks."""
    index = whole(5000, high=7)
    value = numbers(5000)
    x = cygrad.zeros(7, dtype=cygrad.float64)
    got = x.cuda().index_put((index.cuda(),), value.cuda()).cpu()
    for i in range(7):
        assert got[i].item() == value[(index == i).nonzero()[-1].item()].item()
    sums = [x.cuda().index_add(0, index.cuda(), value.cuda()).cpu() for _ in range(2)]
    assert (sums[0] == sums[1]).all().item()
    np.testing.assert_allclose(sums[0].numpy(), x.index_add(0, index, value).numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ("RNN", "LSTM", "GRU"))
def test_recurrent_layers(name):
    layer = getattr(cygrad.nn, name)(4, 5, 2, bidirectional=True).double()
    x = numbers(3, 2, 4)
    results = []
    for device in ("cpu", "cuda"):
        moved = layer.to(device)
        moved.zero_grad()
        y = moved(x.to(device))[0]
        y.square().sum().backward()
        results.append([y.detach().cpu().numpy(), *(p.grad.cpu().numpy() for p in moved.parameters())])
    for got, want in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_truths_that_meet_at_an_index():
    """A sum of many truths is true, whatever their number."""
    index, ones = cygrad.zeros(256, dtype=cygrad.int64), cygrad.ones(256, dtype=cygrad.bool)
    x = cygrad.zeros(2, dtype=cygrad.bool)
    assert (
        x.cuda().index_add(0, index.cuda(), ones.cuda()).cpu().tolist()
        == x.index_add(0, index, ones).tolist()
        == [True, False]
    )


@pytest.mark.parametrize("dtype", (cygrad.float16, cygrad.bfloat16), ids=str)
@pytest.mark.parametrize(
    "name",
    ("batch_norm", "conv2d", "max_pool2d", "avg_pool2d", "softmax", "layer_norm", "var", "cumsum", "scatter_add", "mm"),
)
def test_halves(name, dtype):
    """What is added up is kept in float32, and rounded once."""
    function, moving, still = CASES[name]
    results = []
    for device in ("cpu", "cuda"):
        leaves = [x.to(dtype).to(device).requires_grad_() for x in moving]
        y = function(*leaves, *(x.to(device) for x in still))
        (y * numbers(*y.shape, seed=77).to(dtype).to(device)).sum().backward()
        results.append([v.detach().double().cpu().numpy() for v in (y, *(x.grad for x in leaves))])
    for got, want in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(
            got, want, rtol=1e-2 if dtype == cygrad.float16 else 6e-2, atol=2e-2 if dtype == cygrad.float16 else 0.12
        )
