"""Linear maps."""

from __future__ import annotations

import cygrad
from cygrad import Tensor
from cygrad.autograd._core import _autocasts, _uncast_call, deliver, entitled
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import halves_in_float32, require_tensor

__all__ = ["bilinear", "linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor, shape (*, in_features)
    weight : Tensor, shape (out_features, in_features) or (in_features,)
    bias : Tensor, shape (out_features,), optional
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor, shape (*, out_features)

    Raises
    ------
    RuntimeError
        If the sizes or the dtypes do not go together.
    """
    if out is not None:
        return deliver(_uncast_call(linear, (input, weight, bias), {}), out, True)
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
    if bias is None:
        return product if dims == 2 else entitled(product, "SqueezeBackward4" if dims == 1 else "UnsafeViewBackward0")
    product = product + (bias.to(product.dtype) if _autocasts() else bias)
    return entitled(product, "ViewBackward0" if dims == 1 else "AddBackward0")


@autocasts(None)
@halves_in_float32
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input1 @ weight[k] @ input2 + bias[k]`` for every k.

    Parameters
    ----------
    input1 : Tensor, shape (*, in1)
    input2 : Tensor, shape (*, in2)
    weight : Tensor, shape (out, in1, in2)
    bias : Tensor, shape (out,), optional

    Returns
    -------
    Tensor, shape (*, out)

    Raises
    ------
    RuntimeError
        If the sizes do not go together.
    """
    for name, value in (("input1", input1), ("input2", input2), ("weight", weight)):
        require_tensor("bilinear", name, value)
    if bias is not None:
        require_tensor("bilinear", "bias", bias)
    if weight.dim() != 3:
        raise RuntimeError(f"bilinear(): weight must have 3 dimensions, got shape {list(weight.shape)}")
    if input1.dim() != input2.dim():
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}")
    for dim, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if a != b:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {dim}: got {a} and {b}")
    for name, value, size in (("input1", input1, weight.shape[1]), ("input2", input2, weight.shape[2])):
        if value.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {value.shape[-1]} but expected {size}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {weight.shape[0]}"
        )
    result = cygrad.einsum(
        "bi,oij,bj->bo", input1.reshape(-1, weight.shape[1]), weight, input2.reshape(-1, weight.shape[2])
    ).reshape(*input1.shape[:-1], weight.shape[0])
    result = result.contiguous()
    return result if bias is None else result + bias
