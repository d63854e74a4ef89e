"""Losses of very many classes, and maxima of random windows."""

import numpy as np
import pytest


# ---- AdaptiveLogSoftmaxWithLoss
@pytest.mark.parametrize("options", [{}, {"div_value": 2.0, "head_bias": True}])
def test_adaptive_softmax_beside_pytorch(torch, oracle, options):
    found = []
    target = [0, 3, 7, 19, 5, 12, 1]
    for lib in (torch, oracle):
        lib.manual_seed(2)
        loss = lib.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10], dtype=lib.float64, **options)
        x = lib.randn(7, 16, dtype=lib.float64).requires_grad_()
        output, value = loss(x, lib.tensor(target))
        value.backward()
        one = loss(x[0], lib.tensor(12))
        assert one.output.shape == () and one.loss.item() == -one.output.item()
        state = loss.state_dict()
        results = [output, value, x.grad, *(p.grad for p in loss.parameters()), loss.log_prob(x), one.output,
            *state.values()]
        found.append((repr(loss), list(state), loss.predict(x).tolist(), loss.predict(x * 0).tolist(),
                      [t.detach().numpy() for t in results]))  # fmt: skip
    assert found[0][:4] == found[1][:4]
    for a, b in zip(found[0][4], found[1][4], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_adaptive_softmax_is_a_distribution(torch, nn):
    torch.manual_seed(0)
    loss = nn.AdaptiveLogSoftmaxWithLoss(32, 12, [3, 7])
    x = torch.randn(6, 32)
    every = loss.log_prob(x)
    assert torch.allclose(every.exp().sum(1), torch.ones(6), atol=1e-5)
    for c in range(12):
        output, value = loss(x, torch.full((6,), c))
        assert torch.allclose(output, every[:, c], atol=1e-5) and torch.allclose(value, -every[:, c].mean(), atol=1e-5)
    assert (loss.predict(x) == every.argmax(1)).all()


def test_adaptive_softmax_that_cannot_be(torch, nn):
    for cutoffs in ([], [5, 3], [0, 3], [3, 3], [20], [2.5]):
        with pytest.raises(ValueError):
            nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)
    loss = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])
    for x, y in ((torch.ones(2, 8), torch.tensor([0, 20])), (torch.ones(2, 8), torch.tensor([0, -1])),
                 (torch.ones(2, 8), torch.tensor([0])), (torch.ones(8), torch.tensor([0])),
                 (torch.ones(2, 8), torch.tensor(0)), (torch.ones(2, 8),
                 torch.zeros(2, 1, dtype=torch.int64))):  # fmt: skip
        with pytest.raises(RuntimeError):
            loss(x, y)


# ---- linear_cross_entropy
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("chunks", [None, {"batch_chunk_size": 3}, {"chunking_method": "aspect_ratio:2"}, {}])
def test_linear_cross_entropy(torch, nn, reduction, weighted, chunks):
    if chunks is not None and not hasattr(nn, "LinearCrossEntropyOptions"):
        pytest.skip("newer than this PyTorch")
    torch.manual_seed(0)
    make = {"dtype": torch.float64, "requires_grad": True}
    x, w, b = torch.randn(8, 4, **make), torch.randn(9, 4, **make), torch.randn(9, **make)
    y = torch.tensor([0, 8, 3, -100, 2, 2, 7, 1])
    factors = torch.rand(9, dtype=torch.float64) if weighted else None
    options = None if chunks is None else nn.LinearCrossEntropyOptions(**chunks)
    F = nn.functional
    results = []
    for at_once in (True, False):
        if at_once:
            loss = F.cross_entropy(F.linear(x, w, b), y, factors, reduction=reduction)
        else:
            loss = F.linear_cross_entropy(x, w, y, linear_bias=b, weight=factors, reduction=reduction, options=options)
        grads = torch.autograd.grad(loss.sum(), (x, w, b))
        results.append([loss, *grads])
    for a, c in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), c.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_chunks_have_gradients_of_every_order(torch, nn, beyond_pytorch):
    torch.manual_seed(0)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 2, 3, 0])
    second = []
    for options in (None, nn.LinearCrossEntropyOptions(batch_chunk_size=2)):
        loss = nn.functional.linear_cross_entropy(x, w, y, options=options)
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        second.append(torch.autograd.grad(g.square().sum(), w)[0])
    assert torch.allclose(*second)


def test_chunks_keep_no_scores(torch, nn, beyond_pytorch):
    """What the graph holds of a chunk are its inputs: scores are computed again."""
    x = torch.randn(64, 8, requires_grad=True)
    w = torch.randn(1000, 8, requires_grad=True)
    y = torch.zeros(64, dtype=torch.int64)
    held = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(t.numel()) or t, lambda t: t):
        nn.functional.linear_cross_entropy(x, w, y, options=nn.LinearCrossEntropyOptions(batch_chunk_size=8)).backward()
    assert max(held) <= 8000


