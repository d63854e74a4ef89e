"""Every public row of the op table on a device beside the CPU: results, layouts, gradients, in place."""

import sys
from pathlib import Path

import pytest

import cygrad

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ops"))

from row_samples import PUBLIC, call, columns, results

pytestmark = pytest.mark.usefixtures("any_devices")

# What no device has yet, as the error names it; everything else has to be there.
LACKING = ("linalg.eig and ", "linalg.ldl_factor ", "linalg.ldl_solve ")


def arguments(row, change=lambda x: x):
    """One example of each argument, on the CPU and on the device."""
    values = [v[1] if isinstance(v, cygrad.Tensor) else v for v in columns(row)]
    far = [change(v.cuda()) if isinstance(v, cygrad.Tensor) else v for v in values]
    return [change(v) if isinstance(v, cygrad.Tensor) else v for v in values], far


def attempt(function, *args):
    """The results; skips where the device lacks an operation that it is known to lack."""
    try:
        return function(*args)
    except NotImplementedError as error:
        if not any(name in str(error) for name in LACKING):
            raise
        pytest.skip(str(error))


def same(near, far, tolerance=1e-12):
    assert len(near) == len(far)
    for a, b in zip(near, far, strict=True):
        if not isinstance(a, cygrad.Tensor):
            assert a == b
            continue
        assert b.is_cuda and b.dtype is a.dtype and b.shape == a.shape and b.stride() == a.stride()
        allowed = tolerance if a.is_floating_point() or a.is_complex() else 0
        cygrad.testing.assert_close(b.cpu(), a, rtol=allowed, atol=allowed, equal_nan=True)


@pytest.mark.parametrize("row", PUBLIC, ids=lambda row: row.name)
def test_a_row_gives_on_a_device_what_it_gives_on_the_cpu(row):
    near, far = arguments(row)
    same(results(call(row)(*near)), results(attempt(call(row), *far)))


@pytest.mark.parametrize("row", PUBLIC, ids=lambda row: row.name)
def test_strided_inputs_too(row):
    near, far = arguments(row, lambda x: cygrad.stack([x, x], -1)[..., 0] if x.ndim else x)
    same(results(call(row)(*near)), results(attempt(call(row), *far)))


@pytest.mark.parametrize("row", [row for row in PUBLIC if row.grad], ids=lambda row: row.name)
def test_gradients_are_those_of_the_cpu(row):
    found = []
    for values in arguments(row):
        real = [isinstance(v, cygrad.Tensor) and v.is_floating_point() and row.grad.get(p.name) != "underivable(g)"
                for v, p in zip(values, row.params, strict=False)]  # fmt: skip
        leaves = [v.detach().requires_grad_() if floats else v for v, floats in zip(values, real, strict=True)]
        wanted = [v for v in leaves if isinstance(v, cygrad.Tensor) and v.requires_grad]
        outs = [y for y in results(attempt(call(row), *leaves)) if y.requires_grad and y.is_floating_point()]
        if not outs:
            pytest.skip("nothing to differentiate")
        seeds = [(cygrad.arange(y.numel(), dtype=y.dtype).reshape(y.shape) + 1).to(y.device) for y in outs]
        given = attempt(cygrad.autograd.grad, outs, wanted, seeds, None, False, True)
        found.append([g for g in given if g is not None])
    near, far = found
    assert all(g.is_cuda for g in far)
    for a, b in zip(near, far, strict=True):
        cygrad.testing.assert_close(b.cpu(), a, rtol=1e-11, atol=1e-11, equal_nan=True)


@pytest.mark.parametrize("row", [row for row in PUBLIC if "inplace" in row.api], ids=lambda row: row.name)
def test_in_place(row):
    near, far = arguments(row)
    method = getattr(cygrad.Tensor, row.name + "_")
    try:
        method(near[0], *near[1:])
    except RuntimeError as error:
        with pytest.raises(type(error)):
            method(far[0], *far[1:])
        return
    assert attempt(method, *far) is far[0]
    same([near[0]], [far[0]])
