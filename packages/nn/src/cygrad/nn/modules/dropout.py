"""Noise that is there in training only."""

from __future__ import annotations

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.module import Module

__all__ = ["Dropout"]


class Dropout(Module):
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

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
