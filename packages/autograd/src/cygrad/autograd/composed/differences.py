"""Differences and integrals along dimensions: diff, gradient, trapezoid and its running form."""

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor, deliver
from . import composed
from ._args import Number
from .reductions import wrapped

# ---- differences

@composed("function method")
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *,
         out: Tensor | None = None) -> Tensor:
    """Differences of neighbours along `dim`, taken `n` times; of bool, whether neighbours differ.

    Parameters
    ----------
    input : Tensor
        Of at least one dimension.
    n : int
    dim : int
    prepend, append : Tensor, optional
        Joined to the input along `dim` before.
    out : Tensor, optional

    Raises
    ------
    RuntimeError
        The input has no dimensions, `n` is negative, or what is joined has another number of dimensions.
    """
    if input.dim() == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    parts = [t for t in (prepend, input, append) if t is not None]
    if any(t.dim() != input.dim() for t in parts):
        raise RuntimeError("diff expects prepend or append to be the same dimension as input, got shapes "
                           f"{[list(t.shape) for t in parts]}")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone() if out is None else deliver(input.clone(), out, True)
    dim = wrapped(dim, input.dim(), "diff")
    x = _core.cat(parts, dim) if len(parts) > 1 else input
    for _ in range(n):
        rest = max(x.shape[dim] - 1, 0)
        upper, lower = x.narrow(dim, x.shape[dim] - rest, rest), x.narrow(dim, 0, rest)
        x = upper != lower if x.dtype is dtypes["bool"] else upper - lower
        if rest == 0:
            break
    return x if out is None else deliver(x, out)


# ---- derivatives of samples

def spacings(spacing, dims, ndim, chosen):
    """One distance, or one tensor of coordinates, for each of `dims`."""
    if (isinstance(spacing, Tensor) and spacing.dim() == 0) or isinstance(spacing, Number):
        return [spacing] * len(dims)
    if not isinstance(spacing, (tuple, list)):
        raise TypeError("gradient(): argument 'spacing' must be a number or a sequence of numbers or of tensors, not "
                        f"{type(spacing).__name__}")
    if len(spacing) != len(dims):
        given = "equal to the number of dims given" if chosen else f"equal to 'self.dim() = {ndim}', since dim " \
            "argument was not given"
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
                           f"{given}, but got a list of length {len(spacing)}")
    return list(spacing)


def at(x, dim, first, last):
    """Elements `first` up to `last` (counted from the end when not positive) along a dimension."""
    return x.narrow(dim, first, x.shape[dim] + last - first if last <= 0 else last - first)


def even_gradient(x, dim, h, order):
    """Central differences inside; one-sided ones of the given order at the ends."""
    inner = (at(x, dim, 2, 0) - at(x, dim, 0, -2)) / (2 * h)
    n = x.shape[dim]
    if order == 1:
        first = (at(x, dim, 1, 2) - at(x, dim, 0, 1)) / h
        last = (at(x, dim, n - 1, n) - at(x, dim, n - 2, n - 1)) / h
    else:
        first = (-1.5 * at(x, dim, 0, 1) + 2 * at(x, dim, 1, 2) - 0.5 * at(x, dim, 2, 3)) / h
        last = (0.5 * at(x, dim, n - 3, n - 2) - 2 * at(x, dim, n - 2, n - 1) + 1.5 * at(x, dim, n - 1, n)) / h
    return _core.cat([first, inner, last], dim)


def parabola(x, dim, i, a, b, where):
    """The derivative of the parabola through elements i, i + 1, i + 2, whose distances are a and b, at one of them."""
    f, g, h = (at(x, dim, i + k, i + k + 1) for k in range(3))
    if where == 0:
        return -(2 * a + b) / (a * (a + b)) * f + (a + b) / (a * b) * g - a / (b * (a + b)) * h
    return b / (a * (a + b)) * f - (a + b) / (a * b) * g + (a + 2 * b) / (b * (a + b)) * h


