"""Attention: means of values, weighted by how well keys fit a query."""

from __future__ import annotations

import math
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd import Function
from cygrad.autograd._core import all_plain, attention, attention_backward, entitled
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import HALVES, allow_tensors, halves_in_float32, require_tensor
from cygrad.nn.functional.dropouts import dropout
from cygrad.nn.functional.products import linear

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]

BLOCK = 256  # queries at a time: scores of a block and all keys are in memory, never those of all queries
_TITLE = "ScaledDotProductFlashAttentionForCpuBackward0"


@autocasts("low")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return ``softmax(query @ key.T * scale + mask) @ value``.

    Vaswani et al., "Attention is all you need" (2017). Without dropout, blocks of queries are worked through one after
    the other, forwards and backwards, so memory grows with the sequences' length and not its square (Rabe and Staats,
    "Self-attention does not need O(n^2) memory", 2021; Dao et al., "FlashAttention", 2022).

    Parameters
    ----------
    query : Tensor, shape (*, L, E)
    key : Tensor, shape (*, S, E)
    value : Tensor, shape (*, S, V)
    attn_mask : Tensor, optional
        Broadcasts to (*, L, S): bool (False is left out), or numbers that are added to the scores.
    dropout_p : float
        Probability of a weight to become 0.
    is_causal : bool
        Query i sees keys 0 to i only.
    scale : float, optional
        1 / sqrt(E) by default.
    enable_gqa : bool
        Fewer heads (dimension -3) of keys and values than of queries, each for a group of them.

    Returns
    -------
    Tensor, shape (*, L, V)
        Where all keys are left out, the result is 0.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not go together, or `is_causal` is given with a mask.
    """
    _check(query, key, value, attn_mask, is_causal)
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if query.dtype in HALVES:  # scores rounded to halves would be wrong by percents
        mask = attn_mask.float() if attn_mask is not None and attn_mask.is_floating_point() else attn_mask
        wide = (query.float(), key.float(), value.float(), mask, dropout_p, is_causal, scale, enable_gqa)
        result = scaled_dot_product_attention(*wide).to(query.dtype)
        return result if dropout_p else entitled(result, _TITLE)
    if enable_gqa:
        key, value = _repeated(query, key, value)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None and query.shape[-1] else 1.0 if scale is None else scale
    in_one_piece = dropout_p == 0 and _in_one_piece(query, key, value, attn_mask)
    if in_one_piece or (dropout_p == 0 and query.shape[-2] > BLOCK):
        lead = cygrad.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        if attn_mask is not None:
            lead = cygrad.broadcast_shapes(lead, attn_mask.shape[:-2])
        query, key, value = (x if x.shape[:-2] == lead else x.expand(*lead, *x.shape[-2:]) for x in (query, key, value))
        way = _Attention if in_one_piece else _Blocks
        return entitled(way.apply(query, key, value, attn_mask, is_causal, scale), _TITLE)
    weights = _weights(query, key, attn_mask, 0 if is_causal else None, scale)
    return dropout(weights, dropout_p) @ value if dropout_p else entitled(weights @ value, _TITLE)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        require_tensor("scaled_dot_product_attention", name, x)
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype} key.dtype: "
            f"{key.dtype} and value.dtype: {value.dtype} instead."
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be at least 2 dimensional, but got query.dim: {query.dim()} "
            f"key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            "attention wants query (*, L, E), key (*, S, E) and value (*, S, V), got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if mask is not None:
        if is_causal:
            raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")
        wanted = (query.shape[-2], key.shape[-2])
        for size, want in zip(reversed(mask.shape), reversed(wanted), strict=False):
            if size not in (1, want):
                raise RuntimeError(f"attn_mask of shape {tuple(mask.shape)} does not broadcast to scores of {wanted}")
        if mask.dtype not in (cygrad.bool, cygrad.float32, query.dtype):
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{mask.dtype} and query.dtype: {query.dtype} instead."
            )


def _repeated(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values with the heads that queries have."""
    heads = query.shape[-3]
    if heads % key.shape[-3] or heads % value.shape[-3]:
        raise RuntimeError(
            f"Number of heads in key and value must divide the number of heads in query, got {key.shape[-3]}, "
            f"{value.shape[-3]} and {heads}"
        )
    return (
        key.repeat_interleave(heads // key.shape[-3], -3),
        value.repeat_interleave(heads // value.shape[-3], -3),
    )


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, first: int | None, scale: float) -> Tensor:
    """Scores of some queries; `first` is the number of their first, if they see no later keys."""
    # Both factors get the root of the scale, so that the product does not grow beyond need.
    root = math.sqrt(abs(scale))
    scores = query * math.copysign(root, scale) @ (key.mT * root)
    if first is not None:
        rows = cygrad.arange(first, first + query.shape[-2], device=query.device).unsqueeze(-1)
        mask = rows >= cygrad.arange(key.shape[-2], device=key.device)
    if mask is None:
        return scores
    if mask.dtype == cygrad.bool:
        return scores.masked_fill(~mask, float("-inf"))
    return scores + mask.to(scores.dtype)


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, first: int | None, scale: float) -> Tensor:
    scores = _scores(query, key, mask, first, scale)
    if mask is None:
        return scores.softmax(-1)
    # A query that sees nothing has weights 0 and gradients 0, not NaN.
    blind = (scores.detach() == float("-inf")).all(-1, keepdim=True)
    return scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)


