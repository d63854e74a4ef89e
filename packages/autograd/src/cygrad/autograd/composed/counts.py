"""Counts of values and covariances: bincount, histograms, cov, corrcoef."""

import warnings

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from ..grad_mode import no_grad
from . import by_example, composed
from .complex_numbers import complex_
from .reductions import is_integral

_INT64, _DOUBLE = dtypes["int64"], dtypes["float64"]


def tally(bins, weights, size, dtype):
    """The sum of weights (None: the count) in each of `size` bins; float32 is added in double."""
    if weights is None:
        weights = _core.ones((), dtype=_INT64, device=bins.device).expand(bins.shape)
    elif weights.dtype is not _INT64:
        weights = weights.to(_DOUBLE)
    total = _core.index_add(_core.zeros(size, dtype=weights.dtype, device=weights.device), 0, bins, weights)
    return total if total.dtype is dtype else total.to(dtype)


@composed("function method")
@by_example
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 to the largest one (or ``minlength - 1``) occurs; or the sum of its `weights`.

    Parameters
    ----------
    input : Tensor
        1-d, integers that are not negative.
    weights : Tensor, optional
        Of the same shape; differentiable. The result is float32 for these, float64 for others.
    minlength : int

    Raises
    ------
    NotImplementedError
        The input is no integer.
    RuntimeError
        It has another number of dimensions or negative elements; other shapes; a negative `minlength`.
    """
    if not is_integral(input) or input.dtype is dtypes["bool"]:
        raise NotImplementedError(f"bincount is not implemented for {input.dtype}")
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if input.dim() != 1 or (input.numel() and _core.amin(input).item() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs, got shape "
                           f"{list(input.shape)}{'' if input.dim() != 1 else ' with negative elements'}")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input, got shapes "
                           f"{list(weights.shape)} and {list(input.shape)}")
    size = max(_core.amax(input).item() + 1 if input.numel() else 0, minlength)
    kind = _INT64 if weights is None else weights.dtype if weights.dtype is dtypes["float32"] else _DOUBLE
    if weights is not None and weights.dtype is _INT64:
        weights = weights.to(_DOUBLE)
    return tally(input.to(_INT64), weights, size, kind)


# ---- histograms

def limits(x, low, high, name):
    """The range of a histogram: as given, else from the least to the largest element, which never coincide."""
    if x.numel() and low == high:
        low, high = (t.item() for t in (_core.amin(x), _core.amax(x)))
    if not abs(low) + abs(high) < float("inf"):
        raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
    return (low - 1, high + 1) if low == high else (low, high)


@composed("function method out_same")
@by_example
def histc(input: Tensor, bins: int = 100, min=0, max=0) -> Tensor:
    """Counts of the elements in `bins` intervals of equal width between `min` and `max` (0 and 0: the extrema).

    Elements outside, and NaN, are not counted; the last interval has its end.
    """
    if not input.is_floating_point():
        raise NotImplementedError(f"histc is not implemented for {input.dtype}")
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, but got {bins}")
    if min > max:
        raise RuntimeError(f"torch.histc: max must be larger than min, got {max} and {min}")
    with no_grad():
        x = input.detach().reshape(-1)
        low, high = limits(x, min, max, "torch.histc")
        x = x[(x >= low) & (x <= high)]
        low, high = _core.tensor([low, high], dtype=x.dtype, device=x.device).unbind()
        place = ((x - low) * bins / (high - low)).to(_INT64).clamp(max=bins - 1)
        return tally(place, None, bins, input.dtype)


def edges_of(x, bins, span, axis, name):
    """The edges of the bins of one column of the points x, from their number or given."""
    if isinstance(bins, Tensor):
        if bins.dim() != 1 or bins.numel() == 0:
            raise RuntimeError(f"{name}: bins tensor should be 1-d and have at least 1 element, but got shape "
                               f"{list(bins.shape)} for dimension {axis}")
        if bins.dtype is not x.dtype:
            raise RuntimeError(f"{name}: input and bins should have the same dtype, but got {x.dtype} and {bins.dtype}")
        count = bins.numel() - 1
    else:
        count = bins
    if count <= 0:
        raise RuntimeError(f"{name}: bins must be > 0, but got {count} for dimension {axis}")
    if isinstance(bins, Tensor):
        return bins.detach().clone()
    low, high = (0.0, 1.0) if span is None else span
    if span is None and x.numel():
        low, high = (t.item() for t in (_core.amin(x), _core.amax(x)))
    if not abs(low) + abs(high) < float("inf"):
        raise RuntimeError(f"{name}: dimension {axis}'s range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}: min should not exceed max, but got min {low} max {high} for dimension {axis}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return _core.linspace(low, high, count + 1, dtype=x.dtype, device=x.device)


def grid_counts(points, edges, weight, density):
    """The histogram of points (a row each) on a grid."""
    inside, place = None, 0
    for axis, e in enumerate(edges):
        x, n = points.select(1, axis), e.numel() - 1
        here = (x >= e[0]) & (x <= e[-1])
        inside = here if inside is None else inside & here
        at = _core.searchsorted(e, x.contiguous(), right=True) - 1
        place = place * n + at.clamp(0, n - 1)              # the last bin has its end
    sizes = [e.numel() - 1 for e in edges]
    count = 1
    for n in sizes:
        count *= n
    if weight is not None:
        weight = weight[inside]
    hist = tally(place[inside], weight, count, points.dtype).view(sizes)
    if density:
        total = _core.sum(hist)
        for axis, e in enumerate(edges):
            shape = [-1 if k == axis else 1 for k in range(len(edges))]
            hist = hist / (e[1:] - e[:-1]).view(shape)
        hist = hist / total
    return hist


def histogram_of(points, bins, range, weight, density, name):
    if not points.is_floating_point():
        raise NotImplementedError(f"{name} is not implemented for {points.dtype}")
    if range is not None and len(range) != 2 * len(bins):
        raise RuntimeError(f"{name}: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} "
                           f"elements, but got {len(range)}")
    if weight is not None and weight.dtype is not points.dtype:
        raise RuntimeError(f"{name}: if weight tensor is provided, input tensor and weight tensor should have the same "
                           f"dtype, but got {points.dtype} and {weight.dtype}")
    with no_grad():
        edges = tuple(edges_of(points.select(1, k), b, range and range[2 * k:2 * k + 2], k, name)
                      for k, b in enumerate(bins))
        return grid_counts(points, edges, None if weight is None else weight.reshape(-1), density), edges


@composed("function method out", returns="hist bin_edges")
@by_example
def histogram(input: Tensor, bins, *, range=None, weight: Tensor | None = None,
              density: bool = False) -> tuple[Tensor, Tensor]:
    """Counts of the elements (or sums of their weights) between edges, and the edges.

    Parameters
    ----------
    input : Tensor
        float32 or float64.
    bins : int or Tensor
        The number of bins of equal width, or the increasing edges.
    range : (float, float), optional
        First and last edge; default: the extrema.
    weight : Tensor, optional
        Of the shape and dtype of the input.
    density : bool
        Divides by the sum and by the widths.
    """
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError("torch.histogram: if weight tensor is provided it should have the same shape as the input "
                           f"tensor, but got {list(weight.shape)} and {list(input.shape)}")
    points = input.detach().reshape(-1, 1)
    hist, edges = histogram_of(points, [bins], range, weight, density, "torch.histogram")
    return hist, edges[0]


@composed("function", returns="hist bin_edges")
@by_example
def histogramdd(input: Tensor, bins, range=None, weight: Tensor | None = None,
                density: bool = False) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The histogram of points, the rows of `input`, on a grid, and the edges of each of its dimensions.

    Parameters
    ----------
    input : Tensor
        Points of as many coordinates as its last dimension is long.
    bins : int, sequence of int, or sequence of Tensor
        Numbers of bins, or edges, of each dimension.
    range : sequence of float, optional
        First and last edge of each dimension.
    weight, density
        As for `histogram`; a weight for each point.
    """
    if input.dim() < 2:
        raise RuntimeError(f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {input.dim()}")
    n = input.shape[-1]
    bins = list(bins) if isinstance(bins, (tuple, list)) else [bins] * n
    if len(bins) != n:
        raise RuntimeError(f"torch.histogramdd: expected {n} sequences of bin edges (or numbers) for {n}-dimensional "
                           f"points but got {len(bins)}")
    if weight is not None and weight.shape != input.shape[:-1]:
        raise RuntimeError("torch.histogramdd: if weight tensor is provided it should have the same shape as the input "
                           f"tensor excluding its innermost dimension, but got {list(weight.shape)} and "
                           f"{list(input.shape)}")
    points = input.detach().reshape(-1, n)
    return histogram_of(points, bins, range, weight, density, "torch.histogramdd")


# ---- covariances

def checked_weights(weights, x, name):
    """Weights of observations."""
    integers = name == "fweights"
    if weights.dim() > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
                           f"{weights.dim()} dimensions")
    if integers != is_integral(weights) or weights.dtype is dtypes["bool"]:
        raise RuntimeError(f"cov(): expected {name} to have {'integral' if integers else 'floating point'} dtype but "
                           f"got {name} with {weights.dtype} dtype")
    if weights.numel() != x.shape[1]:
        raise RuntimeError(f"cov(): expected {name} to have the same numel as there are observations in the input but "
                           f"got {weights.numel()} != {x.shape[1]}")
    if weights.numel() and _core.anywhere(weights.detach() < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")
    return weights.reshape(-1)


@composed("function method")
def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:
    """Covariances of variables, which are the rows of `input`; its columns are observations.

    Parameters
    ----------
    input : Tensor
        Of at most two dimensions; one is a single variable.
    correction : int
        Taken off the number of observations.
    fweights, aweights : Tensor, optional
        How often each observation occurs (integers), and how much it counts.
    """
    if input.dim() > 2:
        raise RuntimeError("cov(): expected input to have two or fewer dimensions but got an input with "
                           f"{input.dim()} dimensions")
    if input.dtype is dtypes["bool"]:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input.dim() == 2 else input.reshape(1, -1)
    if is_integral(x):
        x = x.to(_core.get_default_dtype())
    w = None if fweights is None else checked_weights(fweights, x, "fweights")
    if aweights is not None:
        important = checked_weights(aweights, x, "aweights")
        w = important if w is None else w * important
    total = x.shape[1] if w is None else _core.sum(w)
    if w is not None and (x.shape[1] == 0 or _core.anywhere(total == 0)):
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = _core.sum(x if w is None else x * w, 1) / total
    freedom = total - correction
    if aweights is not None and correction != 0:
        freedom = total - correction * _core.sum(w * important) / total
    low = freedom <= 0
    if _core.anywhere(low) if isinstance(low, Tensor) else low:
        warnings.warn(f"cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
                      f"observations: correction {correction}", UserWarning, stacklevel=3)
        freedom = _core.where(low, 0, freedom) if isinstance(low, Tensor) else 0
    centred = x - mean.unsqueeze(1)
    other = centred if w is None else centred * w
    other = other.conj() if other.is_complex() else other
    return (_core.matmul(centred, other.to(centred.dtype).transpose(0, 1)) / freedom).squeeze()


@composed("function method")
def corrcoef(input: Tensor) -> Tensor:
    """Correlation coefficients of variables, which are the rows of `input`; see `cov`."""
    if input.dim() > 2:
        raise RuntimeError("corrcoef(): expected input to have two or fewer dimensions but got an input with "
                           f"{input.dim()} dimensions")
    c = cov(input)
    if c.dim() == 0:
        return c / c
    deviation = _core.sqrt(_core.diagonal(c.real if c.is_complex() else c))
    c = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if c.is_complex():                                          # rounding must not exceed what is possible
        return complex_(c.real.clamp(-1, 1), c.imag.clamp(-1, 1))
    return c.clamp(-1, 1)
