"""Every public row of the op table as users call it: forms, layouts, derivatives of both orders, PyTorch's results.

The samples are drawn from the rows, so a new row is tested without a line here.
"""

import math
import sys
from pathlib import Path

import pytest

import cygrad
from cygrad.tools.gradcheck import gradcheck, gradgradcheck

sys.path.insert(0, str(Path(__file__).resolve().parent))

from row_samples import ARGUMENTS, INDICES, PUBLIC, SHAPES, TENSORS

POINTWISE = [row for row in PUBLIC if row.kind == "pointwise"]
DIFFERENTIABLE = [row for row in PUBLIC if row.grad]
FLOATS, INTS = ("float32", "float64"), ("uint8", "int32", "int64")
DTYPES = {"float": FLOATS, "int": ("bool", *INTS), "integer": INTS, "number": (*INTS, *FLOATS),
          "all": ("bool", *INTS, *FLOATS)}
INEXACT_THERE = ("special_bessel_y0", "special_bessel_y1")  # PyTorch's results have 11 right digits
LAYOUTS = {
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "sliced": lambda x: cygrad.stack([x, x], -1)[..., 0],
    "shifted": lambda x: cygrad.cat([x[:1], x])[1:],
}

each_public = pytest.mark.parametrize("row", PUBLIC, ids=lambda row: row.name)
each_pointwise = pytest.mark.parametrize("row", POINTWISE, ids=lambda row: row.name)


def random_tensor(row, param, shape, dtype, generator):
    """Values from the row's own range; integers avoid zero, by which some rows divide."""
    low, high = row.test.get("low", -2.0), row.test.get("high", 2.0)
    if param.type == "mask" or dtype == "bool":
        return cygrad.rand(shape, generator=generator) > 0.5
    if dtype in INTS:
        return cygrad.randint(1, 6, shape, generator=generator).to(getattr(cygrad, dtype))
    return low + (high - low) * cygrad.rand(shape, generator=generator, dtype=getattr(cygrad, dtype))


def sample(row, dtype="float64", shape=(2, 3)):
    """Arguments of a call: a tensor for each input, and a value for each argument without a default."""
    generator = cygrad.Generator().manual_seed(sum(map(ord, row.name)))
    shapes = iter(SHAPES.get(row.name, ()))
    arguments = iter(ARGUMENTS.get(row.name, ()))
    values = []
    for param in row.params:
        if param.type == "index":
            values.append(cygrad.tensor(INDICES[row.name]))
        elif param.type == "n":
            values.append(cygrad.tensor(3, dtype=getattr(cygrad, dtype)))
        elif param.type in TENSORS:
            values.append(random_tensor(row, param, next(shapes, shape), dtype, generator))
        elif param.default is None:
            values.append(next(arguments, 1))
    return values


def call(row):
    """The function of a row, or its method where there is no function."""
    if "special" in row.api:
        return getattr(cygrad.special, row.name.removeprefix("special_"))
    if "function" in row.api:
        return getattr(cygrad, row.name)
    return getattr(cygrad.Tensor, row.name if "method" in row.api else row.name + "_")


def results(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def same(a, b):
    return all(map(cygrad.equal, results(a), results(b)))


def leaf(x):
    return x.detach().clone().requires_grad_()


@each_pointwise
@pytest.mark.parametrize("layout", ["contiguous", "expanded", *LAYOUTS])
def test_memory_is_taken_for_the_result_alone(row, layout):
    """An elementwise operation makes no temporary, of inputs in any layout and of halves as little as of others."""
    dtypes = DTYPES[row.types.split()[0]]
    for dtype in {dtypes[-1], "bfloat16" if dtypes[-1] in FLOATS else dtypes[0]}:
        x, *rest = sample(row, dtype if dtype != "bfloat16" else "float32", (50, 401))
        if dtype == "bfloat16":
            x, *rest = (v.to(cygrad.bfloat16) if isinstance(v, cygrad.Tensor) and v.is_floating_point() else v
                        for v in (x, *rest))
        if layout == "expanded":
            x, *rest = (v[:1].expand(50, 401) if isinstance(v, cygrad.Tensor) and v.dim() else v for v in (x, *rest))
        elif layout != "contiguous":
            x, *rest = (LAYOUTS[layout](v) if isinstance(v, cygrad.Tensor) and v.dim() else v for v in (x, *rest))
        in_place = not {"function", "method", "special"} & set(row.api)
        if in_place and layout == "expanded":
            continue
        cygrad.storage.reset_peak()
        before = cygrad.storage.memory_stats()["live_bytes"]
        y = call(row)(x, *rest)
        wanted = 0 if in_place else sum(part.numel() * part.itemsize for part in results(y))
        assert cygrad.storage.memory_stats()["peak_bytes"] - before <= wanted + 4096, dtype


@each_public
def test_all_forms_agree(row):
    dtype = DTYPES[row.types.split()[0]][-1]
    values = sample(row, dtype)
    expected = call(row)(values[0].clone(), *values[1:])
    if "function" in row.api and "method" in row.api:
        assert same(getattr(values[0], row.name)(*values[1:]), expected)
    if "inplace" in row.api:
        x = values[0].clone()
        assert getattr(x, row.name + "_")(*values[1:]) is x
        assert cygrad.equal(x, expected.to(x.dtype))
    if row.out_form and {"function", "special"} & set(row.api):
        outs = [cygrad.empty_like(e) for e in results(expected)]
        given = call(row)(*values, out=tuple(outs) if len(outs) > 1 else outs[0])
        assert all(a is b for a, b in zip(results(given), outs, strict=True))
        assert same(outs, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@each_public
def test_layouts_agree(row, layout):
    values = sample(row, DTYPES[row.types.split()[0]][-1])
    expected = call(row)(*[v.clone() if isinstance(v, cygrad.Tensor) else v for v in values])
    rearranged = [LAYOUTS[layout](v) if isinstance(v, cygrad.Tensor) and v.dim() else v for v in values]
    result = call(row)(*rearranged)
    # a sum over another order of the same numbers rounds differently
    for a, b in zip(results(result), results(expected), strict=True):
        assert cygrad.equal(a, b) or (row.kind == "kernel" and cygrad.allclose(a, b, rtol=1e-14))


@each_pointwise
def test_a_repeated_row_is_broadcast(row):
    dtype = DTYPES[row.types.split()[0]][-1]
    values = sample(row, dtype, shape=(3,))
    expected = call(row)(*[v.clone() for v in values])
    repeated = [v.expand(2, 3) if v.dim() else v for v in values]
    if {"function", "special"} & set(row.api):
        assert cygrad.equal(call(row)(*repeated), expected.expand(2, 3))
    assert cygrad.equal(call(row)(values[0].expand(2, 3).clone(), *values[1:]), expected.expand(2, 3))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1)], ids=str)
