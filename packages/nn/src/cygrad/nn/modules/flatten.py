"""Changes of shape as modules."""

from __future__ import annotations

from cygrad import Tensor
from cygrad.nn.modules.module import Module

__all__ = ["Flatten"]


class Flatten(Module):
    """Joins a range of dimensions, by default all but the first.

    Parameters
    ----------
    start_dim, end_dim : int
        First and last dimension that are joined.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
