"""Noise that is there in training only."""

from __future__ import annotations

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Sets elements to 0 at random in training, see `cygrad.nn.functional.dropout`; the identity in evaluation.

    Parameters
    ----------
    p : float, default 0.5
        Probability of an element to become 0.
    inplace : bool, default False
        Write over the input.

    Raises
    ------
    ValueError
        If `p` is no probability.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels of sequences, see `cygrad.nn.functional.dropout1d`.

    Parameters and errors are those of `Dropout`.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels of images, see `cygrad.nn.functional.dropout2d`.

    Parameters and errors are those of `Dropout`.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels of volumes, see `cygrad.nn.functional.dropout3d`.

    Parameters and errors are those of `Dropout`.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, see `cygrad.nn.functional.alpha_dropout`.

    Parameters and errors are those of `Dropout`.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels, see `cygrad.nn.functional.feature_alpha_dropout`.

    Parameters and errors are those of `Dropout`.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
