"""What a node saves is what the gradients of those inputs read that need one, and nothing else."""

import re
import sys
import warnings
from pathlib import Path

import pytest

import cygrad
from cygrad.autograd.graph import saved_tensors

sys.path.insert(0, str(Path(__file__).resolve().parent))

from row_samples import PUBLIC, call, columns, results

ROWS = [row for row in PUBLIC if row.grad and row.kind in ("pointwise", "kernel", "view")]


def read(row, name):
    """Names of inputs and results that the gradient by one input reads."""
    words = set(re.findall(r"[A-Za-z_]\w*", row.grad[name]))
    return words & {*(p.name for p in row.inputs), *row.outputs}


def cases():
    for row in ROWS:
        for k, p in enumerate(row.params):
            if p.is_tensor and row.grad.get(p.name, "underivable(g)") != "underivable(g)":
                yield pytest.param(row, k, id=f"{row.name}-{p.name}")


@pytest.mark.parametrize(("row", "k"), list(cases()))
def test_nothing_is_saved_for_others(row, k):
    values = [v[0] if isinstance(v, cygrad.Tensor) else v for v in columns(row)]
    if k >= len(values) or not isinstance(values[k], cygrad.Tensor) or not values[k].is_floating_point():
        pytest.skip("not given in the sample")
    values = [v.detach().clone() if isinstance(v, cygrad.Tensor) else v for v in values]
    values[k].requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = next(r for r in results(call(row)(*values)) if r.requires_grad)
    kept = [entry for entry in saved_tensors(y) if entry.node == y.grad_fn.name()]
    assert len(kept) <= len(read(row, row.params[k].name)), [entry.name for entry in kept]


def test_a_gradient_that_reads_nothing_saves_nothing():
    x, w = cygrad.rand(5), cygrad.rand(5, requires_grad=True)
    for y in (w + x, w - x, -w, w.sum(), w.view(5, 1), w[1:], cygrad.cat([w, x]), w.expand(2, 5)):
        assert not len(saved_tensors(y)), y.grad_fn.name()
    assert saved_tensors(w * 2.0).total == 4, "the number"
    assert [entry.name for entry in saved_tensors(w * x)] == ["other"]
    assert [entry.name for entry in saved_tensors(x * w)] == ["self"]
    assert [entry.name for entry in saved_tensors(cygrad.mm(x[None], w[:, None]))] == ["self"]
