"""Transformers: encoders and decoders of attention and feed-forward layers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.modules.attention import MultiheadAttention
from cygrad.nn.modules.container import ModuleList
from cygrad.nn.modules.dropout import Dropout
from cygrad.nn.modules.linear import Linear
from cygrad.nn.modules.module import Module
from cygrad.nn.modules.normalization import LayerNorm
from cygrad.nn.modules.utils import _check_room

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _activation(name: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(name, str):
        return name
    if name not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {name}")
    return F.relu if name == "relu" else F.gelu


def _copies(module: Module, count: int) -> ModuleList:
    if not isinstance(module, Module):
        raise TypeError(f"a layer to be copied has to be a Module, not {type(module).__name__}")
    if not isinstance(count, int):
        raise TypeError(f"num_layers should be of type int, got: {type(count).__name__}")
    _check_room(count)
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class _Layer(Module):
    """What encoder and decoder layers share: the feed-forward part, and where norms stand."""

    norm_first: bool

    def _make_feed_forward(
        self, d_model: int, hidden: int, dropout: float, activation: Activation, bias: bool, place: dict[str, Any]
    ) -> None:
        self.linear1 = Linear(d_model, hidden, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(hidden, d_model, bias=bias, **place)
        self.activation = _activation(activation)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _around(self, x: Tensor, norm: Module, inner: Callable[[Tensor], Tensor]) -> Tensor:
        """The input plus what a part makes of it, with the norm before or behind."""
        return x + inner(norm(x)) if self.norm_first else norm(x + inner(x))

    @staticmethod
    def _attend(
        attention: MultiheadAttention,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        padding: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        return attention(
            x,
            memory,
            memory,
            attn_mask=mask,
            key_padding_mask=padding,
            need_weights=False,
            is_causal=is_causal and mask is not None,
        )[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a norm.

    Parameters
    ----------
    d_model, nhead : int
        Length of an element, and heads that it is cut into.
    dim_feedforward : int, default 2048
        Width of the feed-forward network.
    dropout : float, default 0.1
    activation : {"relu", "gelu"} or callable
    layer_norm_eps : float, default 1e-5
    batch_first : bool, default False
        Whether sequences have shape (N, L, E) or (L, N, E).
    norm_first : bool, default False
        Norms before the parts, in place of behind them.
    bias : bool, default True
    device, dtype : optional
        Of the parameters.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self._make_feed_forward(d_model, dim_feedforward, dropout, activation, bias, place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.dropout1(self._attend(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal))

        x = self._around(src, self.norm1, attend)
        return self._around(x, self.norm2, lambda y: self.dropout2(self._feed_forward(y)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's result, and a feed-forward network; see `TransformerEncoderLayer`."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self._make_feed_forward(d_model, dim_feedforward, dropout, activation, bias, place)
        self.norm_first = norm_first
        for i in (1, 2, 3):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        for i in (1, 2, 3):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def own(x: Tensor) -> Tensor:
            return self.dropout1(self._attend(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))

        def other(x: Tensor) -> Tensor:
            attended = self._attend(
                self.multihead_attn, x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )
            return self.dropout2(attended)

        x = self._around(tgt, self.norm1, own)
        x = self._around(x, self.norm2, other)
        return self._around(x, self.norm3, lambda y: self.dropout3(self._feed_forward(y)))


class TransformerEncoder(Module):
    """Encoder layers on top of each other.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        Copied for each layer.
    num_layers : int
    norm : Module, optional
        Behind the last.
    enable_nested_tensor, mask_check : bool
        Accepted for PyTorch programs: they choose between implementations of the same.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Decoder layers on top of each other.

    Parameters
    ----------
    decoder_layer : TransformerDecoderLayer
        Copied for each layer.
    num_layers : int
    norm : Module, optional
        Behind the last.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                bool(tgt_is_causal),
                memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder.

    Vaswani et al., "Attention is all you need" (2017). A call takes source and target sequences, (S, N, E) and
    (T, N, E) or with the batch first, and masks of both; it returns the decoder's result.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype
        See `TransformerEncoderLayer`.
    num_encoder_layers, num_decoder_layers : int, default 6
    custom_encoder, custom_decoder : Module, optional
        In place of those made here.

    Raises
    ------
    RuntimeError
        In a call, if batch sizes or lengths of elements differ.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer: Module = TransformerEncoderLayer(*options, **place)
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            layer = TransformerDecoderLayer(*options, **place)
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(f"the batch number of src and tgt must be equal, got {src.shape} and {tgt.shape}")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model={self.d_model}, got {src.shape} and "
                f"{tgt.shape}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return a mask of numbers that lets position i see positions 0 to i only, shape (sz, sz)."""
        full = cygrad.full((sz, sz), float("-inf"), dtype=dtype, device=device)
        return full.triu(1)
