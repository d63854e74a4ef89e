"""Elements set to 0 at random."""

from __future__ import annotations

import cygrad
from cygrad import Tensor
from cygrad.nn.functional.checks import require_tensor

__all__ = ["dropout"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to 0 at random and scale the others so that the mean stays.

    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (2014).

    Parameters
    ----------
    input : Tensor
    p : float
        Probability of an element to become 0.
    training : bool
        When False, the input is returned as it is.
    inplace : bool
        Write over the input.

    Raises
    ------
    ValueError
        If `p` is no probability.
    """
    require_tensor("dropout", "input", input)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    noise = cygrad.empty_like(input, requires_grad=False).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(noise) if inplace else input * noise
