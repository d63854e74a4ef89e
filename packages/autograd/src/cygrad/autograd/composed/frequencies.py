"""Helpers of Fourier transforms: where frequencies lie."""

from collections.abc import Sequence

from cygrad.storage.core import device as Device
from cygrad.storage.core import dtype as DType
from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from . import composed
from ._args import dtype_arg, int_arg, tensor_arg, wrap_dim


def shifted(input, dim, name, sign):
    """`input` rolled by half of its size, forward or back, along each of the dimensions."""
    tensor_arg(input, name)
    dims = range(input.ndim) if dim is None else dim if isinstance(dim, tuple | list) else (dim,)
    dims = [wrap_dim(d, input.ndim, name) for d in dims]
    sizes = input.shape or (1,)
    # up to a half, rounded down going forward and up going back: one undoes the other
    shifts = [sizes[d] // 2 if sign > 0 else (sizes[d] + 1) // 2 for d in dims]
    return input.roll(shifts, dims) if shifts else input.clone()


@composed("fft")
def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Frequency 0, which a transform gives first, moved to the middle.

    Parameters
    ----------
    input : Tensor
    dim : int or tuple of int, optional
        Default: all.

    Raises
    ------
    IndexError
        There is no such dimension.
    """
    return shifted(input, dim, "fft_fftshift", 1)


@composed("fft")
def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return shifted(input, dim, "fft_ifftshift", -1)


def spaced(counts, n, d, name, dtype, layout, device, requires_grad):
    """Frequencies of `n` samples at distance `d`, in units of 1 / (n d) given by `counts`."""
    n = int_arg(n, name, "n")
    if n < 1:
        raise RuntimeError(f"{name}(): at least one sample is wanted, got n={n}")
    kind = dtype_arg(dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype, got {kind}")
    place = _core.empty(0, layout=layout, device=device).device
    y = (counts(n).to(dtypes["float64"]) / (n * d)).to(place, kind)
    return y.requires_grad_() if requires_grad else y


@composed("fft out")
def fftfreq(n: int, d: float = 1.0, *, dtype: DType | None = None, layout=None, device: str | Device | None = None,
            requires_grad: bool = False) -> Tensor:
    """The frequencies of the elements that a transform of `n` samples at distance `d` gives.

    Parameters
    ----------
    n : int
    d : float
    dtype : dtype, optional
        Default: the default dtype.
    """
    def counts(n):
        return _core.cat([_core.arange((n + 1) // 2), _core.arange(-(n // 2), 0)])

    return spaced(counts, n, d, "fft_fftfreq", dtype, layout, device, requires_grad)


@composed("fft out")
def rfftfreq(n: int, d: float = 1.0, *, dtype: DType | None = None, layout=None, device: str | Device | None = None,
             requires_grad: bool = False) -> Tensor:
    """The frequencies of the elements that the transform of `n` real samples gives: those that are not negative."""
    return spaced(lambda n: _core.arange(n // 2 + 1), n, d, "fft_rfftfreq", dtype, layout, device, requires_grad)