def _in_one_piece(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether the kernels of attention serve these."""
    if mask is not None and (mask.requires_grad or not all_plain(mask)):
        return False
    floats = query.dtype in (cygrad.float32, cygrad.float64)
    return floats and all_plain(query, key, value) and min(query.numel(), key.numel(), value.numel()) > 0


class _Attention(Function):
    """Attention by the kernels, which keep one number a query for the gradient.

    A gradient that is itself differentiated, or belongs to vmap, is made of tensor operations.
    """

    generate_vmap_rule = True
    _transposed = True

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        if mask is not None:
            mask = mask if mask.dtype == cygrad.bool else mask.to(query.dtype)
            mask = mask.expand(*query.shape[:-1], key.shape[-2])
        result, top = attention(query, key, value, mask, causal, scale)
        ctx.save_for_backward(query, key, value, mask, result, top)
        ctx.options = causal, scale
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, result, top = ctx.saved_tensors
        if cygrad.is_grad_enabled() or not all_plain(grad, *inputs[:3]):
            return *_block_gradients(grad, *inputs, *ctx.options, False), None, None
        return *attention_backward(grad, *inputs, *ctx.options, result, top), None, None, None


class _Blocks(Function):
    """Attention in blocks of queries; the weights of a block are computed anew for its gradient."""

    generate_vmap_rule = True
    _transposed = True

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, mask)
        ctx.options = causal, scale
        parts = []
        for start in range(0, query.shape[-2], BLOCK):
            rows, seen = _part(query, mask, causal, start)
            parts.append(_weights(rows, key, seen, start if causal else None, scale) @ value)
        return cygrad.cat(parts, -2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *_block_gradients(grad, *ctx.saved_tensors, *ctx.options, ctx.needs_input_grad[3]), None, None


def _block_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    wants_mask: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    queries, masks = [], []
    keys, values = cygrad.zeros_like(key), cygrad.zeros_like(value)
    for start in range(0, query.shape[-2], BLOCK):
        rows, seen = _part(query, mask, causal, start)
        weights = _weights(rows, key, seen, start if causal else None, scale)
        g = grad.narrow(-2, start, rows.shape[-2])
        values = values + weights.mT @ g
        inner = g @ value.mT
        scores = weights * (inner - (inner * weights).sum(-1, keepdim=True))
        queries.append(scores @ key * scale)
        keys = keys + scores.mT @ rows * scale
        if wants_mask:
            masks.append(scores)
    return cygrad.cat(queries, -2), keys, values, _mask_gradient(mask, masks) if wants_mask else None


def _part(query: Tensor, mask: Tensor | None, causal: bool, start: int) -> tuple[Tensor, Tensor | None]:
    """Some queries and what of the mask is theirs."""
    count = min(BLOCK, query.shape[-2] - start)
    rows = query.narrow(-2, start, count)
    if mask is None or mask.dim() < 2 or mask.shape[-2] == 1:
        return rows, mask
    return rows, mask.narrow(-2, start, count)


def _mask_gradient(mask: Tensor, parts: list[Tensor]) -> Tensor:
    """The gradient of numbers added to the scores, summed to their shape."""
    return cygrad.cat(parts, -2).sum_to_size(mask.shape).to(mask.dtype)


# ---- several heads -----------------------------------------------------------------------------------------------
@halves_in_float32
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Project queries, keys and values, attend in several heads, and project the result.

    Parameters
    ----------
    query : Tensor, shape (L, N, E) or (L, E)
    key, value : Tensor, shape (S, N, E) or (S, E)
    embed_dim_to_check : int
        E of the query.
    num_heads : int
        Divides E.
    in_proj_weight, in_proj_bias : Tensor, shape (3 * E, E) and (3 * E,)
        Projections of all three, one below the other; or `q_proj_weight`, `k_proj_weight` and `v_proj_weight` with
        `use_separate_proj_weight`.
    bias_k, bias_v : Tensor, shape (1, 1, E), optional
        One more key and value.
    add_zero_attn : bool
        One more key and value of zeros.
    dropout_p : float
        Probability of a weight to become 0 in `training`.
    out_proj_weight, out_proj_bias : Tensor, shape (E, E) and (E,)
    key_padding_mask : Tensor, shape (N, S) or (S,), optional
        True where a key is left out, or numbers that are added to the scores.
    need_weights : bool
        Return the weights, too.
    attn_mask : Tensor, shape (L, S) or (N * num_heads, L, S), optional
        True where a key is left out, or numbers that are added to the scores.
    static_k, static_v : Tensor, shape (N * num_heads, S, E / num_heads), optional
        In place of projected keys and values.
    average_attn_weights : bool
        Return the mean over the heads.
    is_causal : bool
        A hint that `attn_mask` is causal.

    Returns
    -------
    output : Tensor, shape of `query`
    weights : Tensor, shape (N, L, S) or (N, num_heads, L, S), or None

    Raises
    ------
    AssertionError, RuntimeError
        If shapes do not go together.
    """
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else (in_proj_weight,)
    _check_tensors((query, key, value, *weights, out_proj_weight), in_proj_bias=in_proj_bias, bias_k=bias_k,
                   bias_v=bias_v, out_proj_bias=out_proj_bias, key_padding_mask=key_padding_mask, attn_mask=attn_mask,
                   static_k=static_k, static_v=static_v)
    batched = _check_heads(query, key, value, embed_dim_to_check, num_heads, key_padding_mask, attn_mask)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    weights_in = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight.chunk(3)
    biases_in = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights_in, biases_in, strict=True))
    more = (bias_k is not None and bias_v is not None) + add_zero_attn
    mask = _joined_mask(attn_mask, key_padding_mask, q, key.shape[0], num_heads, more)
    q = _in_heads(q, num_heads, None, None, False)
    k = _in_heads(k, num_heads, bias_k if bias_v is not None else None, static_k, add_zero_attn)
    v = _in_heads(v, num_heads, bias_v if bias_k is not None else None, static_v, add_zero_attn)
    return _attend(
        q,
        k,
        v,
        mask,
        dropout_p if training else 0.0,
        query.shape,
        num_heads,
        out_proj_weight,
        out_proj_bias,
        need_weights,
        average_attn_weights,
        batched,
    )


