"""More elements at the ends of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import cygrad
from cygrad import Tensor

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Put more elements at both ends of the last dimensions.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        How many before and behind in the last dimension, then in the one before it, and so on; negative ones cut off.
    mode : {"constant"}
        All have one value.
    value : number, optional
        0 by default.

    Raises
    ------
    NotImplementedError
        The mode is another one.
    """
    if mode != "constant":
        raise NotImplementedError(f"pad(): the mode {mode!r} is not there; the modes are: 'constant'")
    return cygrad.constant_pad_nd(input, tuple(pad), 0 if value is None else value)
