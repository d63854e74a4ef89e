"""Attention in several heads as a layer."""

from __future__ import annotations

from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.modules.linear import Linear
from cygrad.nn.modules.module import Module
from cygrad.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under the name that it has in PyTorch's states and texts."""


class MultiheadAttention(Module):
    """Learnt projections around attention in several heads.

    Vaswani et al., "Attention is all you need" (2017). A call takes query, key and value, each of shape (L, N, E),
    (N, L, E) with `batch_first`, or (L, E); see `cygrad.nn.functional.multi_head_attention_forward` for the rest.

    Parameters
    ----------
    embed_dim, num_heads : int
        E, and how many heads it is cut into.
    dropout : float, default 0
        Of the weights.
    bias : bool, default True
        Whether projections have biases.
    add_bias_kv, add_zero_attn : bool, default False
        One more key and value: learnt, and of zeros.
    kdim, vdim : int, optional
        Length of keys and values, if it is not E.
    batch_first : bool, default False
        See above.
    device, dtype : optional
        Of the parameters.

    Raises
    ------
    AssertionError
        If the heads do not divide E.
    ValueError
        If a size is not positive.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        place = {"device": device, "dtype": dtype}
        separate = (("q_proj_weight", embed_dim), ("k_proj_weight", self.kdim), ("v_proj_weight", self.vdim))
        if not self._qkv_same_embed_dim:
            for name, size in separate:
                self.register_parameter(name, Parameter(cygrad.empty((embed_dim, size), **place)))
            self.register_parameter("in_proj_weight", None)
        else:
            self.in_proj_weight = Parameter(cygrad.empty((3 * embed_dim, embed_dim), **place))
            for name, _ in separate:
                self.register_parameter(name, None)
        self.register_parameter("in_proj_bias", Parameter(cygrad.empty(3 * embed_dim, **place)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **place)
        for name in ("bias_k", "bias_v"):
            setattr(self, name, None)
            value = Parameter(cygrad.empty((1, 1, embed_dim), **place)) if add_bias_kv else None
            if value is not None:
                delattr(self, name)
                self.register_parameter(name, value)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                init.xavier_normal_(getattr(self, name))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = (x.transpose(0, 1) if x.dim() == 3 else x for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(0, 1) if turned else output), weights
