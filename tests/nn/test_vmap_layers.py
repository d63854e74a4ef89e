"""Layers inside vmap: equal to the loop over the examples, for inputs and filters that differ, with their gradients."""

import pytest

import cygrad as torch
from cygrad.nn import functional as F

DOUBLE = torch.float64


def loop(function, columns, dims):
    rows = [[c if d is None else c[k] for c, d in zip(columns, dims, strict=True)] for k in range(2)]
    return torch.stack([function(*row) for row in rows])


LAYERS = {
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), [(3, 4, 7), (6, 4, 3), (6,)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1, dilation=2), [(2, 3, 6, 5), (4, 3, 2, 3), (4,)]),
    "grouped": (lambda x, w: F.conv2d(x, w, groups=2), [(2, 4, 5, 5), (6, 2, 3, 3)]),
    "unbatched": (lambda x, w: F.conv2d(x, w), [(3, 5, 5), (4, 3, 2, 2)]),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1), [(2, 3, 4, 4), (3, 2, 3, 3)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, ceil_mode=True), [(2, 3, 5, 5)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, stride=2), [(2, 3, 7, 7)]),
    "adaptive": (lambda x: F.adaptive_avg_pool1d(x, 3), [(2, 3, 7)]),
    "unfold": (lambda x: F.unfold(x, 2), [(2, 3, 4, 4)]),
    "fold": (lambda x: F.fold(x, (4, 4), 2), [(2, 12, 9)]),
    "linear": (lambda x, w, b: F.linear(x, w, b), [(5, 3), (4, 3), (4,)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), [(3, 4), (4,), (4,)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 5, 4), (2, 6, 4), (2, 6, 3)]),
}


def choices(count):
    yield (0,) * count
    if count > 1:
        for k in range(count):
            yield tuple(0 if i == k else None for i in range(count))


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    function, shapes = LAYERS[name]
    torch.manual_seed(0)
    whole = [torch.randn(2, *shape, dtype=DOUBLE) for shape in shapes]
    for dims in choices(len(shapes)):
        outcomes = []
        for way in (lambda *a, d=dims: torch.vmap(function, in_dims=d)(*a), lambda *a, d=dims: loop(function, a, d)):
            args = [(c if d == 0 else c[0]).clone().requires_grad_() for c, d in zip(whole, dims, strict=True)]
            y = way(*args)
            first = torch.autograd.grad((y * y).sum(), args, create_graph=True)
            second = torch.autograd.grad(sum((g * g).sum() for g in first), args)
            outcomes.append([y.detach(), *(g.detach() for g in first), *second])
        for a, b in zip(*outcomes, strict=True):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-9), dims


@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_classes(weighted):
    torch.manual_seed(0)
    scores, labels = torch.randn(3, 5, 4, dtype=DOUBLE), torch.randint(0, 4, (3, 5))
    weight = torch.rand(4, dtype=DOUBLE) if weighted else None
    loss = lambda s, t: F.cross_entropy(s, t, weight=weight)  # noqa: E731
    expected = torch.stack([loss(scores[k], labels[k]) for k in range(3)])
    assert torch.allclose(torch.vmap(loss)(scores, labels), expected)
    labels[1, 2] = 4
    with pytest.raises(IndexError, match="out of bounds"):
        torch.vmap(loss)(scores, labels)


def test_lookups_and_codes():
    table, index = torch.randn(6, 3, dtype=DOUBLE, requires_grad=True), torch.tensor([[0, 5, 0], [2, 2, 1]])
    rows = torch.vmap(lambda i: F.embedding(i, table, padding_idx=2))(index)
    assert torch.equal(rows, table[index])
    (g,) = torch.autograd.grad(rows.sum(), table)
    assert g[:, 0].tolist() == [2.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert torch.equal(torch.vmap(lambda i: F.one_hot(i, 6))(index), F.one_hot(index, 6))


def test_dropout_draws_as_asked():
    x = torch.ones(3, 200)
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(F.dropout)(x)
    same = torch.vmap(F.dropout, randomness="same")(x)
    other = torch.vmap(F.dropout, randomness="different")(x)
    assert torch.equal(same[0], same[1]) and not torch.equal(other[0], other[1])
    shared = torch.vmap(lambda r: F.dropout(x[0]) * r, randomness="different")(x)
    assert not torch.equal(shared[0], shared[1])
