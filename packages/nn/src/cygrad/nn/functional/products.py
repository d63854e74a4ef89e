"""Linear maps."""

from __future__ import annotations

import cygrad
from cygrad import Tensor
from cygrad.nn.functional.checks import require_tensor

__all__ = ["linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor, shape (*, in_features)
    weight : Tensor, shape (out_features, in_features) or (in_features,)
    bias : Tensor, shape (out_features,), optional

    Returns
    -------
    Tensor, shape (*, out_features)

    Raises
    ------
    RuntimeError
        If the sizes or the dtypes do not go together.
    """
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))):
        for name, value in (("input", input), ("weight", weight), ("bias", bias)):
            require_tensor("linear", name, value)
    dims = input.dim()
    if bias is not None and weight.dim() == 2:
        if dims == 2:
            return cygrad.addmm(bias, input, weight.t())
        if dims > 2 and input.is_contiguous():
            return cygrad.addmm(bias, input.flatten(0, -2), weight.t()).view(*input.shape[:-1], weight.shape[0])
    if dims == 0:
        raise RuntimeError("linear needs an input of at least one dimension, got a 0-d input")
    product = input.matmul(weight.t())
    return product if bias is None else product + bias