def test_linear_cross_entropy_module(torch, oracle):
    found = []
    for lib in (torch, oracle):
        lib.manual_seed(1)
        options = {"out_features": (2,), "bias": True, "label_smoothing": 0.1}
        loss = lib.nn.LinearCrossEntropyLoss(5, 3, **options, dtype=lib.float64)
        x = lib.randn(4, 5, dtype=lib.float64)
        value = loss(x, lib.tensor([[0, 1], [2, 1], [0, 0], [1, -100]]))
        value.backward()
        soft = loss(x, lib.rand(4, 3, 2, dtype=lib.float64))
        results = [value, soft, *(p.grad for p in loss.parameters()), *loss.state_dict().values()]
        found.append((repr(loss), list(loss.state_dict()), [t.detach().numpy() for t in results]))
    assert found[0][:2] == found[1][:2]
    for a, b in zip(found[0][2], found[1][2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert repr(torch.nn.LinearCrossEntropyOptions()) == repr(oracle.nn.LinearCrossEntropyOptions())


def test_linear_cross_entropy_that_cannot_be(torch, nn):
    F, x, w, y = nn.functional, torch.ones(2, 3), torch.ones(4, 3), torch.tensor([0, 1])
    for args, options, error in (
        ((x[0, 0], w, y), {}, RuntimeError), ((x, w[0], y), {}, RuntimeError), ((x, w[:, :2], y), {}, RuntimeError),
        ((x, w, y), {"linear_bias": torch.ones(3)}, RuntimeError), ((x, w, torch.tensor([0, 4])), {}, IndexError),
        ((x, w, torch.ones(2, 4)), {"ignore_index": 1}, RuntimeError),
        ((x[0], torch.ones(4, 2, 3), y), {}, RuntimeError),
        ((x, w, y), {"reduction": "other"}, ValueError), ((x, w, torch.tensor([0])), {}, ValueError),
    ):  # fmt: skip
        with pytest.raises(error):
            F.linear_cross_entropy(*args, **options)
    for options in ({"acc_policy": "x"}, {"chunking_method": "x"}, {"batch_chunk_size": 0}, {"acc_dtype": torch.int64},
                    {"chunking_method": "aspect_ratio:0"}):  # fmt: skip
        with pytest.raises(ValueError):
            nn.LinearCrossEntropyOptions(**options)
    with pytest.raises(ValueError, match="give different"):
        chunks = nn.LinearCrossEntropyOptions(batch_chunk_size=1, chunking_method="aspect_ratio")
        F.linear_cross_entropy(x, w[:3], y, options=chunks)
    with pytest.warns(UserWarning, match="options"):
        F.linear_cross_entropy(x, w, y, label_smoothing=0.1, options=nn.LinearCrossEntropyOptions())
    with pytest.raises(RuntimeError):
        nn.LinearCrossEntropyLoss(3, 4, weight=torch.ones(3))
    with pytest.raises((TypeError, AttributeError)):     # the second is PyTorch's
        nn.LinearCrossEntropyLoss(3, 2, weight=[1.0, 2.0])
    with pytest.raises(RuntimeError):
        nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2.0)


# ---- fractional max pooling
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape, kernel, sizes", [
    ((2, 3, 7, 9), 2, {"output_size": 3}), ((3, 8, 8), (2, 3), {"output_ratio": (0.5, 0.6)}),
    ((1, 1, 5, 5), 3, {"output_size": (1, 3)}), ((2, 2, 6, 7, 8), 2, {"output_size": (3, 4, 1)}),
    ((2, 6, 6, 6), (1, 2, 3), {"output_ratio": 0.5}), ((1, 2, 4, 4), 1, {"output_size": 4}),
])  # fmt: skip
def test_fractional_max_pool(torch, oracle, shape, kernel, sizes, dtype):
    drawn = np.random.default_rng(0).standard_normal(shape)
    dims = 3 if len(shape) == 5 or len(np.atleast_1d(kernel)) == 3 or shape == (2, 6, 6, 6) else 2
    found = []
    for lib in (torch, oracle):
        x = lib.tensor(drawn.tolist(), dtype=getattr(lib, dtype)).requires_grad_()
        lib.manual_seed(3)
        pool = getattr(lib.nn, f"FractionalMaxPool{dims}d")(kernel, return_indices=True, **sizes)
        values, index = pool(x)
        values.float().sin().sum().backward()
        found.append((repr(pool), values.tolist(), index.tolist(), x.grad.float().tolist()))
    assert found[0][:3] == found[1][:3]
    np.testing.assert_allclose(found[0][3], found[1][3], rtol=1e-2 if dtype == "bfloat16" else 1e-5)


def test_fractional_max_pool_from_given_numbers(torch, nn, oracle):
    F = nn.functional
    x = np.arange(98.0).reshape(1, 2, 7, 7) % 13
    for samples in ([[[0.0, 0.0], [0.99, 0.5]]], [[[0.3, 0.6], [0.6, 0.3]]]):
        both = [lib.nn.functional.fractional_max_pool2d(
            lib.tensor(x.tolist()), 2, output_size=(3,
                5), _random_samples=lib.tensor(samples)) for lib in (torch, oracle)]
        assert both[0].tolist() == both[1].tolist()
    for args, options, error in (
        ((torch.ones(1, 1, 4, 4), 2), {}, ValueError), ((torch.ones(1, 1, 4, 4), 3), {"output_size": 3}, RuntimeError),
        ((torch.ones(4, 4), 2), {"output_size": 2}, (RuntimeError, IndexError)),
        ((torch.ones(1, 0, 4, 4), 2), {"output_size": 2}, RuntimeError),
    ):  # fmt: skip
        with pytest.raises(error):
            F.fractional_max_pool2d(*args, **options)
    for options in ({}, {"output_size": 2, "output_ratio": 0.5}, {"output_ratio": 1.5}):
        with pytest.raises(ValueError):
            nn.FractionalMaxPool2d(2, **options)
