"""Functions of neural networks that PyTorch has at its top too, ``cygrad.NAME``; some take other arguments there."""

from __future__ import annotations

from collections.abc import Sequence

from cygrad import Tensor
from cygrad.autograd.autocasting import autocasts
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
from cygrad.nn.modules.rnn_steps import _gru_step, _lstm_step, _plain_step

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "alpha_dropout",
    "alpha_dropout_",
    "avg_pool1d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "dropout",
    "dropout_",
    "embedding",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "group_norm",
    "gru_cell",
    "hardshrink",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "layer_norm",
    "lstm_cell",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool3d",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu_",
    "rms_norm",
    "rnn_relu_cell",
    "rnn_tanh_cell",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
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


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout`, written over the input."""
    return channel_dropout(input, p, train, True)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_alpha_dropout`, written over the input."""
    return F.feature_alpha_dropout(input, p, train, True)


def reduction_of(number: int) -> str:
    """The word for PyTorch's number of a reduction."""
    if number not in (0, 1, 2):
        raise RuntimeError(f"reduction must be 0 (none), 1 (mean) or 2 (sum), got {number}")
    return ("none", "mean", "sum")[number]


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """See `cygrad.nn.functional.kl_div`; here `reduction` is 0 for none, as by default, 1 for mean, 2 for sum."""
    return F.kl_div(input, target, reduction=reduction_of(reduction), log_target=log_target)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 0
) -> Tensor:
    """See `cygrad.nn.functional.binary_cross_entropy_with_logits`; `reduction` as for `kl_div`."""
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=reduction_of(reduction),
                                              pos_weight=pos_weight)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """See `cygrad.nn.functional.hinge_embedding_loss`; `reduction` as for `kl_div`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=reduction_of(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """See `cygrad.nn.functional.cosine_embedding_loss`; `reduction` as for `kl_div`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=reduction_of(reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """See `cygrad.nn.functional.margin_ranking_loss`; `reduction` as for `kl_div`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=reduction_of(reduction))


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """See `cygrad.nn.functional.poisson_nll_loss`; `reduction` as for `kl_div`."""
    return F.poisson_nll_loss(input, target, log_input, full, None, eps, reduction=reduction_of(reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: int = 0
) -> Tensor:
    """See `cygrad.nn.functional.triplet_margin_loss`; `reduction` as for `kl_div`."""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=reduction_of(reduction))


@autocasts(None)
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of an Elman network: see `cygrad.nn.RNNCell`."""
    return _plain_step("RNN_TANH", F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@autocasts(None)
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """`rnn_tanh_cell` with relu in place of tanh."""
    return _plain_step("RNN_RELU", F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@autocasts(None)
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a GRU: see `cygrad.nn.GRUCell`."""
    return _gru_step(F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


@autocasts(None)
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM, of the states ``hx = (h, c)``: see `cygrad.nn.LSTMCell`."""
    h, c = hx
    return _lstm_step(F.linear(input, w_ih, b_ih), h, c, w_hh, b_hh, None)
