"""Fourier transforms: the standard's extension of that name, over `cygrad.fft`; they have gradients."""

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


def along_one(name, doc):
    """A transform along one axis."""
    transform = getattr(torch_fft, name)

    def call(x, /, *, n=None, axis=-1, norm="backward"):
        check(name, x)
        return transform(x, n, axis, norm)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return standard(call)


def along_many(name, doc):
    """A transform along several axes, by default all, or with sizes `s` the last ones."""
    transform = getattr(torch_fft, name)

    def call(x, /, *, s=None, axes=None, norm="backward"):
        check(name, x)
        return transform(x, s, axes, norm)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return standard(call)


def check(name, x):
    """The standard promises no conversion of integers."""
    if x.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise TypeError(f"{name}(): a floating or complex array is wanted, got {x.dtype}")


fft = along_one("fft", "The transform along `axis`, of `n` elements: cut, or filled up with zeros.")
ifft = along_one("ifft", "The inverse of `fft`.")
rfft = along_one("rfft", "The half of the transform of real numbers that says all.")
irfft = along_one("irfft", "The inverse of `rfft`; without `n` the result has an even length.")
hfft = along_one("hfft", "The real transform of numbers that are symmetric, of which the first half is given.")
ihfft = along_one("ihfft", "The inverse of `hfft`.")
fftn = along_many("fftn", "The transform along several axes, all by default.")
ifftn = along_many("ifftn", "The inverse of `fftn`.")
rfftn = along_many("rfftn", "`rfft` along the last of several axes, `fft` along the others.")
irfftn = along_many("irfftn", "The inverse of `rfftn`.")


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
