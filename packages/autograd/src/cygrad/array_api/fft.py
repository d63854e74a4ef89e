"""Fourier transforms: the standard's extension of that name, computed by NumPy's pocketfft. They have no gradients."""

import cygrad
from cygrad import fft as torch_fft

from ._array import standard

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def transform(name, x, **options):
    """NumPy's function of that name."""
    import numpy

    if x.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise TypeError(f"{name}(): a floating or complex array is wanted, got {x.dtype}")
    if x.requires_grad:
        raise NotImplementedError(f"{name}() has no gradient: pass x.detach()")
    found = getattr(numpy.fft, name)(x.numpy(), **options)
    return cygrad.from_numpy(numpy.ascontiguousarray(found))


@standard
def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform along `axis`, of `n` elements: cut, or filled up with zeros."""
    return transform("fft", x, n=n, axis=axis, norm=norm)


@standard
def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `fft`."""
    return transform("ifft", x, n=n, axis=axis, norm=norm)


@standard
def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """The transform along several axes, all by default."""
    return transform("fftn", x, s=s, axes=paired(s, axes, x), norm=norm)


@standard
def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of `fftn`."""
    return transform("ifftn", x, s=s, axes=paired(s, axes, x), norm=norm)


@standard
def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The half of the transform of real numbers that says all."""
    return transform("rfft", x, n=n, axis=axis, norm=norm)


@standard
def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `rfft`; without `n` the result has an even length."""
    return transform("irfft", x, n=n, axis=axis, norm=norm)


@standard
def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """`rfft` along the last of several axes, `fft` along the others."""
    return transform("rfftn", x, s=s, axes=paired(s, axes, x), norm=norm)


@standard
def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of `rfftn`."""
    return transform("irfftn", x, s=s, axes=paired(s, axes, x), norm=norm)


@standard
def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The real transform of numbers that are symmetric, of which the first half is given."""
    return transform("hfft", x, n=n, axis=axis, norm=norm)


@standard
def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `hfft`."""
    return transform("ihfft", x, n=n, axis=axis, norm=norm)


def paired(s, axes, x):
    """The axes that sizes belong to: by default the last ones."""
    return tuple(range(x.ndim - len(s), x.ndim)) if s is not None and axes is None else axes


@standard
def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the elements that `fft` of `n` samples at distance `d` gives."""
    return torch_fft.fftfreq(n, d, dtype=dtype, device=device)


@standard
def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the elements that `rfft` gives."""
    return torch_fft.rfftfreq(n, d, dtype=dtype, device=device)


@standard
def fftshift(x, /, *, axes=None):
    """Frequency 0 moved to the middle."""
    return torch_fft.fftshift(x, axes)


@standard
def ifftshift(x, /, *, axes=None):
    """The inverse of `fftshift`."""
    return torch_fft.ifftshift(x, axes)
