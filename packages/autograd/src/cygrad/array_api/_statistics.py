"""Sums, extrema, searching, sorting and sets."""

from collections import namedtuple

import cygrad

from ._array import pair, standard
from ._dtypes import is_kind
from ._manipulation import axes_in, axis_in

__all__ = ["all", "any", "argmax", "argmin", "argsort", "count_nonzero", "cumulative_prod", "cumulative_sum", "isin",
           "max", "mean", "min", "nonzero", "prod", "searchsorted", "sort", "std", "sum", "unique_all",
           "unique_counts", "unique_inverse", "unique_values", "var"]

UniqueAll = namedtuple("unique_all", "values indices inverse_indices counts")
UniqueCounts = namedtuple("unique_counts", "values counts")
UniqueInverse = namedtuple("unique_inverse", "values inverse_indices")


def reduced(name, x, axis, keepdims, function):
    """`function`, which reduces the last dimension, applied to these axes as one."""
    axes = axes_in(axis, x.ndim, name)
    kept = [a for a in range(x.ndim) if a not in axes]
    y = x.permute([*kept, *axes]) if axes else x.unsqueeze(-1)
    count = 1
    for a in axes:
        count *= x.shape[a]
    y = function(y.reshape([x.shape[a] for a in kept] + [count]))
    return y.reshape([1 if a in axes else x.shape[a] for a in range(x.ndim)]) if keepdims else y


def wide(x, dtype):
    """The dtype of a sum."""
    if dtype is not None:
        return dtype
    if is_kind(x.dtype, "unsigned integer"):
        return cygrad.uint64
    return cygrad.int64 if x.dtype is cygrad.bool or is_kind(x.dtype, "integral") else x.dtype


@standard
def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """Sums over the axes, all by default; integers in 64 bits."""
    kind = wide(x, dtype)
    return reduced("sum", x.to(kind), axis, keepdims, lambda y: y.sum(-1, dtype=kind))


@standard
def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """Products over the axes; integers in 64 bits."""
    kind = wide(x, dtype)
    return reduced("prod", x.to(kind), axis, keepdims, lambda y: y.prod(-1, dtype=kind))


@standard
def mean(x, /, *, axis=None, keepdims=False):
    """Means over the axes."""
    return reduced("mean", x, axis, keepdims, lambda y: y.mean(-1))


@standard
def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Standard deviations over the axes."""
    return cygrad.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


@standard
def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variances over the axes: squares summed, divided by ``n - correction``."""
    return reduced("var", x, axis, keepdims, lambda y: y.var(-1, correction=correction))


@standard
def max(x, /, *, axis=None, keepdims=False):
    """Maxima over the axes; NaN where there is one."""
    return reduced("max", x, axis, keepdims, lambda y: y.amax(-1))


@standard
def min(x, /, *, axis=None, keepdims=False):
    """Minima over the axes; NaN where there is one."""
    return reduced("min", x, axis, keepdims, lambda y: y.amin(-1))


@standard
def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements along the axes are nonzero."""
    return reduced("all", x.to(cygrad.bool), axis, keepdims, lambda y: y.all(-1))


@standard
def any(x, /, *, axis=None, keepdims=False):
    """Whether any element along the axes is nonzero."""
    return reduced("any", x.to(cygrad.bool), axis, keepdims, lambda y: y.any(-1))


@standard
def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements along the axes are nonzero."""
    return reduced("count_nonzero", x.to(cygrad.bool).to(cygrad.int64), axis, keepdims, lambda y: y.sum(-1))


def accumulated(name, x, axis, dtype, include_initial, first):
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}(): the axis of an array of {x.ndim} dimensions must be named")
        axis = 0
    axis = axis_in(axis, x.ndim, name)
    kind = wide(x, dtype)
    x = x.to(kind)
    y = x.cumprod(axis, dtype=kind) if first else x.cumsum(axis, dtype=kind)
    if include_initial:
        start = cygrad.full([*x.shape[:axis], 1, *x.shape[axis + 1:]], first, dtype=kind)
        y = cygrad.cat([start, y], axis)
    return y


