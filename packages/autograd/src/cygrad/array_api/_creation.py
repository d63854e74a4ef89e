"""Arrays from data and from nothing."""

import contextlib
import math

import cygrad
from cygrad.autograd._core import Tensor
from cygrad.autograd.interop import over
from cygrad.storage.interop import storage_from_buffer

from ._array import Array, pair, standard
from ._dtypes import default_dtype, promoted

__all__ = ["arange", "asarray", "astype", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
           "meshgrid", "ones", "ones_like", "tril", "triu", "where", "zeros", "zeros_like"]


def sizes(shape):
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


@standard
def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Evenly spaced numbers in ``[start, stop)``; ``arange(stop)`` starts at 0."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = cygrad.int64 if all(isinstance(v, int) for v in (start, stop, step)) else cygrad.get_default_dtype()
    if step == 0:
        raise ValueError("arange(): the step must not be 0")
    if math.ceil((stop - start) / step) <= 0:
        return cygrad.empty(0, dtype=dtype, device=device)
    return cygrad.arange(start, stop, step, dtype=dtype, device=device)


@standard
def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """`obj` as an array, over the same memory where that is possible; see `cygrad.asarray`."""
    if not isinstance(obj, (Tensor, bool, int, float, complex, list, tuple)) and not hasattr(obj, "__dlpack__"):
        with contextlib.suppress(TypeError):
            obj = over(*storage_from_buffer(obj))     # elements, where cygrad.asarray reads bytes
    return cygrad.asarray(obj, dtype=dtype, device=device, copy=copy).as_subclass(Array)


@standard
def empty(shape, *, dtype=None, device=None):
    """Uninitialised."""
    return cygrad.empty(sizes(shape), dtype=dtype, device=device)


@standard
def empty_like(x, /, *, dtype=None, device=None):
    """Uninitialised, of the shape and dtype of `x`."""
    return cygrad.empty_like(x, dtype=dtype, device=device)


@standard
def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on the diagonal `k` places above the main one, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    k = max(-n_rows, min(k, n_cols))
    rows, columns = cygrad.arange(n_rows, device=device), cygrad.arange(n_cols, device=device)
    return (columns - k == rows.unsqueeze(1)).to(cygrad.get_default_dtype() if dtype is None else dtype)


@standard
def from_dlpack(x, /, *, device=None, copy=None):
    """An array over the memory of another library's; see `cygrad.from_dlpack`."""
    return cygrad.from_dlpack(x, device=device, copy=copy).as_subclass(Array)


@standard
def full(shape, fill_value, *, dtype=None, device=None):
    """`fill_value` everywhere."""
    dtype = default_dtype(type(fill_value)) if dtype is None else dtype
    return cygrad.full(sizes(shape), fill_value, dtype=dtype, device=device)


@standard
def full_like(x, /, fill_value, *, dtype=None, device=None):
    """`fill_value` everywhere, in the shape and dtype of `x`."""
    return cygrad.full_like(x, fill_value, dtype=dtype, device=device)


@standard
def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` evenly spaced numbers from `start` to `stop`, which is the last one if `endpoint`."""
    if num < 0:
        raise ValueError(f"linspace(): num must not be negative, got {num}")
    if dtype is None:
        dtype = default_dtype(complex if complex in (type(start), type(stop)) else float)
    working = cygrad.complex128 if dtype.is_complex else cygrad.float64
    if num == 0:
        return cygrad.empty(0, dtype=dtype, device=device)
    steps = num - 1 if endpoint else num
    x = cygrad.arange(num, dtype=cygrad.float64, device=device).to(working)
    y = start + x * ((stop - start) / steps if steps else 0)
    if endpoint and num > 1:
        y[-1] = stop
    return y.to(dtype)


@standard
def meshgrid(*arrays, indexing="xy"):
    """Coordinate arrays of the grid over these coordinates."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid(): indexing is 'xy' or 'ij', got {indexing!r}")
    swap = indexing == "xy" and len(arrays) > 1
    axes = [1, 0, *range(2, len(arrays))] if swap else list(range(len(arrays)))
    shape = [1] * len(arrays)
    placed = []
    for axis, x in zip(axes, arrays, strict=True):
        placed.append(x.reshape([*shape[:axis], x.shape[0], *shape[axis + 1:]]))
    whole = [0] * len(arrays)
    for axis, x in zip(axes, arrays, strict=True):
        whole[axis] = x.shape[0]
    return [x.expand(whole).clone() for x in placed]


@standard
def ones(shape, *, dtype=None, device=None):
    """Ones."""
    return cygrad.ones(sizes(shape), dtype=dtype, device=device)


@standard
def ones_like(x, /, *, dtype=None, device=None):
    """Ones, in the shape and dtype of `x`."""
    return cygrad.ones_like(x, dtype=dtype, device=device)


@standard
def tril(x, /, *, k=0):
    """The lower triangles of matrices, with `k` diagonals above the main one."""
    return cygrad.tril(x, k)


@standard
def triu(x, /, *, k=0):
    """The upper triangles of matrices, from the diagonal `k` places above the main one."""
    return cygrad.triu(x, k)


@standard
def zeros(shape, *, dtype=None, device=None):
    """Zeros."""
    return cygrad.zeros(sizes(shape), dtype=dtype, device=device)


@standard
def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros, in the shape and dtype of `x`."""
    return cygrad.zeros_like(x, dtype=dtype, device=device)


@standard
def astype(x, dtype, /, *, copy=True, device=None):
    """`x` converted; itself if nothing changes and not `copy`."""
    return x.to(dtype, copy=copy) if device is None else x.to(device).to(dtype, copy=copy)


@standard
def where(condition, x1, x2, /):
    """`x1` where `condition` holds, `x2` elsewhere."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        kind = promoted(default_dtype(type(x1)), default_dtype(type(x2)))
        x1, x2 = condition.new_tensor(x1, dtype=kind), condition.new_tensor(x2, dtype=kind)
    return cygrad.where(condition, *pair(x1, x2))
