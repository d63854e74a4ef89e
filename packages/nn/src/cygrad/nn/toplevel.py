"""Functions of neural networks that PyTorch has at its top too, ``cygrad.NAME``; some take other arguments there."""

from __future__ import annotations

from collections.abc import Sequence

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.functional import (
    adaptive_avg_pool1d,
    avg_pool1d,
    bilinear,
    celu,
    celu_,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    ctc_loss,
    hardshrink,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool3d,
    pairwise_distance,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    relu_,
    rms_norm,
    rrelu,
    rrelu_,
    selu,
    selu_,
    threshold,
    threshold_,
)
from cygrad.nn.functional.dropouts import channel_dropout

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "alpha_dropout",
    "alpha_dropout_",
    "avg_pool1d",
    "batch_norm",
    "bilinear",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "ctc_loss",
    "dropout",
    "dropout_",
    "embedding",
    "feature_alpha_dropout",
    "feature_dropout",
    "group_norm",
    "hardshrink",
    "instance_norm",
    "layer_norm",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool3d",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "threshold",
    "threshold_",
]


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """See `cygrad.nn.functional.dropout`."""
    return F.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout`, written over the input."""
    return F.dropout(input, p, train, True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """See `cygrad.nn.functional.alpha_dropout`."""
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout`, written over the input."""
    return F.alpha_dropout(input, p, train, True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` of whole channels, see `cygrad.nn.functional.dropout2d`."""
    return channel_dropout(input, p, train, False)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """See `cygrad.nn.functional.feature_alpha_dropout`."""
    return F.feature_alpha_dropout(input, p, train)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """See `cygrad.nn.functional.layer_norm`."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """See `cygrad.nn.functional.group_norm`."""
    return F.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """See `cygrad.nn.functional.batch_norm`."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """See `cygrad.nn.functional.instance_norm`."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """See `cygrad.nn.functional.embedding`; here `padding_idx` -1 means none."""
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(indices, weight, padding, None, 2.0, scale_grad_by_freq, sparse)


def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> tuple[Tensor, Tensor]:
    """See `cygrad.nn.functional.adaptive_max_pool1d`; here places are returned always."""
    return F.adaptive_max_pool1d_with_indices(input, output_size)