def _in_heads(x: Tensor, heads: int, extra: Tensor | None, static: Tensor | None, zero: bool) -> Tensor:
    """Shape (N * heads, S, E / heads), with one more row each if wanted."""
    if static is not None:
        if extra is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        x = static
    else:
        x = x if extra is None else cygrad.cat([x, extra.repeat(1, x.shape[1], 1)])
        x = x.reshape(x.shape[0], x.shape[1] * heads, x.shape[2] // heads).transpose(0, 1)
    return cygrad.cat([x, x.new_zeros(x.shape[0], 1, x.shape[2])], 1) if zero else x


def _joined_mask(
    mask: Tensor | None, padding: Tensor | None, like: Tensor, sources: int, heads: int, more: int
) -> Tensor | None:
    """Both masks as numbers to be added to scores of shape (N * heads, L, sources + more)."""
    length, batch = like.shape[:2]
    mask = _shaped_mask(_float_mask(mask, like, "attn_mask"), length, sources, batch * heads)
    padding = _float_mask(padding, like, "key_padding_mask")
    if more:
        mask, padding = (m if m is None else cygrad.constant_pad_nd(m, (0, more), 0) for m in (mask, padding))
    if padding is None:
        return mask
    padding = padding.view(batch, 1, 1, -1).expand(-1, heads, -1, -1).reshape(batch * heads, 1, -1)
    return padding if mask is None else mask + padding


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    chance: float,
    shape: tuple[int, ...],
    heads: int,
    weight: Tensor,
    bias: Tensor | None,
    need_weights: bool,
    average: bool,
    batched: bool,
) -> tuple[Tensor, Tensor | None]:
    """Attention of all heads, projected; and the weights."""
    length, batch, embed = shape
    shown = None
    if need_weights:
        weights = (q * math.sqrt(1.0 / q.shape[2])) @ k.mT
        weights = (weights if mask is None else weights + mask).softmax(-1)
        weights = dropout(weights, chance) if chance else weights
        attended = weights @ v
        shown = weights.view(batch, heads, length, weights.shape[2])
        shown = shown.mean(1) if average else shown
        shown = shown if batched else shown.squeeze(0)
    else:
        attended = scaled_dot_product_attention(q, k, v, mask, chance)
    output = linear(attended.transpose(0, 1).reshape(length * batch, embed), weight, bias)
    output = output.view(length, batch, output.shape[1])
    return output if batched else output.squeeze(1), shown


