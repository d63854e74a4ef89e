"""Window functions (F. J. Harris, On the use of windows for harmonic analysis, Proc. IEEE 66, 1978)."""

from math import pi, sqrt

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from . import composed
from ._args import dtype_arg, int_arg


def settled(name, M, dtype, layout, device):
    """The dtype of a window of M elements, after a look at the arguments that all windows have."""
    if isinstance(M, bool) or not hasattr(M, "__index__"):
        raise TypeError(f"{name}(): argument 'M' must be int, not {type(M).__name__}")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and "strided" not in str(layout):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = _core.get_default_dtype() if dtype is None else dtype
    if dtype not in (dtypes["float32"], dtypes["float64"]):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return dtype


def window(formula, start, step, M, dtype, device, requires_grad):
    """``formula`` at M points, `step` apart from `start` on; a window of one point is 1."""
    if M < 2:
        w = _core.ones((M,), dtype=dtype, device=device)
    else:
        w = formula(_core.linspace(start, start + (M - 1) * step, M, dtype=dtype, device=device))
    return w.requires_grad_() if requires_grad else w


@composed("signal.windows")
def general_cosine(M, *, a, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """A sum of cosines, ``a[0] - a[1] cos(x) + a[2] cos(2 x) - ...`` over one period.

    Parameters
    ----------
    M : int
        Length of the window, with which all windows begin.
    a : sequence of float
    sym : bool
        Symmetric, for the design of filters; else periodic, for spectra: of M + 1 points without the last.
    dtype : dtype, optional
        float32 or float64; default: the default dtype.
    """
    dtype = settled("general_cosine", M, dtype, layout, device)
    if not isinstance(a, (list, tuple)):
        raise TypeError(f"general_cosine(): coefficients 'a' must be a list/tuple, not {type(a).__name__}")
    if not a:
        raise ValueError("general_cosine(): coefficients cannot be empty")
    step = 2 * pi / (M - 1 if sym else M) if M > 1 else 0

    def formula(x):
        total = x * 0 + a[0]
        for i, c in enumerate(a[1:], 1):
            total = total + (-1) ** i * c * _core.cos(x * i)
        return total

    return window(formula, 0.0, step, M, dtype, device, requires_grad)


@composed("signal.windows")
def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """``alpha - (1 - alpha) cos(x)`` over one period."""
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


@composed("signal.windows")
def hamming(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """The Hamming window, ``0.54 - 0.46 cos(x)``."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@composed("signal.windows")
def hann(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """The Hann window, ``sin(x / 2) ** 2``."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device,
                           requires_grad=requires_grad)


@composed("signal.windows")
def blackman(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """The Blackman window, ``0.42 - 0.5 cos(x) + 0.08 cos(2 x)``."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


@composed("signal.windows")
def nuttall(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """Nuttall's four-term window with the lowest sidelobes (IEEE Trans. ASSP 29, 1981)."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout,
                          device=device, requires_grad=requires_grad)


@composed("signal.windows")
def bartlett(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """The Bartlett window, a triangle from 0 to 1 and back."""
    dtype = settled("bartlett", M, dtype, layout, device)
    step = 2 / (M - 1 if sym else M) if M > 1 else 0
    return window(lambda x: 1 - _core.abs(x), -1.0, step, M, dtype, device, requires_grad)


@composed("signal.windows")
def cosine(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """Half a period of a sine, sampled in the middle of M equal parts."""
    dtype = settled("cosine", M, dtype, layout, device)
    step = pi / (M if sym else M + 1) if M > 1 else 0
    return window(_core.sin, step / 2, step, M, dtype, device, requires_grad)


@composed("signal.windows")
def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=None, device=None,
                requires_grad=False) -> Tensor:
    """``exp(-|x - center| / tau)``, where `center` is by default the middle.

    Raises
    ------
    ValueError
        `tau` is not positive, or a symmetric window is given a center.
    """
    dtype = settled("exponential", M, dtype, layout, device)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError(f"Center must be None for symmetric windows, got {center}")
    middle = (M - 1 if sym else M) / 2 if center is None else center
    return window(lambda x: _core.exp(-_core.abs(x)), -middle / tau, 1 / tau, M, dtype, device, requires_grad)


@composed("signal.windows")
def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """``exp(-x ** 2 / (2 std ** 2))`` about the middle.

    Raises
    ------
    ValueError
        `std` is not positive.
    """
    dtype = settled("gaussian", M, dtype, layout, device)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    step = 1 / (std * sqrt(2))
    middle = (M - 1 if sym else M) / 2
    return window(lambda x: _core.exp(-(x * x)), -middle * step, step, M, dtype, device, requires_grad)


@composed("signal.windows")
def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False) -> Tensor:
    """The Kaiser window, ``i0(beta sqrt(1 - x ** 2)) / i0(beta)`` for x from -1 to 1.

    Raises
    ------
    ValueError
        `beta` is negative.
    """
    dtype = settled("kaiser", M, dtype, layout, device)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    step = 2 * beta / (M - 1 if sym else M) if M > 1 else 0
    peak = float(_core.i0(_core.tensor(float(beta), dtype=dtypes["float64"])))

    def formula(x):
        inside = beta * beta - x * x
        return _core.i0(_core.sqrt(_core.clamp(inside, min=0.0))) / peak

    return window(formula, -float(beta), step, M, dtype, device, requires_grad)


def short_name(name, window_length, formula, periodic, dtype, layout, device, pin_memory, requires_grad):
    """A window as the functions at cygrad's top make it: by default periodic, and of every floating dtype."""
    n = int_arg(window_length, name, "window_length")
    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    dtype = dtype_arg(dtype)
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    place = _core.empty(0, layout=layout, device=device, pin_memory=pin_memory).device       # refuses what there is not
    wide = dtypes["float64"] if dtype is dtypes["float64"] else dtypes["float32"]
    w = formula(n, sym=not periodic, dtype=wide).to(place, dtype)
    w = w.pin_memory() if pin_memory else w
    return w.requires_grad_() if requires_grad else w


@composed("function out")
def bartlett_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False) -> Tensor:
    """The Bartlett window (`signal.windows.bartlett`).

    Parameters
    ----------
    window_length : int
    periodic : bool
        For spectra: of ``window_length + 1`` points without the last. Else symmetric, for the design of filters.
    dtype : dtype, optional
        A floating one; default: the default dtype.

    Raises
    ------
    RuntimeError
        The length is negative, or the dtype not floating.
    """
    return short_name("bartlett_window", window_length, bartlett, periodic, dtype, layout, device, pin_memory,
                      requires_grad)