def uneven_gradient(x, dim, places, order):
    """As `even_gradient`, for samples at any places: each inner value is a parabola's derivative (Fornberg, 1988)."""
    n = x.shape[dim]
    if places.dim() != 1 or places.shape[0] != n:
        raise RuntimeError(f"torch.gradient expected each coordinate tensor to have the size of its dimension, {n}, "
                           f"but got shape {list(places.shape)}")
    step = (places[1:] - places[:-1]).to(_core.result_type(x, places))
    shape = [1] * x.dim()
    shape[dim] = -1
    a, b = step[:-1].view(shape), step[1:].view(shape)
    inner = (-b / (a * (a + b)) * at(x, dim, 0, -2) + (b - a) / (a * b) * at(x, dim, 1, -1)
             + a / (b * (a + b)) * at(x, dim, 2, 0))
    if order == 1:
        first = (at(x, dim, 1, 2) - at(x, dim, 0, 1)) / step[0]
        last = (at(x, dim, n - 1, n) - at(x, dim, n - 2, n - 1)) / step[-1]
    else:
        first = parabola(x, dim, 0, step[0], step[1], 0)
        last = parabola(x, dim, n - 3, step[-2], step[-1], 2)
    return _core.cat([first, inner, last], dim)


@composed("function")
def gradient(input: Tensor, *, spacing=None, dim=None, edge_order: int = 1) -> tuple:
    """Derivatives of sampled functions along dimensions, by differences of second order inside.

    Parameters
    ----------
    input : Tensor
        Of at least ``edge_order + 1`` elements along each dimension.
    spacing : number or sequence of numbers or of tensors
        Distances of the samples (default 1), one for all or for each dimension; or their coordinates.
    dim : int or sequence of int, optional
        Default: all.
    edge_order : {1, 2}
        Order of the one-sided differences at the ends.

    Returns
    -------
    tuple of Tensor
        One a dimension.
    """
    chosen = dim is not None
    dims = range(input.dim()) if not chosen else dim if isinstance(dim, (tuple, list)) else (dim,)
    dims = [wrapped(d, input.dim(), "gradient") for d in dims]
    steps = spacings(1 if spacing is None else spacing, dims, input.dim(), chosen)
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2, got {edge_order}")
    if input.dtype is dtypes["uint8"]:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if any(input.shape[d] <= edge_order for d in dims):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1, got shape "
                           f"{list(input.shape)}")
    return tuple((uneven_gradient if isinstance(s, Tensor) and s.dim() else even_gradient)(input, d, s, edge_order)
                 for d, s in zip(dims, steps, strict=True))


# ---- integrals of samples

def widths(y, x, dx, dim, name):
    """Distances of the samples of `y` along `dim`, to be multiplied by sums of neighbours; None for one number."""
    for word, given in (("y", y), ("x", x)):
        if given is not None and given.dtype is dtypes["bool"]:
            raise RuntimeError(f"{name}: received a bool input for `{word}`, but bool is not supported")
    if x is None:
        return None
    if dx is not None:
        raise TypeError(f"{name}(): give the places `x` or the distance `dx`, not both")
    if x.dim() == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point, got {x.shape[0]} for "
                               f"{y.shape[dim]}")
        x = x.view([-1 if d == dim else 1 for d in range(y.dim())])
    else:
        x = x.view((1,) * (y.dim() - x.dim()) + tuple(x.shape))
    return at(x, dim, 1, 0) - at(x, dim, 0, -1)


def slabs(y, x, dx, dim, name):
    """Areas between neighbouring samples, and the wrapped dimension."""
    if y.dim() == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    dim = wrapped(dim, y.dim(), name)
    width = widths(y, x, dx, dim, name)
    if y.shape[dim] == 0:
        sums = y / 1                     # nothing, in the dtype of a quotient
    else:
        sums = at(y, dim, 1, 0) + at(y, dim, 0, -1)
    return (sums * ((1 if dx is None else dx) / 2) if width is None else sums * width / 2), dim


@composed("function")
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx=None, dim: int = -1) -> Tensor:
    """The integral along `dim` of samples `y`, by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
    x : Tensor, optional
        Places of the samples: along `dim` only, or of a shape that broadcasts to that of `y`.
    dx : number, optional
        Their distance, instead; default 1.
    """
    if y.dim() and y.shape[wrapped(dim, y.dim(), "trapezoid")] == 0:
        return _core.sum(y, dim, dtype=y.dtype)
    areas, dim = slabs(y, x, dx, dim, "trapezoid")
    return _core.sum(areas, dim)


@composed("function")
def trapz(y: Tensor, x: Tensor | None = None, *, dx=None, dim: int = -1) -> Tensor:
    """Another name of `trapezoid`."""
    return trapezoid(y, x, dx=dx, dim=dim)


@composed("function")
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx=None, dim: int = -1) -> Tensor:
    """Integrals along `dim` from the first sample up to each other one, by the trapezoidal rule; see `trapezoid`."""
    areas, dim = slabs(y, x, dx, dim, "cumulative_trapezoid")
    return _core.cumsum(areas, dim)
