"""Discrete Fourier transforms, computed by NumPy (pocketfft), on devices by products, with gradients of every order.

Three primitives carry all: complex to complex, real to complex, and complex with Hermitian symmetry to real. Each is
linear, so its tangent is the transform of the tangent, and its gradient the adjoint transform of the gradient. Imported
when first used: NumPy is.
"""

from collections.abc import Sequence

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from ..function import Function
from . import composed
from . import fourier_products as products
from ._args import int_arg, ints_arg, tensor_arg, wrap_dim

# Scale of a transform of n points: 1, 1 / sqrt(n), 1 / n; with NumPy's name of it in forward and in inverse transforms.
NONE, ROOT, FULL = range(3)
NUMPY_FORWARD, NUMPY_INVERSE = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")
COMPLEX = {dtypes["float32"]: dtypes["complex64"], dtypes["float64"]: dtypes["complex128"]}
NAMES = {"float16": "Half", "bfloat16": "BFloat16", "complex64": "ComplexFloat", "complex128": "ComplexDouble"}


def by_numpy(name, x, forward, scale, dtype, axes, s=None):
    """NumPy's transform of that name of the values of `x`, as a new row-major tensor of `dtype`."""
    import numpy

    norm = (NUMPY_FORWARD if forward else NUMPY_INVERSE)[scale]
    values = x.detach().numpy()
    if len(axes) == 1:                     # the same loop, with less around it
        y = getattr(numpy.fft, name[:-1])(values, None if s is None else s[0], axes[0], norm)
    else:
        y = getattr(numpy.fft, name)(values, s, axes, norm)
    return _core.from_numpy(numpy.ascontiguousarray(y)).to(dtype)           # NumPy 1 computes in double only


class FftC2C(Function):
    """Complex to complex, along `dims`, counted from the first."""

    @staticmethod
    def forward(x, dims, scale, forward):
        if x.device.type != "cpu":
            return products.complex_to_complex(x, dims, forward, products.divisor([x.shape[d] for d in dims], scale))
        return by_numpy("fftn" if forward else "ifftn", x, forward, scale, x.dtype, axes=dims)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.options = inputs[1:]

    @staticmethod
    def backward(ctx, g):
        dims, scale, forward = ctx.options
        return FftC2C.apply(g, dims, scale, not forward), None, None, None

    @staticmethod
    def jvp(ctx, t, *_):
        return FftC2C.apply(t, *ctx.options)

    @staticmethod
    def vmap(info, in_dims, x, dims, *options):
        return FftC2C.apply(x.movedim(in_dims[0], 0), tuple(d + 1 for d in dims), *options), 0


class FftR2C(Function):
    """Real to complex, forward, along `dims`: of the last of them, the half that says all."""

    @staticmethod
    def forward(x, dims, scale):
        if x.device.type != "cpu":
            points = products.divisor([x.shape[d] for d in dims], scale)
            return products.real_to_complex(x, dims, points, COMPLEX[x.dtype])
        return by_numpy("rfftn", x, True, scale, COMPLEX[x.dtype], axes=dims)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.options, ctx.n = inputs[1:], inputs[0].shape[inputs[1][-1]]

    @staticmethod
    def backward(ctx, g):
        dims, scale = ctx.options
        whole = fitted(g, dims[-1:], (ctx.n,))
        return FftC2C.apply(whole, dims, scale, False).real.contiguous(), None, None

    @staticmethod
    def jvp(ctx, t, *_):
        return FftR2C.apply(t, *ctx.options)

    @staticmethod
    def vmap(info, in_dims, x, dims, scale):
        return FftR2C.apply(x.movedim(in_dims[0], 0), tuple(d + 1 for d in dims), scale), 0


class FftC2R(Function):
    """The inverse transform to `n` real numbers along the last of `dims`, of which half the spectrum is given."""

    @staticmethod
    def forward(x, dims, scale, n):
        sizes = [*(x.shape[d] for d in dims[:-1]), n]
        if x.device.type != "cpu":
            return products.complex_to_real(x, dims, products.divisor(sizes, scale), n)
        return by_numpy("irfftn", x, False, scale, x.real.dtype, s=sizes, axes=dims)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.options, ctx.half = inputs[1:], inputs[0].shape[inputs[1][-1]]

    @staticmethod
    def backward(ctx, g):
        dims, scale, n = ctx.options
        y = FftR2C.apply(g, dims, scale)
        # all but frequency 0, and the highest of an even number, stand for two elements of the whole spectrum
        weights = _core.ones(y.shape[dims[-1]], dtype=g.dtype, device=g.device)
        weights[1 : (n + 1) // 2] = 2
        y = y * weights.reshape([-1 if d == dims[-1] else 1 for d in range(y.dim())])
        return fitted(y, dims[-1:], (ctx.half,)), None, None, None

    @staticmethod
    def jvp(ctx, t, *_):
        return FftC2R.apply(t, *ctx.options)

    @staticmethod
    def vmap(info, in_dims, x, dims, scale, n):
        return FftC2R.apply(x.movedim(in_dims[0], 0), tuple(d + 1 for d in dims), scale, n), 0


def scale_of(norm, forward):
    """The scale that a user's word for the normalisation means."""
    words = {None: NONE, "backward": NONE, "ortho": ROOT, "forward": FULL}
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"fft: argument 'norm' must be str, not {type(norm).__name__}")
    if norm not in words:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"; wanted is "forward", "backward" or "ortho"')
    return words[norm] if forward else FULL - words[norm]