@composed("function out")
def blackman_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False) -> Tensor:
    """The Blackman window (`signal.windows.blackman`); arguments as for `bartlett_window`."""
    return short_name("blackman_window", window_length, blackman, periodic, dtype, layout, device, pin_memory,
                      requires_grad)


@composed("function out")
def hann_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                requires_grad=False) -> Tensor:
    """The Hann window (`signal.windows.hann`); arguments as for `bartlett_window`."""
    return short_name("hann_window", window_length, hann, periodic, dtype, layout, device, pin_memory,
                      requires_grad)


@composed("function out")
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None,
                   pin_memory=False, requires_grad=False) -> Tensor:
    """The window ``alpha - beta cos(x)``; the other arguments as for `bartlett_window`."""
    def formula(n, **options):
        return general_cosine(n, a=[alpha, beta], **options)

    return short_name("hamming_window", window_length, formula, periodic, dtype, layout, device, pin_memory,
                      requires_grad)


@composed("function out")
def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None, pin_memory=False,
                  requires_grad=False) -> Tensor:
    """The Kaiser window of shape `beta`, even in it (`signal.windows.kaiser`); others as for `bartlett_window`."""
    def formula(n, **options):
        return kaiser(n, beta=abs(beta), **options)

    return short_name("kaiser_window", window_length, formula, periodic, dtype, layout, device, pin_memory,
                      requires_grad)
