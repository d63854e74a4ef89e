"""Layers that learn the size of their input from the first one that they see."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn.modules.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _InstanceNorm,
)
from cygrad.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from cygrad.nn.modules.linear import Linear
from cygrad.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]

Sizes = int | Sequence[int]


class LazyModuleMixin:
    """Makes a module one that creates its parameters when it is called first.

    A subclass, which names this class before that of the module, assigns `UninitializedParameter` and
    `UninitializedBuffer` in ``__init__`` and defines ``initialize_parameters(*args)``, which is given the arguments of
    the first call and materializes them. Then the module runs, and its class becomes `cls_to_become`.

    Until then it can be converted, moved, copied and saved; loading a state gives the parameters the shapes of the
    state.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize parameters and buffers for the arguments of a call; every subclass defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module, not of its children, has no shape yet."""
        return any(is_lazy(tensor) for tensor in chain(self._parameters.values(), self._buffers.values()))

    def _infer_parameters(self, module: Any, args: tuple, kwargs: dict | None = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        del module._initialize_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _uninitialized(self, names: Sequence[str], device: Any, dtype: Any) -> None:
        for name in names:
            setattr(self, name, UninitializedParameter(device=device, dtype=dtype))


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` whose ``in_features`` are those of its first input.

    Parameters
    ----------
    out_features : int
        Size of the last dimension of the output.
    bias, device, dtype
        See `Linear`.

    Examples
    --------
    >>> import cygrad as torch
    >>> layer = torch.nn.LazyLinear(2)
    >>> layer.weight
    <UninitializedParameter>
    >>> layer(torch.zeros(4, 3)).shape, layer
    (torch.Size([4, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self._uninitialized(("weight", "bias") if bias else ("weight",), device, dtype)
        self.out_features = out_features

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        else:
            self.in_features = self.weight.shape[-1]  # of a loaded state


class _LazyConv(LazyModuleMixin):
    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        groups = self.groups
        if not self.has_uninitialized_params():
            self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * groups
            return
        dims = self._dims
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {input.shape}"
            )
        channels = input.shape[-dims - 1]
        if channels % groups:
            raise ValueError(f"in_channels must be divisible by groups, got {channels} and groups={groups}")
        self.in_channels = channels
        first, second = (channels, self.out_channels) if self.transposed else (self.out_channels, channels)
        self.weight.materialize((first, second // groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyPlainConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._uninitialized(("weight", "bias") if bias else ("weight",), device, dtype)


class LazyConv1d(_LazyPlainConv, Conv1d):
    """A `Conv1d` whose ``in_channels`` are those of its first input; see `LazyLinear`."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlainConv, Conv2d):
    """A `Conv2d` whose ``in_channels`` are those of its first input; see `LazyLinear`."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlainConv, Conv3d):
    """A `Conv3d` whose ``in_channels`` are those of its first input; see `LazyLinear`."""

    cls_to_become = Conv3d


class _LazyTransposedConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, out_channels, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode
        )
        self._uninitialized(("weight", "bias") if bias else ("weight",), device, dtype)


class LazyConvTranspose1d(_LazyTransposedConv, ConvTranspose1d):
    """A `ConvTranspose1d` whose ``in_channels`` are those of its first input; see `LazyLinear`."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposedConv, ConvTranspose2d):
    """A `ConvTranspose2d` whose ``in_channels`` are those of its first input; see `LazyLinear`."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposedConv, ConvTranspose3d):
    """A `ConvTranspose3d` whose ``in_channels`` are those of its first input; see `LazyLinear`."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self._uninitialized(("weight", "bias") if bias else ("weight",), device, dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = cygrad.tensor(0, dtype=cygrad.int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        own = [self.weight, self.bias, self.running_mean, self.running_var]
        if not self.has_uninitialized_params():
            self.num_features = next((len(t) for t in own if t is not None), self.num_features)
            return
        self._check_input_dim(input)
        without_batch = isinstance(self, _InstanceNorm) and input.dim() < self._dims
        self.num_features = input.shape[0 if without_batch else 1]
        for tensor in own:
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` whose ``num_features`` are the channels of its first input; see `LazyLinear`."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` whose ``num_features`` are the channels of its first input; see `LazyLinear`."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` whose ``num_features`` are the channels of its first input; see `LazyLinear`."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An `InstanceNorm1d` whose ``num_features`` are the channels of its first input; see `LazyLinear`."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An `InstanceNorm2d` whose ``num_features`` are the channels of its first input; see `LazyLinear`."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An `InstanceNorm3d` whose ``num_features`` are the channels of its first input; see `LazyLinear`."""

    cls_to_become = InstanceNorm3d