@each_pointwise
def test_shapes_without_a_second_element(row, shape):
    for dtype in DTYPES[row.types.split()[0]]:
        values = sample(row, dtype, shape)
        assert call(row)(*values).shape == shape


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=lambda row: row.name)
def test_first_and_second_derivative(row):
    """By finite differences, in every input; the second one reads the formula of the first as tensor operations."""
    derivable = [row.grad.get(p.name) != "underivable(g)" for p in row.params]
    values = [leaf(v) if isinstance(v, cygrad.Tensor) and v.is_floating_point() and yes else v
              for v, yes in zip(sample(row), derivable, strict=False)]
    function = call(row)
    if not {"function", "method", "special"} & set(row.api):
        function = lambda x, *rest: getattr(x.clone(), row.name + "_")(*rest)  # noqa: E731
    if row.returns:  # the first one is differentiable, places are not
        several = function
        function = lambda *args: several(*args)[0]  # noqa: E731
    assert gradcheck(function, values, check_forward_ad=True)
    assert gradgradcheck(function, values, check_fwd_over_rev=True)


FUSED = [row for row in DIFFERENTIABLE if row.kind == "pointwise" and row.fused]


@pytest.mark.parametrize("row", FUSED, ids=lambda row: row.name)
def test_both_readings_of_a_gradient_agree(row):
    """The fused kernel (no graph) and the tensor operations (create_graph) come from one formula."""
    for dtype in FLOATS:
        values = [leaf(v) if v.is_floating_point() else v for v in sample(row, dtype)]
        leaves = [v for v in values if v.requires_grad]
        function = call(row)
        if not {"function", "special"} & set(row.api):
            function = lambda x, *rest: getattr(x.clone(), row.name + "_")(*rest)  # noqa: E731
        weights = cygrad.linspace(0.5, 1.5, 6, dtype=getattr(cygrad, dtype)).view(2, 3)
        fused = cygrad.autograd.grad(function(*values), leaves, weights, allow_unused=True)
        recorded = cygrad.autograd.grad(function(*values), leaves, weights, allow_unused=True, create_graph=True)
        for a, b in zip(fused, recorded, strict=True):
            assert (a is None) == (b is None)
            assert a is None or cygrad.allclose(a, b.detach(), rtol=1e-6 if dtype == "float32" else 1e-14, atol=1e-30)


@pytest.mark.parametrize("number", [2, 1.5, True])
@pytest.mark.parametrize(
    "row", [row for row in POINTWISE if [p.type for p in row.inputs] == ["t", "tn"]], ids=lambda row: row.name
)
def test_numbers_give_pytorchs_result_and_dtype(row, number):
    torch = pytest.importorskip("torch")
    for dtype in DTYPES[row.types.split()[0]]:
        x = sample(row, dtype)[0]
        try:
            theirs = getattr(torch, row.name)(torch.from_numpy(x.numpy().copy()), number)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                getattr(cygrad, row.name)(x, number)
            continue
        ours = getattr(cygrad, row.name)(x, number)
        assert str(ours.dtype) == str(theirs.dtype)
        assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), rel=1e-6, nan_ok=True)


@each_public
def test_results_are_pytorchs(row):
    torch = pytest.importorskip("torch")
    if "special" in row.api:
        reference = getattr(torch.special, row.name.removeprefix("special_"))
    else:
        reference = getattr(torch, row.name, None) if "function" in row.api else getattr(torch.Tensor, row.name, None)
        reference = reference or getattr(torch.Tensor, row.name + "_")
    for dtype in DTYPES[row.types.split()[0]]:
        values = sample(row, dtype)
        theirs = [torch.from_numpy(v.numpy().copy()) if isinstance(v, cygrad.Tensor) else v for v in values]
        try:
            expected = reference(*theirs)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                call(row)(*values)
            continue
        for ours, wanted in zip(results(call(row)(*values)), results(expected), strict=True):
            assert (str(ours.dtype), tuple(ours.shape)) == (str(wanted.dtype), tuple(wanted.shape))
            tolerance = 2e-6 if dtype == "float32" or row.name in INEXACT_THERE else 1e-12
            for a, b in zip(ours.flatten().tolist(), wanted.flatten().tolist(), strict=True):
                assert a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
