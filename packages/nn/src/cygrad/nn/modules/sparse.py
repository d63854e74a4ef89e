"""Tables of rows that are looked up by number."""

from __future__ import annotations

from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.modules.module import Module
from cygrad.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def _make(
        self,
        size: tuple[int, int],
        padding_idx: int | None,
        weight: Tensor | None,
        freeze: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        self.num_embeddings, self.embedding_dim = size
        if padding_idx is not None:
            if not -size[0] <= padding_idx < size[0]:
                raise AssertionError(f"Padding_idx must be within num_embeddings, {size[0]}, got {padding_idx}")
            padding_idx = padding_idx + size[0] if padding_idx < 0 else padding_idx
        self.padding_idx = padding_idx
        if weight is None:
            self.weight = Parameter(cygrad.empty(size, device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
        elif not isinstance(weight, Tensor):
            raise TypeError(f"{type(self).__name__}(): _weight must be a Tensor, not {type(weight).__name__}")
        elif tuple(weight.shape) != size:
            raise AssertionError(
                f"Shape of weight does not match num_embeddings and embedding_dim: {tuple(weight.shape)}, not {size}"
            )
        else:
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw the table from the standard normal distribution; the padding row is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with cygrad.no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Rows of a learnt table, see `cygrad.nn.functional.embedding`.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Number and length of the rows.
    padding_idx : int, optional
        A row that starts with zeros and gets no gradient.
    max_norm, norm_type, scale_grad_by_freq, sparse
        See there.
    device, dtype : optional
        Of the table.

    Raises
    ------
    AssertionError
        If `padding_idx` is none of the rows.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make((num_embeddings, embedding_dim), padding_idx, _weight, _freeze, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Make one over a table that is there.

        Parameters
        ----------
        embeddings : Tensor, shape (V, D)
        freeze : bool, default True
            Do not train it.
        padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
            See `Embedding`.
        """
        if embeddings.dim() != 2:
            raise AssertionError(f"Embeddings parameter is expected to be 2-dimensional, got {embeddings.dim()}")
        return cls(*embeddings.shape, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text if self.sparse is False else text + ", sparse=True"


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a learnt table, see `cygrad.nn.functional.embedding_bag`.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Number and length of the rows.
    max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx
        See there.
    device, dtype : optional
        Of the table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._make((num_embeddings, embedding_dim), padding_idx, _weight, False, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Make one over a table that is there; see `Embedding.from_pretrained`."""
        if embeddings.dim() != 2:
            raise AssertionError(f"Embeddings parameter is expected to be 2-dimensional, got {embeddings.dim()}")
        bag = cls(
            *embeddings.shape,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        bag.weight.requires_grad_(not freeze)
        return bag

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm!r}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type!r}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq!r}"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else text + f", padding_idx={self.padding_idx}"
