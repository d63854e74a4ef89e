"""Statistics made of other operations: against PyTorch, by hand, at corners, and with bad input."""

import math
import warnings

import numpy as np
import pytest

import cygrad
from cygrad.tools.gradcheck import gradcheck, gradgradcheck

inf, nan = math.inf, math.nan


def random(*shape, seed=0):
    return cygrad.randn(shape, generator=cygrad.Generator().manual_seed(seed), dtype=cygrad.float64)


def parts(result):
    return [p for r in result for p in parts(r)] if isinstance(result, (tuple, list)) else [result]


def with_nan(x):
    return cygrad.where(x > 1, cygrad.full_like(x, nan), x)


X, Y, CUBE = random(4, 6), random(4, 6, seed=1), random(3, 4, 5, seed=2)
WEIGHTS, TIMES = random(6, seed=3).abs(), cygrad.tensor([1, 2, 1, 3, 1, 1])
PLACES = cygrad.tensor([0.0, 0.5, 2.0, 2.5, 4.0, 7.0], dtype=cygrad.float64)

# name, arguments, keywords: of the function in both libraries
CALLS = [
    ("nansum", (with_nan(X),), {}),
    ("nansum", (with_nan(CUBE), (0, 2)), {"keepdim": True}),
    ("nansum", (cygrad.tensor([1, 2]),), {"dtype": cygrad.float32}),
    ("nanmean", (with_nan(CUBE), 1), {}),
    ("nanmean", (with_nan(CUBE),), {"dtype": cygrad.float32}),
    ("std_mean", (X,), {}),
    ("std_mean", (X, False), {}),
    ("std_mean", (CUBE, (0, -1)), {"correction": 2, "keepdim": True}),
    ("var_mean", (X, 1), {"unbiased": False}),
    ("aminmax", (X,), {}),
    ("aminmax", (X,), {"dim": -1, "keepdim": True}),
    ("count_nonzero", (X.round(),), {}),
    ("count_nonzero", (X.round(),), {"dim": (0, 1)}),
    ("median", (X,), {}),
    ("median", (X, 1), {}),
    ("median", (CUBE, 0, True), {}),
    ("median", (with_nan(X), 1), {}),
    ("nanmedian", (with_nan(X),), {}),
    ("nanmedian", (with_nan(CUBE), -1), {"keepdim": True}),
    ("mode", (cygrad.tensor([[2, 1, 2, 1, 3], [5, 5, 4, 4, 1]]),), {}),
    ("mode", (cygrad.tensor([[2, 1, 2, 1, 3], [5, 5, 4, 4, 1]]), 0), {"keepdim": True}),
    ("quantile", (X, 0.3), {}),
    ("quantile", (X, cygrad.tensor([0.0, 0.25, 1.0], dtype=cygrad.float64), 0), {"keepdim": True}),
    *(("quantile", (CUBE, 0.6, 1), {"interpolation": w}) for w in ("lower", "higher", "midpoint", "nearest")),
    ("quantile", (with_nan(X), 0.5, 1), {}),
    ("nanquantile", (with_nan(X), cygrad.tensor([0.5, 0.7], dtype=cygrad.float64), 1), {}),
    ("logsumexp", (CUBE, (0, 2)), {"keepdim": True}),
    ("norm", (CUBE, 3, (0, 2)), {}),
    ("norm", (X, "fro", (0, 1)), {"keepdim": True}),
    ("norm", (X.float(), inf, 1), {"dtype": cygrad.float64}),
    ("renorm", (CUBE, 2, 1, 3.0), {}),
    ("renorm", (X, inf, 0, 1.0), {}),
    ("dist", (X, Y), {}),
    ("dist", (X, Y[0], 1), {}),
    ("diff", (CUBE,), {}),
    ("diff", (X, 2, 0), {"prepend": Y, "append": Y[:1]}),
    ("diff", (X > 0,), {}),
    ("gradient", (X,), {}),
    ("gradient", (CUBE,), {"dim": (0, -1), "spacing": (2.0, 0.5), "edge_order": 2}),
    ("gradient", (X,), {"dim": 1, "spacing": (PLACES,), "edge_order": 2}),
    ("gradient", (cygrad.tensor([1, 4, 9, 16]),), {}),
    ("trapezoid", (X,), {}),
    ("trapezoid", (X, PLACES), {}),
    ("trapezoid", (X, Y), {"dim": 0}),
    ("trapz", (X,), {"dx": 0.5, "dim": 0}),
    ("cumulative_trapezoid", (X, PLACES), {}),
    ("histc", (X, 7), {}),
    ("histc", (X, 5, -1, 1), {}),
    ("histogram", (X, 5), {}),
    ("histogram", (X, cygrad.tensor([-1.0, 0.0, 0.5, 2.0], dtype=cygrad.float64)), {"density": True}),
    ("histogram", (X, 4), {"range": (-1.0, 1.0), "weight": Y.abs()}),
    ("bincount", (cygrad.tensor([1, 0, 4, 1]),), {}),
    ("bincount", (cygrad.tensor([1, 0, 4, 1]), WEIGHTS[:4]), {"minlength": 7}),
    ("cov", (X,), {}),
    ("cov", (X,), {"correction": 0, "fweights": TIMES, "aweights": WEIGHTS}),
    ("cov", (X,), {"aweights": WEIGHTS}),
    ("cov", (X[0],), {}),
    ("corrcoef", (X,), {}),
    ("corrcoef", (X[0],), {}),
    ("trace", (X,), {}),
    ("trace", (cygrad.tensor([[1, 2], [3, 4]]),), {}),
]
each_call = pytest.mark.parametrize(("name", "args", "kwargs"), CALLS, ids=[c[0] for c in CALLS])