def promoted(x, name, to_complex=False, real=False):
    """`x` in a dtype that has transforms."""
    tensor_arg(x, "fft_" + name)
    if real and x.is_complex():
        raise RuntimeError(f"{name} expects a real input tensor, but got {NAMES[x.dtype.name]}")
    if x.dtype.name in ("float16", "bfloat16"):
        raise RuntimeError(f"{name}: Unsupported dtype {NAMES[x.dtype.name]}: use x.float()")
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_core.get_default_dtype())
    return x.to(COMPLEX[x.dtype]) if to_complex and not x.is_complex() else x


def checked(size):
    if size < 1:
        raise RuntimeError(f"Invalid number of data points ({size}) specified")
    return size


def fitted(x, dims, sizes):
    """`x` cut, or filled up with zeros at the end, to the sizes along the dimensions."""
    for d, n in zip(dims, sizes, strict=True):
        if n < x.shape[d]:
            x = x.narrow(d, 0, n)
        elif n > x.shape[d]:
            filling = list(x.shape)
            filling[d] = n - x.shape[d]
            x = _core.cat([x, x.new_zeros(filling)], d)
    return x


def one_dim(x, n, dim, name):
    """Dimension and size of a transform along one dimension."""
    if x.dim() == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    d = wrap_dim(dim, x.dim(), "fft_" + name)
    return d, None if n is None else checked(int_arg(n, "fft_" + name, "n"))


def many_dims(x, s, dim, name):
    """Dimensions, and for each a size (None keeps what is there), of a transform along several dimensions."""
    sizes = None if s is None else ints_arg((s,) if isinstance(s, int) else s, "fft_" + name, "s")
    if dim is not None:
        given = ints_arg((dim,) if isinstance(dim, int) else dim, "fft_" + name, "dim")
        if x.dim() == 0 and given:
            raise IndexError(f"{name}: Dimension specified as {given[0]} but tensor has no dimensions")
        dims = tuple(wrap_dim(d, x.dim(), "fft_" + name) for d in given)
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"{name}: FFT dims must be unique, got dim={given}")
        if sizes is not None and len(sizes) != len(dims):
            raise RuntimeError(f"{name}: When given, dim and shape arguments must have the same length, got "
                               f"s={sizes} and dim={given}")
    elif sizes is None:
        dims = tuple(range(x.dim()))
    elif len(sizes) > x.dim():
        raise RuntimeError(f"{name}: Got shape with {len(sizes)} values but input tensor only has {x.dim()} dimensions")
    else:
        dims = tuple(range(x.dim() - len(sizes), x.dim()))
    if sizes is None:
        return dims, (None,) * len(dims)
    return dims, tuple(None if n == -1 else checked(n) for n in sizes)


def kept(x, dims, sizes):
    """The sizes, those of `x` in place of None; none may be 0."""
    return tuple(checked(x.shape[d]) if n is None else n for d, n in zip(dims, sizes, strict=True))


def complex_to_complex(x, dims, sizes, norm, forward, name):
    x = promoted(x, name, to_complex=True)
    x = fitted(x, dims, kept(x, dims, sizes))
    scale = scale_of(norm, forward)
    return FftC2C.apply(x, dims, scale, forward) if dims else x.clone()


def real_to_half(x, dims, sizes, norm, name, forward=True):
    x = promoted(x, name, real=True)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    x = fitted(x, dims, kept(x, dims, sizes))
    y = FftR2C.apply(x, dims, scale_of(norm, forward))
    return y if forward else y.conj().resolve_conj()


