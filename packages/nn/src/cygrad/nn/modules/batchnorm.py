"""Normalisation over a batch or an instance, with statistics that are remembered."""

from __future__ import annotations

from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.modules.module import Module
from cygrad.nn.parameter import Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
]


class _NormBase(Module):
    """What both have: running statistics and learnt scale and offset."""

    _version = 2
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        place = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(cygrad.empty(num_features, **place)) if affine else None)
        has_bias = affine and bias
        self.register_parameter("bias", Parameter(cygrad.empty(num_features, **place)) if has_bias else None)
        tracks = track_running_stats
        self.register_buffer("running_mean", cygrad.zeros(num_features, **place) if tracks else None)
        self.register_buffer("running_var", cygrad.ones(num_features, **place) if tracks else None)
        counter = cygrad.tensor(0, dtype=cygrad.int64, device=device) if tracks else None
        self.register_buffer("num_batches_tracked", counter)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the statistics, and set scale and offset to 1 and 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # States from before PyTorch 0.4.1 do not count batches.
            state_dict[key] = cygrad.tensor(0, dtype=cygrad.int64)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                share = 1.0 / float(self.num_batches_tracked)  # the plain mean of all batches
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            by_batch,
            share,
            self.eps,
        )


def _check(module: Module, input: Tensor, dims: tuple[int, ...]) -> None:
    if input.dim() not in dims:
        wanted = " or ".join(f"{d}D" for d in dims)
        raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Normalises each channel over the batch, see `cygrad.nn.functional.batch_norm`: shape (N, C) or (N, C, L).

    In training the statistics are those of the batch, in evaluation those that were remembered.

    Parameters
    ----------
    num_features : int
        C.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float or None, default 0.1
        Share by which the remembered statistics move; None for the plain mean of all batches.
    affine : bool, default True
        Learn a scale and an offset for each channel.
    track_running_stats : bool, default True
        Remember statistics; when False, those of the batch are used in evaluation as well.
    device, dtype : optional
        Of parameters and statistics.
    bias : bool, default True
        Learn an offset, if `affine`.

    Raises
    ------
    ValueError
        In a call, if the input has another number of dimensions.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        _check(self, input, (2, 3))


class BatchNorm2d(_BatchNorm):
    """`BatchNorm1d` for images: shape (N, C, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check(self, input, (4,))


class BatchNorm3d(_BatchNorm):
    """`BatchNorm1d` for volumes: shape (N, C, D, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check(self, input, (5,))


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    _dims: int

    def _check_input_dim(self, input: Tensor) -> None:
        _check(self, input, (self._dims - 1, self._dims))

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channel = input.dim() - self._dims + 1
        if input.shape[channel] != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={channel} to match num_features ({self.num_features}), but got: "
                f"{input.shape[channel]}."
            )
        batch = input if channel == 1 else input.unsqueeze(0)
        result = F.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return result if channel == 1 else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each item, see `cygrad.nn.functional.instance_norm`: shape (N, C, L) or (C, L).

    Parameters
    ----------
    num_features : int
        C.
    eps, momentum, device, dtype, bias
        See `BatchNorm1d`.
    affine : bool, default False
        Learn a scale and an offset for each channel.
    track_running_stats : bool, default False
        Remember statistics, and use them in evaluation.

    Raises
    ------
    ValueError
        In a call, if the input has another number of dimensions or channels.
    """

    _dims = 3


class InstanceNorm2d(_InstanceNorm):
    """`InstanceNorm1d` for images: shape (N, C, H, W) or (C, H, W)."""

    _dims = 4


class InstanceNorm3d(_InstanceNorm):
    """`InstanceNorm1d` for volumes: shape (N, C, D, H, W) or (C, D, H, W)."""

    _dims = 5