@each_call
def test_pytorchs_results(name, args, kwargs):
    torch = pytest.importorskip("torch")

    def theirs(value):
        if isinstance(value, cygrad.Tensor):
            return torch.from_numpy(value.numpy().copy())
        if isinstance(value, tuple):
            return tuple(map(theirs, value))
        return getattr(torch, str(value).removeprefix("torch.")) if isinstance(value, cygrad.dtype) else value

    wanted = getattr(torch, name)(*map(theirs, args), **{k: theirs(v) for k, v in kwargs.items()})
    found = getattr(cygrad, name)(*args, **kwargs)
    assert isinstance(wanted, tuple) == isinstance(found, tuple)
    for a, b in zip(parts(found), parts(wanted), strict=True):
        assert (str(a.dtype), tuple(a.shape)) == (str(b.dtype), tuple(b.shape))
        tolerance = 1e-6 if a.dtype is cygrad.float32 else 1e-12
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=1e-12)


@each_call
def test_function_and_method_agree(name, args, kwargs):
    method = getattr(cygrad.Tensor, name, None)
    if method is not None:
        for a, b in zip(parts(method(*args, **kwargs)), parts(getattr(cygrad, name)(*args, **kwargs)), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [c for c in CALLS if c[0] not in ("count_nonzero", "mode", "histc", "histogram", "bincount")],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_derivatives_of_both_orders(name, args, kwargs):
    """By finite differences in the first argument, in double."""
    if args[0].dtype is not cygrad.float64 or cygrad.float32 in kwargs.values():
        pytest.skip("double only")
    others = cygrad.linspace(-1.01, 1.01, args[0].numel(), dtype=cygrad.float64).view(args[0].shape)
    x = cygrad.where(cygrad.isnan(args[0]), others, args[0]).requires_grad_()

    def function(t):
        return tuple(p for p in parts(getattr(cygrad, name)(t, *args[1:], **kwargs)) if p.requires_grad)

    assert gradcheck(function, [x])
    assert gradgradcheck(function, [x])


# ---- ties, infinities, nothing

def test_equal_medians_share_the_gradient_and_one_of_a_line_takes_it():
    x = cygrad.tensor([2.0, 5.0, 2.0, 1.0, 2.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == pytest.approx([1 / 3, 0, 1 / 3, 0, 1 / 3])
    x.grad = None
    values, indices = x.median(0)
    values.backward()
    assert x.grad[indices.item()].item() == x.grad.sum().item() == 1


@pytest.mark.parametrize("f", [cygrad.amax, cygrad.max, lambda x: cygrad.aminmax(x).max])
def test_equal_extrema_share_the_gradient(f):
    x = cygrad.tensor([1.0, 3.0, 3.0, 2.0], requires_grad=True)
    f(x).backward()
    assert x.grad.tolist() == [0, 0.5, 0.5, 0]


def test_nan_is_the_median_and_where_it_first_is():
    x = cygrad.tensor([[3.0, nan, 1.0, nan], [4.0, 3.0, 2.0, 1.0]])
    assert x.median().isnan()
    values, indices = x.median(1)
    assert values.tolist() == pytest.approx([nan, 2], nan_ok=True)
    assert indices.tolist() == [1, 2]
    assert x.nanmedian().item() == 2
    assert x.nanmedian(1).values.tolist() == [1, 2]
    assert cygrad.full((3,), nan).nanmedian(0).indices.item() == 0
    assert cygrad.full((3,), nan).nanmean().isnan()
    assert cygrad.full((3,), nan).nansum().item() == 0


def test_the_median_of_nothing():
    assert cygrad.empty(0).median().isnan()
    assert cygrad.empty(0).nanmedian().isnan()
    assert cygrad.empty(0, dtype=cygrad.int64).median().item() == -(2**63)
    assert cygrad.empty(2, 0).median(0).values.shape == (0,)


def test_the_mode_is_the_least_of_the_most_frequent_and_where_it_is_last():
    values, indices = cygrad.mode(cygrad.tensor([[3, 1, 3, 1], [7, 7, 2, 7]]))
    assert (values.tolist(), indices.tolist()) == ([1, 7], [3, 3])
    assert cygrad.mode(cygrad.tensor([nan, 2.0, nan])).values.item() == 2
    assert cygrad.mode(cygrad.tensor(4.0)) == (4.0, 0)
    x = cygrad.tensor([1.0, 2.0, 2.0], requires_grad=True)
    x.mode().values.backward()
    assert x.grad.tolist() == [0, 0, 1]


def test_quantiles_beside_infinities():
    x = cygrad.tensor([-inf, 0.0, 1.0, inf])
    assert x.quantile(0.5).item() == 0.5
    assert x.quantile(cygrad.tensor([0.0, 1.0])).tolist() == [-inf, inf]
    assert cygrad.tensor([1.0, 2.0]).quantile(cygrad.tensor([])).shape == (0,)


def test_a_deviation_of_0_has_no_gradient():
    x = cygrad.ones(3, dtype=cygrad.float64, requires_grad=True)
    (g,) = cygrad.autograd.grad(x.std(), x)
    assert g.tolist() == [0, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cygrad.var(cygrad.ones(1)).isnan()


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, inf, -inf])
def test_a_norm_of_0_has_gradient_0(p):
    x = cygrad.zeros(3, requires_grad=True)
    (g,) = cygrad.autograd.grad(x.norm(p), x)
    assert g.tolist() == [0, 0, 0]


def test_counts_are_exact_beyond_float32():
    n = 2**24 + 2
    assert cygrad.histc(cygrad.zeros(1).expand(n), 1, -1, 1).item() == n
    assert cygrad.bincount(cygrad.zeros(1, dtype=cygrad.int64).expand(n), cygrad.ones(1).expand(n)).item() == n
    assert cygrad.count_nonzero(cygrad.ones(1).expand(n + 1)).item() == n + 1


def test_weights_of_bincount_are_differentiable():
    w = cygrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (cygrad.bincount(cygrad.tensor([1, 0, 1]), w) * cygrad.tensor([5.0, 7.0])).sum().backward()
    assert w.grad.tolist() == [7, 5, 7]


def test_histograms_skip_what_is_outside_and_keep_the_last_edge():
    x = cygrad.tensor([0.0, 0.5, 1.0, 2.0, nan, -1.0])
    assert cygrad.histc(x, 2, 0, 1).tolist() == [1, 2]
    hist, edges = cygrad.histogram(x, 2, range=(0.0, 1.0))
    assert (hist.tolist(), edges.tolist()) == ([1, 2], [0, 0.5, 1])
    assert cygrad.histc(cygrad.full((2,), 3.0), 3).tolist() == [0, 2, 0]
    assert cygrad.histc(cygrad.empty(0), 3).tolist() == [0, 0, 0]


def test_histograms_of_points_are_numpys():
    points, weight = random(50, 2), random(50, seed=1).abs()
    for bins in ([3, 4], [cygrad.tensor([-1.0, 0, 2], dtype=cygrad.float64), 5]):
        hist, edges = cygrad.histogramdd(points, bins, weight=weight, density=True)
        given = [b.numpy() if isinstance(b, cygrad.Tensor) else b for b in bins]
        wanted, theirs = np.histogramdd(points.numpy(), given, weights=weight.numpy(), density=True)
        np.testing.assert_allclose(hist.numpy(), wanted)
        for a, b in zip(edges, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b)


def test_trapezoids_integrate_lines_exactly():
    at = cygrad.linspace(0, 3, 7, dtype=cygrad.float64)
    assert cygrad.trapezoid(2 * at + 1, at).item() == pytest.approx(12)
    assert cygrad.cumulative_trapezoid(2 * at + 1, at)[-1].item() == pytest.approx(12)
    assert cygrad.trapezoid(cygrad.empty(2, 0)).tolist() == [0, 0]


def test_gradients_of_parabolas_are_exact():
    at = cygrad.tensor([0.0, 1.0, 2.5, 3.0, 6.0], dtype=cygrad.float64)
    (slope,) = cygrad.gradient(at * at, spacing=(at,), edge_order=2)
    assert slope.tolist() == pytest.approx((2 * at).tolist())


def test_sum_to_size():
    assert CUBE.sum_to_size(4, 1).tolist() == CUBE.sum((0, 2)).view(4, 1).tolist()
    assert CUBE.sum_to_size((3, 4, 5)) is CUBE
    with pytest.raises(RuntimeError, match="expandable"):
        CUBE.sum_to_size(2, 5)


def test_a_covariance_without_freedom_warns():
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert cygrad.cov(X, correction=9).isinf().all()


def test_renorm_in_place():
    x = X.clone()
    assert x.renorm_(2, 0, 1.0) is x
    assert cygrad.equal(x, X.renorm(2, 0, 1.0))
    assert (x.norm(2, 1) <= 1).all()


# ---- bad input

I, E = cygrad.tensor([[1, 2], [3, 4]]), cygrad.empty(0)  # noqa: E741


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (RuntimeError, "floating", lambda: cygrad.nanmean(I)),
        (RuntimeError, "floating", lambda: cygrad.std_mean(I)),
        (RuntimeError, r"aminmax.*\[0\]", lambda: cygrad.aminmax(E)),
        (IndexError, "aminmax.*dim 0", lambda: cygrad.aminmax(E, dim=0)),
        (IndexError, "median.*dim 0", lambda: E.median(0)),
        (IndexError, "mode.*dim 1", lambda: cygrad.empty(2, 0).mode(1)),
        (IndexError, "out of range", lambda: X.median(2)),
        (TypeError, "dim.*int", lambda: X.median("0")),
        (NotImplementedError, "bool", lambda: (X > 0).median()),
        (RuntimeError, "float or double", lambda: cygrad.quantile(I, 0.5)),
        (RuntimeError, r"\[0, 1\].*1.5", lambda: X.quantile(1.5)),
        (RuntimeError, r"\[0, 1\]", lambda: X.quantile(cygrad.tensor([nan], dtype=cygrad.float64))),
        (RuntimeError, "1D", lambda: X.quantile(X.abs())),
        (RuntimeError, "same dtype", lambda: X.quantile(cygrad.tensor([0.5]))),
        (RuntimeError, "non-empty", lambda: E.quantile(0.5)),
        (RuntimeError, "middle", lambda: X.quantile(0.5, interpolation="middle")),
        (TypeError, "list", lambda: X.quantile([0.5])),
        (RuntimeError, "narrowing", lambda: X.norm(2, dtype=cygrad.float32)),
        (RuntimeError, "maxnorm", lambda: X.renorm(2, 0, -1.0)),
        (RuntimeError, "non-positive", lambda: X.renorm(0, 0, 1.0)),
        (RuntimeError, "2 dimensions", lambda: X[0].renorm(2, 0, 1.0)),
        (RuntimeError, "one-dimensional", lambda: cygrad.diff(cygrad.tensor(1.0))),
        (RuntimeError, "non-negative.*-1", lambda: X.diff(-1)),
        (RuntimeError, "same dimension", lambda: X.diff(prepend=X[0])),
        (RuntimeError, "edge_order=1", lambda: cygrad.gradient(X, edge_order=3)),
        (RuntimeError, r"edge_order\+1", lambda: cygrad.gradient(X[:1])),
        (RuntimeError, "multiple times", lambda: cygrad.gradient(X, dim=(0, 0))),
        (RuntimeError, "length", lambda: cygrad.gradient(X, spacing=(1.0,))),
        (RuntimeError, "sample point", lambda: cygrad.trapezoid(X, PLACES[:5])),
        (RuntimeError, "bool", lambda: cygrad.trapezoid(X > 0)),
        (IndexError, "no dimensions", lambda: cygrad.trapezoid(cygrad.tensor(1.0))),
        (NotImplementedError, "int64", lambda: cygrad.histc(I)),
        (RuntimeError, "bins", lambda: X.histc(0)),
        (RuntimeError, "larger", lambda: X.histc(3, 2, 1)),
        (RuntimeError, "not finite", lambda: with_nan(X).histc()),
        (RuntimeError, "not finite", lambda: with_nan(X).histogram(3)),
        (RuntimeError, "2 elements", lambda: X.histogram(3, range=(1,))),
        (RuntimeError, "same dtype", lambda: X.histogram(cygrad.tensor([1.0, 2.0]))),
        (RuntimeError, "same shape", lambda: X.histogram(3, weight=X[0])),
        (RuntimeError, "2-dimensional", lambda: cygrad.histogramdd(X[:, :2], (3,))),
        (NotImplementedError, "float32", lambda: cygrad.bincount(cygrad.ones(2))),
        (RuntimeError, "negative", lambda: cygrad.bincount(cygrad.tensor([1, -1]))),
        (RuntimeError, "1-d", lambda: cygrad.bincount(I)),
        (RuntimeError, "minlength", lambda: cygrad.bincount(I[0], minlength=-1)),
        (RuntimeError, "same length", lambda: cygrad.bincount(I[0], cygrad.ones(3))),
        (RuntimeError, "two or fewer", lambda: cygrad.cov(CUBE)),
        (RuntimeError, "two or fewer", lambda: cygrad.corrcoef(CUBE)),
        (RuntimeError, "bool", lambda: cygrad.cov(X > 0)),
        (RuntimeError, "integral", lambda: cygrad.cov(X, fweights=WEIGHTS)),
        (RuntimeError, "negative", lambda: cygrad.cov(X, aweights=-WEIGHTS)),
        (RuntimeError, "observations", lambda: cygrad.cov(X, aweights=WEIGHTS[:2])),
        (RuntimeError, "matrix", lambda: cygrad.trace(X[0])),
        (RuntimeError, "appear", lambda: cygrad.amax(X, (0, -2))),
        (TypeError, "input.*Tensor.*list", lambda: cygrad.aminmax([1.0])),
        (TypeError, "other.*Tensor.*int", lambda: cygrad.dist(X, 1)),
    ],
)
def test_bad_input(error, words, call):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("p", [0.5, 1, 2, 3, math.inf])
def test_a_slice_that_renorm_does_not_scale_passes_its_gradient(p, dtype):
    x = cygrad.tensor([[math.nan, 1.0, 2.0], [3.0, 4.0, 0.5]], dtype=getattr(cygrad, dtype)).requires_grad_()
    y = cygrad.renorm(x, p, 0, 0.5)
    g, = cygrad.autograd.grad(y.real.sum() if dtype == "complex128" else y.sum(), x)
    assert g[0].tolist() == [1, 1, 1]
    alone = x.detach()[1:].clone().requires_grad_()
    y = cygrad.renorm(alone, p, 0, 0.5)
    h, = cygrad.autograd.grad(y.real.sum() if dtype == "complex128" else y.sum(), alone)
    assert cygrad.allclose(g[1:], h)


@pytest.mark.parametrize("p", [1.5, 3, 4, -1, -2])
def test_second_gradients_of_norms_stay_with_their_element(p):
    """An element of 0, whose power has no slope, leaves the others alone; so does a norm of 0."""
    x = cygrad.tensor([[0.0, 3.0, -1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 2.0]], dtype=cygrad.float64, requires_grad=True)
    (g,) = cygrad.autograd.grad(cygrad.linalg.vector_norm(x, p, 1).sum(), x, create_graph=True)
    weight = cygrad.tensor([1.0, 2.0, -1.0], dtype=cygrad.float64)
    (second,) = cygrad.autograd.grad((g * weight).sum(), x)
    assert second[::2, 1:].isfinite().all()
    if p > 2:
        assert second[1].tolist() == [0, 0, 0] and second[0, 0] == 0
    step = 1e-6
    for i in (1, 2):
        moved = []
        for sign in (1, -1):
            y = x.detach().clone()
            y[2, i] += sign * step
            y.requires_grad_()
            (gradient,) = cygrad.autograd.grad(cygrad.linalg.vector_norm(y, p, 1).sum(), y)
            moved.append((gradient * weight).sum().item())
        assert second[2, i].item() == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=1e-7)