def half_to_real(x, dims, sizes, norm, name, forward=False):
    x = promoted(x, name, to_complex=True)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    n = checked(2 * (x.shape[dims[-1]] - 1)) if sizes[-1] is None else sizes[-1]
    x = fitted(x, dims, kept(x, dims, (*sizes[:-1], n // 2 + 1)))
    return FftC2R.apply(x.conj().resolve_conj() if forward else x, dims, scale_of(norm, forward), n)


Sizes = Sequence[int] | None


@composed("fft out")
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along one dimension, ``y[k] = sum_j x[j] exp(-2 pi i j k / n)``.

    Parameters
    ----------
    input : Tensor
        Real or complex; integers become the default dtype.
    n : int, optional
        Number of points: the input is cut, or filled up with zeros at its end. Default: its size.
    dim : int
    norm : str, optional
        ``"backward"`` (default) scales the inverse transforms by 1/n, ``"forward"`` the forward ones, ``"ortho"`` both
        by 1/sqrt(n).

    Returns
    -------
    Tensor
        Complex, row-major, of `n` elements along `dim`.

    Raises
    ------
    RuntimeError
        `n` is less than 1, `norm` is another word, or the input is of half precision.
    IndexError
        There is no such dimension.

    References
    ----------
    J. W. Cooley and J. W. Tukey, An algorithm for the machine calculation of complex Fourier series, Math. Comp. 19,
    1965; L. I. Bluestein, IEEE Trans. Audio 18, 1970, for large primes.
    """
    d, n = one_dim(tensor_arg(input, "fft_fft"), n, dim, "fft")
    return complex_to_complex(input, (d,), (n,), norm, True, "fft")


@composed("fft out")
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`: ``x[j] = 1/n sum_k y[k] exp(2 pi i j k / n)``; arguments as there."""
    d, n = one_dim(tensor_arg(input, "fft_ifft"), n, dim, "ifft")
    return complex_to_complex(input, (d,), (n,), norm, False, "ifft")


@composed("fft out")
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first ``n // 2 + 1`` elements of `fft` of real numbers; the others are their conjugates."""
    d, n = one_dim(tensor_arg(input, "fft_rfft"), n, dim, "rfft")
    return real_to_half(input, (d,), (n,), norm, "rfft")


@composed("fft out")
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: `n` real numbers, by default an even number of them, ``2 * (size - 1)``."""
    d, n = one_dim(tensor_arg(input, "fft_irfft"), n, dim, "irfft")
    return half_to_real(input, (d,), (n,), norm, "irfft")


@composed("fft out")
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """`fft` of a signal with Hermitian symmetry, of which the first half is given: `n` real numbers."""
    d, n = one_dim(tensor_arg(input, "fft_hfft"), n, dim, "hfft")
    return half_to_real(input, (d,), (n,), norm, "hfft", forward=True)


@composed("fft out")
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first half of `ifft` of real numbers."""
    d, n = one_dim(tensor_arg(input, "fft_ihfft"), n, dim, "ihfft")
    return real_to_half(input, (d,), (n,), norm, "ihfft", forward=False)


@composed("fft out")
def fftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fft` along several dimensions.

    Parameters
    ----------
    input : Tensor
    s : tuple of int, optional
        Number of points along each of the dimensions, -1 for the input's own size. Default: all its own.
    dim : tuple of int, optional
        Default: all, or with `s` the last ``len(s)``.
    norm : str, optional
        As for `fft`, where n is the number of all points.

    Raises
    ------
    RuntimeError
        `s` and `dim` have different lengths, a dimension comes twice, or as for `fft`.
    IndexError
        There is no such dimension.
    """
    dims, sizes = many_dims(tensor_arg(input, "fft_fftn"), s, dim, "fftn")
    return complex_to_complex(input, dims, sizes, norm, True, "fftn")


@composed("fft out")
def ifftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`."""
    dims, sizes = many_dims(tensor_arg(input, "fft_ifftn"), s, dim, "ifftn")
    return complex_to_complex(input, dims, sizes, norm, False, "ifftn")


@composed("fft out")
def rfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fftn` of real numbers; of the last dimension the half that says all."""
    dims, sizes = many_dims(tensor_arg(input, "fft_rfftn"), s, dim, "rfftn")
    return real_to_half(input, dims, sizes, norm, "rfftn")


@composed("fft out")
def irfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`; the last of `s` is the number of real elements."""
    dims, sizes = many_dims(tensor_arg(input, "fft_irfftn"), s, dim, "irfftn")
    return half_to_real(input, dims, sizes, norm, "irfftn")


@composed("fft out")
def hfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fftn` of a signal with Hermitian symmetry in its last dimension, of which half is given there."""
    dims, sizes = many_dims(tensor_arg(input, "fft_hfftn"), s, dim, "hfftn")
    return hermitian_to_real(input, dims, sizes, norm, "hfftn")


@composed("fft out")
def ihfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`."""
    dims, sizes = many_dims(tensor_arg(input, "fft_ihfftn"), s, dim, "ihfftn")
    return real_to_hermitian(input, dims, sizes, norm, "ihfftn")


def hermitian_to_real(x, dims, sizes, norm, name):
    if dims[:-1]:
        x = complex_to_complex(x, dims[:-1], sizes[:-1], norm, True, name)
    return half_to_real(x, dims[-1:], sizes[-1:], norm, name, forward=True)


def real_to_hermitian(x, dims, sizes, norm, name):
    x = promoted(x, name, real=True)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    x = fitted(x, dims, kept(x, dims, sizes))
    y = real_to_half(x, dims[-1:], (None,), norm, name, forward=False)
    return complex_to_complex(y, dims[:-1], (None,) * len(dims[:-1]), norm, False, name) if dims[:-1] else y


def planar(name, transform):
    """The transform along two dimensions, by default the last two."""
    def call(input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Tensor:
        return transform(input, s, dim, norm)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`{transform.__name__}` along two dimensions, by default the last two."
    return composed("fft out")(call)


fft2 = planar("fft2", fftn)
ifft2 = planar("ifft2", ifftn)
rfft2 = planar("rfft2", rfftn)
irfft2 = planar("irfft2", irfftn)
hfft2 = planar("hfft2", hfftn)
ihfft2 = planar("ihfft2", ihfftn)
