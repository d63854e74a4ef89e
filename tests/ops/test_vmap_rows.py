"""vmap over every public row of the op table equals the loop: each choice of mapped inputs, and gradients too."""

import itertools
import sys
import warnings
from pathlib import Path

import pytest

import cygrad
from cygrad.storage.opgen.parse import load

sys.path.insert(0, str(Path(__file__).resolve().parent))

from row_samples import DYNAMIC, FLOAT, PUBLIC, B, call, columns, results


def by_loop(function, values, dims):
    each = [
        results(function(*[v if d is None else v.select(d, k) for v, d in zip(values, dims, strict=True)]))
        for k in range(B)
    ]
    return [cygrad.stack(list(column)) for column in zip(*each, strict=True)]


def close(a, b):
    return (
        a.dtype is b.dtype
        and a.shape == b.shape
        and cygrad.allclose(a.double(), b.double(), rtol=1e-12, atol=1e-14, equal_nan=True)
    )


def choices(values):
    """in_dims that map some of the tensors, the last one from the other end."""
    places = [i for i, v in enumerate(values) if isinstance(v, cygrad.Tensor)]
    for n in range(1, len(places) + 1):
        for mapped in itertools.combinations(places, n):
            yield tuple(0 if i in mapped else None for i in range(len(values)))


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="vmap: there is no batching rule")
        yield


@pytest.mark.parametrize("row", [r for r in PUBLIC if r.name not in DYNAMIC], ids=lambda row: row.name)
def test_each_choice_of_mapped_inputs(row):
    function, whole = call(row), columns(row)
    for dims in choices(whole):
        values = [v[0] if isinstance(v, cygrad.Tensor) and d is None else v for v, d in zip(whole, dims, strict=True)]
        got = results(cygrad.vmap(function, in_dims=dims)(*values))
        for a, b in zip(got, by_loop(function, values, dims), strict=True):
            assert close(a, b), dims
        last = tuple(None if d is None else -1 for d in dims)
        turned = [v.movedim(0, -1) if d is not None else v for v, d in zip(values, dims, strict=True)]
        for a, b in zip(results(cygrad.vmap(function, in_dims=last)(*turned)), got, strict=True):
            assert close(a, b), last


@pytest.mark.parametrize("row", [r for r in PUBLIC if r.kind == "pointwise"], ids=lambda row: row.name)
def test_without_dimensions_and_in_place(row):
    """Examples that are numbers, and the in-place form."""
    function = call(row)
    whole = [v.flatten(1)[:, 0] if isinstance(v, cygrad.Tensor) and v.ndim > 1 else v for v in columns(row)]
    dims = tuple(0 if isinstance(v, cygrad.Tensor) else None for v in whole)
    assert close(cygrad.vmap(function, in_dims=dims)(*whole), by_loop(function, whole, dims)[0])
    if "inplace" in row.api and row.out != "bool":
        whole = columns(row)
        write = lambda x, *rest: getattr(x.clone(), row.name + "_")(*rest)  # noqa: E731
        assert close(cygrad.vmap(write, in_dims=dims)(*whole), by_loop(write, whole, dims)[0])


@pytest.mark.parametrize("row", [r for r in PUBLIC if r.grad and r.name not in DYNAMIC], ids=lambda row: row.name)
def test_gradients_are_those_of_the_loop(row):
    """Of mapped inputs one for each example, of shared ones their sum; first and second order."""
    plain, whole = call(row), columns(row)
    function = (lambda *a: plain(*a)[0]) if row.returns else plain
    derivable = [row.grad.get(p.name) != "underivable(g)" for p in row.params]
    wants = [
        isinstance(v, cygrad.Tensor) and v.is_floating_point() and yes for v, yes in zip(whole, derivable, strict=False)
    ]
    for dims in list(choices(whole))[:: 2 if len(whole) > 2 else 1]:
        outcomes = []
        for way in (
            lambda *v, dims=dims: cygrad.vmap(function, in_dims=dims)(*v),
            lambda *v, dims=dims: by_loop(function, v, dims)[0],
        ):
            values = [
                (v[0] if isinstance(v, cygrad.Tensor) and d is None else v) for v, d in zip(whole, dims, strict=True)
            ]
            values = [v.detach().clone().requires_grad_() if w else v for v, w in zip(values, wants, strict=True)]
            leaves = [v for v, w in zip(values, wants, strict=True) if w]
            y = way(*values)
            weight = cygrad.linspace(0.5, 1.5, y.numel(), dtype=FLOAT).view(y.shape)
            first = cygrad.autograd.grad((y * weight).sum(), leaves, create_graph=True, allow_unused=True)
            scalar = sum(
                ((g * g).sum() for g in first if g is not None and g.requires_grad),
                cygrad.zeros((), requires_grad=True),
            )
            second = cygrad.autograd.grad(scalar, leaves, allow_unused=True)
            zero = cygrad.zeros((), dtype=FLOAT)
            outcomes.append([zero if g is None else g.detach() for g in (*first, *second)])
        for a, b in zip(*outcomes, strict=True):
            assert cygrad.allclose(a.expand(b.shape) if a.ndim == 0 else a, b, rtol=1e-8, atol=1e-10, equal_nan=True), (
                dims
            )


