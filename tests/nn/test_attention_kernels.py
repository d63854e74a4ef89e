"""Attention by its kernels: beside PyTorch, beside recorded operations, around the sizes of blocks, in all ways to
differentiate."""

import numpy as np
import pytest

SIZES = [(1, 1, 1, 1), (5, 7, 3, 2), (63, 64, 8, 8), (65, 257, 8, 5), (200, 300, 33, 16), (130, 600, 4, 4)]


def close(got, want, tolerance):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


def written_out(torch, q, k, v, mask=None, causal=False, scale=None):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        mask = torch.arange(q.shape[-2]).unsqueeze(-1) >= torch.arange(k.shape[-2])
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ v


def masks(torch, kind, rows, keys, dtype):
    """A mask of which every query sees something."""
    seen = (torch.arange(rows * keys).reshape(rows, keys) % 3 != 0) | (torch.arange(keys) == 0)
    return {"none": {}, "causal": {"is_causal": True}, "bool": {"attn_mask": seen},
            "row": {"attn_mask": torch.arange(keys).to(dtype).cos()},
            "column": {"attn_mask": torch.arange(rows).to(dtype).sin().unsqueeze(-1)},
            "heads": {"attn_mask": torch.arange(2 * rows * keys).reshape(2, 1, rows, keys).to(dtype).sin()}}[kind]


@pytest.mark.parametrize("kind", ["none", "causal", "bool", "row", "column", "heads"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_results_and_gradients(torch, sizes, kind):
    rows, keys, depth, width = sizes
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 2e-4)):
        torch.manual_seed(5)
        shapes = (rows, depth), (keys, depth), (keys, width)
        made = [torch.randn(2, 3, *s, dtype=dtype, requires_grad=True) for s in shapes]
        options = masks(torch, kind, rows, keys, dtype)
        y = torch.nn.functional.scaled_dot_product_attention(*made, **options)
        assert y.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
        want = written_out(torch, *made, options.get("attn_mask"), "is_causal" in options)
        close([y, *torch.autograd.grad(y.sin().sum(), made)], [want, *torch.autograd.grad(want.sin().sum(), made)],
              tolerance)


def test_heads_that_are_views(torch):
    """Queries, keys and values side by side in one matrix, heads across its columns; batches that broadcast."""
    x = torch.randn(2, 70, 3 * 4 * 8, dtype=torch.float64, requires_grad=True)
    q, k, v = (part.view(2, 70, 4, 8).transpose(1, 2) for part in x.split(32, 2))
    for inputs in ((q, k, v), (q, k[:, :1], v[:1]), (q[..., :1, :], k, v), (q.mT, k.mT, v.mT),
                   (q[:, :, ::7], k.flip(-1), v)):
        seen = []
        for way in (torch.nn.functional.scaled_dot_product_attention, lambda *i: written_out(torch, *i)):
            y = way(*inputs)
            seen.append([y, *torch.autograd.grad(y.mT.contiguous().sin().sum(), x)])
        close(*seen, 1e-10)


def test_queries_that_see_nothing(torch):
    q, k, v = (torch.randn(70, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = torch.arange(70).unsqueeze(-1).expand(70, 70) % 2 == 0
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    assert (y[1::2] == 0).all()
    grads = torch.autograd.grad(y.sum(), (q, k, v))
    assert all(g.isfinite().all() for g in grads)
    assert (grads[0][1::2] == 0).all()


def test_nan_and_infinity_stay_in_their_rows(torch):
    q, k, v = (torch.ones(3, 4) for _ in range(3))
    q[1, 0] = float("nan")
    q[2, 0] = float("inf")
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert y.isnan().any(-1).tolist() == [False, True, True]


def test_large_scores(torch):
    """The largest score of a row is taken off before the exponential, wherever it stands."""
    q = torch.full((1, 4), 100.0)
    k = torch.linspace(-100, 100, 600).unsqueeze(-1).expand(600, 4).contiguous()
    v = torch.arange(600.0).unsqueeze(-1)
    for keys in (k, k.flip(0)):
        close([torch.nn.functional.scaled_dot_product_attention(q, keys, v)], [written_out(torch, q, keys, v)], 1e-4)


def test_transforms_and_second_derivatives(torch):
    torch.manual_seed(1)
    q, k, v = (torch.randn(5, 2, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def ways(way):
        def total(x):
            return way(x, k.detach(), v.detach()).sin().sum()

        first = torch.autograd.grad(way(q, k, v).sin().sum(), (q, k, v), create_graph=True)
        x, func = q.detach(), torch.func
        several = torch.stack([x, x.cos()])
        return [*first, *torch.autograd.grad(sum(g.cos().sum() for g in first), (q, k, v)),
                func.vmap(lambda a: way(a, k.detach(), v.detach()))(several), func.vmap(func.grad(total))(several),
                func.jacrev(total)(x), func.jacfwd(total)(x), func.hessian(total)(x),
                func.jacrev(lambda a: way(a, k.detach(), v.detach()))(x)]

    close(ways(lambda *i: torch.nn.functional.scaled_dot_product_attention(*i, is_causal=True)),
          ways(lambda *i: written_out(torch, *i, causal=True)), 1e-10)


def test_any_number_of_threads_gives_the_same_bits(torch):
    made = [torch.randn(6, 300, 32, requires_grad=True) for _ in range(3)]
    before, seen = torch.get_num_threads(), []
    for threads in (1, 4):
        torch.set_num_threads(threads)
        try:
            y = torch.nn.functional.scaled_dot_product_attention(*made, is_causal=True)
            seen.append([y, *torch.autograd.grad((y * y).sum(), made)])
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(p, q) for p, q in zip(*seen, strict=True))


def test_bad_arguments(torch):
    from cygrad.autograd import _core

    x, one = torch.ones(2, 3, 4), torch.ones(2, 3)
    for q, k, v, mask in (
        (x, x[:1], x, None), (x, x[..., :2], x, None), (x, x, x[:, :2], None), (x, x, x[..., :0], None),
        (x, x, x, torch.ones(2, 3, 2)), (x, x, x, torch.ones(3, 3)), (x, x, x, torch.ones(2, 3, 3).int()),
        (x.int(), x.int(), x.int(), None), (x[0, 0], x[0, 0], x[0, 0], None),
    ):
        with pytest.raises(RuntimeError, match="do not go together"):
            _core.attention(q, k, v, mask, False, 1.0)
    with pytest.raises(TypeError, match="one dtype"):
        _core.attention(x, x, x.double(), None, False, 1.0)
    with pytest.raises(RuntimeError, match="the sums must"):
        _core.attention_backward(x, x, x, x, None, False, 1.0, x, one[:1])
    with pytest.raises(RuntimeError, match="the gradient must"):
        _core.attention_backward(x[:1], x, x, x, None, False, 1.0, x, one)
