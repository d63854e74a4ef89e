"""Batch normalization in evaluation mode, put into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn.functional.checks import require_tensor
from cygrad.nn.modules.module import require_module
from cygrad.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _check(name: str, layer: Any, bn: Any) -> None:
    require_module(name, name[5:-8], layer)
    require_module(name, "bn", bn)
    # AssertionError, as PyTorch raises.
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def _check_weights(function: str, **tensors: Any) -> None:
    for name, tensor in tensors.items():
        if tensor is not None or name in ("conv_w", "linear_w", "bn_rm", "bn_rv"):
            require_tensor(function, name, tensor)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a convolution that does what `conv` and then `bn` do.

    Parameters
    ----------
    conv : convolution, in evaluation mode
    bn : BatchNorm, in evaluation mode
        With statistics.
    transpose : bool
        Whether the convolution is a transposed one.

    Raises
    ------
    AssertionError
        If one is in training mode, or there are no statistics.
    """
    _check("fuse_conv_bn_eval", conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of `fuse_conv_bn_eval`, from those of the convolution and what the normalization has."""
    _check_weights("fuse_conv_bn_weights", conv_w=conv_w, conv_b=conv_b, bn_rm=bn_rm, bn_rv=bn_rv, bn_w=bn_w, bn_b=bn_b)
    offset = cygrad.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else scale * bn_w
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2))
    bias = (offset - bn_rm) * scale
    bias = bias if bn_b is None else bias + bn_b
    return (
        Parameter(weight.detach().to(conv_w.dtype), conv_w.requires_grad),
        Parameter(bias.detach().to((conv_w if conv_b is None else conv_b).dtype), offset.requires_grad),
    )


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a linear layer that does what `linear` and then `bn` do; see `fuse_conv_bn_eval`.

    AssertionError as well if the normalization has neither one feature nor as many as the layer gives.
    """
    _check("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features="
            f"{linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of `fuse_linear_bn_eval`, from those of the layer and what the normalization has."""
    _check_weights("fuse_linear_bn_weights", linear_w=linear_w, linear_b=linear_b)
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