@pytest.mark.parametrize("row", [r for r in PUBLIC if r.grad], ids=lambda row: row.name)
def test_backward_for_several_gradients_at_once(row):
    function = call(row)
    values = [v[0] if isinstance(v, cygrad.Tensor) else v for v in columns(row)]
    derivable = [row.grad.get(p.name) != "underivable(g)" for p in row.params]
    leaves = []
    for k, (v, yes) in enumerate(zip(values, derivable, strict=False)):
        if isinstance(v, cygrad.Tensor) and v.is_floating_point() and yes:
            values[k] = v.detach().clone().requires_grad_()
            leaves.append(values[k])
    y = results(function(*values))[0]
    weights = cygrad.stack([cygrad.linspace(k + 0.5, 2, y.numel(), dtype=y.dtype).view(y.shape) for k in range(2)])
    for create in (False, True):
        options = {"retain_graph": True, "create_graph": create, "allow_unused": True}
        whole = cygrad.autograd.grad(y, leaves, weights, is_grads_batched=True, **options)
        for k in range(2):
            for a, b in zip(whole, cygrad.autograd.grad(y, leaves, weights[k], **options), strict=True):
                assert (a is None) == (b is None)
                assert a is None or cygrad.allclose(a[k].detach(), b.detach(), rtol=1e-10, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize(
    "name", ["sum", "softmax", "sort", "mm", "gather", "flip", "add", "where", "index_select", "tril", "amax"]
)
def test_nested_in_each_order(name):
    x, w = cygrad.rand(2, 3, 4, 4, dtype=FLOAT), cygrad.rand(3, 4, 4, dtype=FLOAT)
    i = cygrad.tensor([[1, 0], [3, 2], [0, 0]])
    function = {
        "sum": lambda a, b, i: a.sum(1),
        "softmax": lambda a, b, i: a.softmax(0),
        "sort": lambda a, b, i: a.sort(0)[1],
        "mm": lambda a, b, i: a.mm(b),
        "gather": lambda a, b, i: a.gather(0, i[None].expand(2, 2)),
        "flip": lambda a, b, i: a.flip(0, 1),
        "add": lambda a, b, i: a + b[0] * a.max(),
        "where": lambda a, b, i: cygrad.where(a > b, a, 0),
        "index_select": lambda a, b, i: a.index_select(1, i),
        "tril": lambda a, b, i: a.tril(1),
        "amax": lambda a, b, i: a.amax(),
    }[name]
    inner = cygrad.vmap(function, in_dims=(0, 0, 0))
    outer = cygrad.vmap(inner, in_dims=(0, None, None))
    other = cygrad.vmap(cygrad.vmap(function, in_dims=(0, None, None)), in_dims=(1, 0, 0), out_dims=1)
    expected = cygrad.stack([cygrad.stack([function(x[a, b], w[b], i[b]) for b in range(3)]) for a in range(2)])
    assert close(outer(x, w, i), expected) and close(other(x, w, i), expected)


@pytest.mark.parametrize("name", DYNAMIC)
def test_shapes_that_depend_on_values_are_refused(name):
    row = load()[name]
    with pytest.raises(RuntimeError, match="dynamic shape"):
        cygrad.vmap(call(row))(*columns(row))
