"""Each row of the op table: backward, forward mode, both by vmap, and second derivatives in both modes, against finite
differences, on real and complex inputs in each memory layout.
"""

import sys
import warnings
from pathlib import Path

import pytest

import cygrad

sys.path.insert(0, str(Path(__file__).resolve().parent))

from row_samples import PUBLIC, call, columns, results

tools = pytest.importorskip("cygrad.tools.gradcheck")

LAYOUTS = ("contiguous", "transposed", "stepped", "offset", "expanded", "complex")
ROWS = [row for row in PUBLIC if row.grad]


def laid_out(x, layout):
    """A leaf with the elements of x, and a function that makes of it what the operation is given."""
    if layout == "expanded" and x.ndim and x.shape[0] > 1:
        return x[:1].clone().requires_grad_(), lambda leaf: leaf.expand(x.shape)
    if layout == "transposed" and x.ndim:
        x = x.transpose(0, -1).clone(memory_format=cygrad.contiguous_format).transpose(0, -1)
    elif layout == "stepped":
        x = cygrad.stack([x, x + 1], -1)[..., 0]
    elif layout == "offset":
        x = cygrad.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)
    elif layout == "complex":
        x = cygrad.complex(x, x.flip(0) / 2 if x.ndim else x / 2)
    else:
        x = x.clone()
    return x.detach().requires_grad_(), lambda leaf: leaf


def problem(row, layout):
    """A function of the tensors that the row is differentiated by, and these."""
    plain = call(row)
    values = [v[0] if isinstance(v, cygrad.Tensor) else v for v in columns(row)]
    leaves, shown = [], {}
    for k, (v, p) in enumerate(zip(values, row.params, strict=False)):
        if not isinstance(v, cygrad.Tensor) or not v.is_floating_point():
            continue
        if row.grad.get(p.name) != "underivable(g)":
            leaf, show = laid_out(v, layout)
            shown[k] = (len(leaves), show)
            leaves.append(leaf)
        elif layout == "complex":
            values[k] = v.to(cygrad.complex128)

    def function(*given):
        arguments = list(values)
        for k, (at, show) in shown.items():
            arguments[k] = show(given[at])
        return tuple(y for y in results(plain(*arguments)) if y.is_floating_point() or y.is_complex())

    return function, leaves


CASES = [(row, v) for row in ROWS for v in LAYOUTS if v != "complex" or "complex" in row.types.split()]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="vmap: there is no batching rule")
        yield


@pytest.mark.parametrize(("row", "layout"), CASES, ids=lambda v: v if isinstance(v, str) else v.name)
def test_derivatives(row, layout):
    options = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert tools.gradcheck(*problem(row, layout), **options)


@pytest.mark.parametrize(
    ("row", "layout"), [c for c in CASES if c[1] in ("expanded", "complex")], ids=lambda v: getattr(v, "name", v)
)
def test_second_derivatives(row, layout):
    function, leaves = problem(row, layout)
    options = {"check_fwd_over_rev": True, "check_batched_grad": True}
    assert tools.gradgradcheck(function, leaves, atol=1e-4, **options)
