"""Forward mode through layers that have a gradient of their own, module hooks and checkpoints."""

import pytest

import cygrad
from cygrad import func, nn
from cygrad.nn import functional as F
from cygrad.utils.checkpoint import checkpoint


def inner(a, b):
    return (a * b).sum().item()


def agree(f, *inputs):
    """<u, J t> in forward mode is <J^T u, t> in backward mode."""
    cygrad.manual_seed(0)
    t = tuple(cygrad.randn_like(x) for x in inputs)
    y, moved = func.jvp(f, inputs, t)
    u = cygrad.randn_like(y)
    back = func.vjp(f, *inputs)[1](u)
    assert inner(u, moved) == pytest.approx(sum(inner(g, d) for g, d in zip(back, t, strict=True)), rel=1e-9)


def randn(*shape):
    return cygrad.randn(*shape, dtype=cygrad.float64)


def test_convolutions():
    x, w, b = randn(2, 2, 6), randn(4, 2, 3), randn(4)
    agree(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), x, w, b)
    agree(lambda x, w: F.conv_transpose1d(x, w, stride=2), x, randn(2, 3, 3))
    agree(func.grad(lambda x: F.conv1d(x, w).square().sum()), x)


def test_embeddings_move_all_rows():
    table, index = randn(5, 3), cygrad.tensor([0, 2, 2, 4])
    moved = func.jvp(lambda w: F.embedding(index, w, padding_idx=2), (table,), (table,))[1]
    assert cygrad.equal(moved, table[index])


def test_attention():
    q, k, v = randn(1, 2, 3, 4), randn(1, 2, 5, 4), randn(1, 2, 5, 4)
    agree(F.scaled_dot_product_attention, q, k, v)
    many = randn(1, 1, 700, 2)
    agree(lambda q: F.scaled_dot_product_attention(q, k[..., :1, :, :2], v[..., :1, :, :2]), many)


@pytest.mark.parametrize("norm", [
    lambda x, w, b: F.layer_norm(x, (5,), w, b),
    lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
], ids=["layer_norm", "batch_norm"])  # fmt: skip
def test_gradients_of_normalisation_move_with_all_that_they_are_made_of(norm):
    x, w, b = randn(4, 5), randn(5), randn(5)
    grads = func.grad(lambda x, w, b: norm(x, w, b).pow(3).sum(), argnums=(0, 1, 2))
    for k in range(3):
        agree(lambda x, k=k: grads(x, w, b)[k], x)
        agree(lambda w, k=k: grads(x, w, b)[k], w)
        agree(lambda b, k=k: grads(x, w, b)[k], b)
    factors = randn(4, 5)
    agree(lambda w: func.grad(lambda x: (norm(x, w, b) * factors).sum())(x), w)    # what arrives does not move


def test_module_hooks_and_checkpoints():
    layer = nn.Linear(3, 3, dtype=cygrad.float64)
    x, t = randn(2, 3), randn(2, 3)
    plain = func.jvp(layer, (x,), (t,))[1]
    layer.register_full_backward_hook(lambda *_: None)
    assert cygrad.allclose(func.jvp(layer, (x.clone().requires_grad_(),), (t,))[1], plain)
    kept = func.jvp(lambda x: checkpoint(layer, x, use_reentrant=False), (x.clone().requires_grad_(),), (t,))[1]
    assert cygrad.allclose(kept, plain)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_ctc_in_both_modes_and_twice(zero_infinity, reduction):
    check = pytest.importorskip("cygrad.tools").check
    cygrad.manual_seed(2)
    labels, ins, outs = cygrad.tensor([[1, 2, 0], [2, 2, 1], [1, 1, 0]]), [6, 6, 2], [2, 3, 2]
    if not zero_infinity:
        labels, ins, outs = labels[:2], ins[:2], outs[:2]      # the third loss is infinite

    def loss(x):
        return F.ctc_loss(x.log_softmax(-1), labels, ins, outs, reduction=reduction, zero_infinity=zero_infinity)

    x = randn(6, len(ins), 3)
    report = check(loss, x)
    assert [outcome for _, outcome, _, _ in report.results] == ["passed"] * 6
    agree(func.grad(lambda x: loss(x).sum()), x)