@standard
def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of all elements up to each one, with a 0 in front if `include_initial`."""
    return accumulated("cumulative_sum", x, axis, dtype, include_initial, 0)


@standard
def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Products of all elements up to each one, with a 1 in front if `include_initial`."""
    return accumulated("cumulative_prod", x, axis, dtype, include_initial, 1)


# ---- searching


@standard
def argmax(x, /, *, axis=None, keepdims=False):
    """Position of the first maximum along `axis`, or among all elements."""
    return reduced("argmax", x, axis, keepdims, lambda y: y.argmax(-1))


@standard
def argmin(x, /, *, axis=None, keepdims=False):
    """Position of the first minimum along `axis`, or among all elements."""
    return reduced("argmin", x, axis, keepdims, lambda y: y.argmin(-1))


@standard
def nonzero(x, /):
    """Positions of the nonzero elements, an array for each dimension."""
    if x.ndim == 0:
        raise ValueError("nonzero(): an array without dimensions has no positions")
    return tuple(cygrad.nonzero(x, as_tuple=True))


@standard
def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where elements of `x2` belong in the sorted `x1`."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted(): side is 'left' or 'right', got {side!r}")
    if sorter is not None:
        x1 = x1.index_select(0, sorter.to(cygrad.int64))
    x1, x2 = pair(x1, x2)
    return cygrad.searchsorted(x1.contiguous(), x2.contiguous(), right=side == "right")


# ---- sorting and sets


@standard
def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Sorted along `axis`."""
    return cygrad.sort(x, dim=axis_in(axis, x.ndim, "sort"), descending=descending, stable=stable)[0]


@standard
def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The positions that sort along `axis`; equal elements keep their order if `stable`."""
    return cygrad.sort(x, dim=axis_in(axis, x.ndim, "argsort"), descending=descending, stable=stable)[1]


def order_of(x):
    """Positions that sort a 1-d array stably; complex numbers by real part, then by imaginary part."""
    if not x.dtype.is_complex:
        return cygrad.sort(x, stable=True)[1]
    order = cygrad.sort(cygrad.imag(x), stable=True)[1]
    return order[cygrad.sort(cygrad.real(x)[order], stable=True)[1]]


def groups(x):
    """(values, positions of the firsts, group of each element, sizes) of equal elements; each NaN is a group."""
    x = x.reshape(-1)
    order = order_of(x)
    sorted_x = x[order]
    new = cygrad.ones(x.shape, dtype=cygrad.bool)
    if x.shape[0] > 1:
        new[1:] = sorted_x[1:] != sorted_x[:-1]
    starts = cygrad.nonzero(new, as_tuple=True)[0]
    inverse = cygrad.empty(x.shape, dtype=cygrad.int64)
    inverse[order] = new.to(cygrad.int64).cumsum(0) - 1
    ends = cygrad.cat([starts, cygrad.tensor([x.shape[0]])])
    return sorted_x[starts], order[starts], inverse, ends[1:] - starts


@standard
def unique_all(x, /):
    """Distinct values, where each appears first, which one each element is, and how often each appears."""
    values, firsts, inverse, counts = groups(x)
    return UniqueAll(values, firsts, inverse.reshape(x.shape), counts)


@standard
def unique_counts(x, /):
    """Distinct values, and how often each appears."""
    values, _, _, counts = groups(x)
    return UniqueCounts(values, counts)


@standard
def unique_inverse(x, /):
    """Distinct values, and which one each element is."""
    values, _, inverse, _ = groups(x)
    return UniqueInverse(values, inverse.reshape(x.shape))


@standard
def unique_values(x, /):
    """Distinct values."""
    return groups(x)[0]


@standard
def isin(x1, x2, /, *, invert=False):
    """Whether each element of `x1` is among those of `x2`; with `invert`, whether it is not."""
    x1, x2 = pair(x1, x2)
    found = (x1.unsqueeze(-1) == x2.reshape(-1)).any(-1) if x2.numel() else cygrad.zeros_like(x1, dtype=cygrad.bool)
    return ~found if invert else found