def _check_tensors(wanted: tuple[Any, ...], **allowed: Any) -> None:
    for x in wanted:
        require_tensor("multi_head_attention_forward", "query, key, value or a weight of them", x)
    allow_tensors("multi_head_attention_forward", **allowed)


def _check_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed: int,
    heads: int,
    padding: Tensor | None,
    mask: Tensor | None,
) -> bool:
    """Whether there is a batch dimension, if the shapes go together."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"For {'batched (3-D)' if batched else 'unbatched (2-D)'} `query`, expected `key` and `value` to be "
            f"{query.dim()}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if query.shape[-1] != embed:
        raise AssertionError(f"was expecting embedding dimension of {embed}, but got {query.shape[-1]}")
    if embed % heads:
        raise AssertionError(f"embed_dim {embed} not divisible by num_heads {heads}")
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(
            f"key's sequence and batch dims {tuple(key.shape[:-1])} do not match value's {tuple(value.shape[:-1])}"
        )
    if padding is not None:
        wanted = (key.shape[1], key.shape[0]) if batched else (key.shape[0],)
        if tuple(padding.shape) != wanted:
            raise AssertionError(f"Expected key_padded_mask.shape to be {wanted}, but got {tuple(padding.shape)}")
    if mask is not None and mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    return batched


def _float_mask(mask: Tensor | None, like: Tensor, name: str) -> Tensor | None:
    """A mask as numbers that are added to scores."""
    if mask is None:
        return None
    if mask.dtype == cygrad.bool:
        return cygrad.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, float("-inf"))
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
    return mask


def _shaped_mask(mask: Tensor | None, length: int, sources: int, rows: int) -> Tensor | None:
    if mask is None:
        return None
    wanted = (length, sources) if mask.dim() == 2 else (rows, length, sources)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {tuple(mask.shape)}, but should be {wanted}.")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask
