"""Operations along lines, of lengths that kernels take in different ways: in packs or not, held by registers or not."""

import math

import pytest

import cygrad
from cygrad.nn import functional as F

pytestmark = pytest.mark.usefixtures("any_devices")
COUNTS = (1, 3, 16, 33, 1000, 1024, 4096, 4099, 8192, 8200, 20000, 50257)


def close(near, far, error):
    cygrad.testing.assert_close(far.cpu().double(), near.double(), rtol=error, atol=error)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("count", COUNTS)
def test_softmax_and_layer_norm(count, dtype):
    dtype = getattr(cygrad, dtype)
    error = {cygrad.float32: 2e-5, cygrad.float64: 1e-11, cygrad.bfloat16: 2e-2}[dtype]
    x, slope = ((cygrad.randn(3, count, dtype=cygrad.float64) * s).to(dtype) for s in (3, 1))
    w, b = (cygrad.randn(count, dtype=cygrad.float64).to(dtype) for _ in range(2))
    calls = {
        "softmax": (lambda x: x.softmax(-1), x), "log_softmax": (lambda x: x.log_softmax(-1), x),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (count,), w, b), x, w, b),
        "plain layer_norm": (lambda x: F.layer_norm(x, (count,)), x),
    }  # fmt: skip
    for call, *values in calls.values():
        near = [v.clone().double().requires_grad_() for v in values]
        far = [v.cuda().requires_grad_() for v in values]
        y, z = call(*near), call(*far)
        close(y.detach(), z.detach(), error)
        y.backward(slope.double())
        z.backward(slope.cuda())
        for a, b_ in zip(near, far, strict=True):
            close(a.grad, b_.grad, error * max(1, a.grad.abs().max().item()))


@pytest.mark.parametrize("count", [4, 40, 1028, 8200, 20004])
def test_places_of_numbers_that_are_none(count):
    inf, nan = math.inf, math.nan
    for first, second in ((inf, 0), (-inf, 1), (nan, 0), (0, nan), (-inf, -inf), (inf, inf)):
        x = cygrad.randn(2, count)
        x[0, 0], x[0, -1] = first, second
        x[1] = -inf
        for call in (lambda x: x.softmax(1), lambda x: x.log_softmax(1)):
            near, far = call(x), call(x.cuda()).cpu()
            cygrad.testing.assert_close(far, near, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("shape", [(40, 100), (100, 40, 3), (33, 2000)])
def test_lines_across_and_of_views(shape):
    x = cygrad.randn(*shape)
    for dim in range(len(shape)):
        close(x.softmax(dim), x.cuda().softmax(dim), 1e-5)
        close(x[:, 1:].softmax(dim), x.cuda()[:, 1:].softmax(dim), 1e-5)
        close(x.mT.softmax(dim), x.cuda().mT.softmax(dim), 1e-5)


def test_few_lines_are_cut_into_more_lanes_than_many():
    x = cygrad.randn(1, 256).cuda()
    few, many = x.softmax(1).cpu(), x.expand(2000, 256).contiguous().softmax(1).cpu()
    assert (many == many[0]).all()
    close(x.cpu().double().softmax(1), few, 1e-6)
    close(few.double().expand(2000, 256), many, 1e-6)


@pytest.mark.parametrize("count", [1, 5, 64, 1000, 4100])
@pytest.mark.parametrize("outputs", [1, 3, 1200])
def test_reductions_of_any_cut(count, outputs):
    x = cygrad.randn(outputs, count)
    far = x.cuda()
    for call in (
        lambda x: x.sum(1),
        lambda x: x.amax(1),
        lambda x: x.argmax(1),
        lambda x: x.norm(dim=1),
        lambda x: x.logsumexp(1),
        lambda x: (x > 3).any(1),
        lambda x: (x > -9).all(1),
        lambda x: x.var(1, correction=0),
        lambda x: x.t().contiguous().sum(0),
        lambda x: x.t().contiguous().argmin(0),
        lambda x: x[:, ::2].std(1, correction=0),
    ):
        close(call(x.double()), call(far), 1e-4)
