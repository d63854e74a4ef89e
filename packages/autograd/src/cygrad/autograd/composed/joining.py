"""Tensors put together and rearranged."""

from itertools import pairwise

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from . import composed
from ._args import int_arg, ints_arg, sizes_arg, tensor_arg, tensors_arg
from .views import atleast_1d, atleast_2d, atleast_3d


def joined(tensors, function: str, view, dim, out) -> Tensor:
    """`cat` of a view of each tensor."""
    tensors = tensors_arg(tensors, function)
    if not tensors:
        raise RuntimeError(f"{function}(): expects a non-empty TensorList")
    parts = view(*tensors)
    parts = parts if isinstance(parts, tuple) else (parts,)
    return _core.cat(parts, dim if isinstance(dim, int) else dim(parts[0]), out=out)


@composed("function")
def concat(tensors, dim: int = 0, *, out=None) -> Tensor:
    """`cat` under another name."""
    return _core.cat(tensors, dim, out=out)


@composed("function")
def concatenate(tensors, dim: int = 0, *, axis=None, out=None) -> Tensor:
    """`cat` under NumPy's name."""
    return _core.cat(tensors, dim if axis is None else axis, out=out)


@composed("function")
def hstack(tensors, *, out=None) -> Tensor:
    """Joined along the second dimension; vectors and numbers along the first.

    Parameters
    ----------
    tensors : sequence of Tensors

    Raises
    ------
    RuntimeError
        None are given, or their other sizes differ.
    """
    return joined(tensors, "hstack", atleast_1d, lambda x: 0 if x.dim() == 1 else 1, out)


@composed("function")
def vstack(tensors, *, out=None) -> Tensor:
    """Joined along the first dimension; vectors are rows."""
    return joined(tensors, "vstack", atleast_2d, 0, out)


@composed("function")
def row_stack(tensors, *, out=None) -> Tensor:
    """`vstack` under another name."""
    return joined(tensors, "row_stack", atleast_2d, 0, out)


@composed("function")
def dstack(tensors, *, out=None) -> Tensor:
    """Joined along the third dimension."""
    return joined(tensors, "dstack", atleast_3d, 2, out)


@composed("function")
def column_stack(tensors, *, out=None) -> Tensor:
    """Joined along the second dimension; vectors are columns."""
    tensors = tensors_arg(tensors, "column_stack")
    return joined(tuple(x if x.dim() > 1 else x.reshape(x.numel(), 1) for x in tensors), "column_stack",
                  lambda *parts: parts, 1, out)


@composed("function")
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix, zero but for the given matrices along its diagonal.

    Parameters
    ----------
    *tensors : Tensor
        Of two dimensions at most; vectors are rows, numbers are 1 by 1. Their dtypes promote.
    """
    tensors = tensors_arg(tensors, "block_diag")
    if not tensors:
        return _core.zeros(1, 0)
    for i, x in enumerate(tensors):
        if x.dim() > 2:
            raise RuntimeError(f"block_diag(): Input tensors must have 2 or fewer dimensions. Input {i} has {x.dim()} "
                               "dimensions")
    blocks = [atleast_2d(x) for x in tensors]
    dtype = blocks[0].dtype
    for b in blocks[1:]:
        dtype = _core.promote_types(dtype, b.dtype)
    size = [sum(b.shape[d] for b in blocks) for d in (0, 1)]
    y = _core.zeros(size, dtype=dtype, device=blocks[0].device)
    y = _core.with_room(y, *blocks)
    row = column = 0
    for b in blocks:
        y[row : row + b.shape[0], column : column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return y


# ---- repeating -------------------------------------------------------------------------------------------------------


def repeated(x: Tensor, times: tuple[int, ...], function: str) -> Tensor:
    """`x` put beside itself: a copy, row-major."""
    if len(times) < x.dim():
        raise RuntimeError(f"{function}(): Number of dimensions of repeat dims can not be smaller than number of "
                           f"dimensions of tensor: got {list(times)} for shape {list(x.shape)}")
    if any(n < 0 for n in times):
        raise RuntimeError(f"{function}(): Repeats cannot be negative, got {list(times)}")
    shape = (1,) * (len(times) - x.dim()) + tuple(x.shape)
    result = tuple(n * t for n, t in zip(shape, times, strict=True))
    # Each dimension that repeats becomes two, one of stride 0; one copy of that is the result.
    apart, wide = [], []
    for n, t in zip(shape, times, strict=True):
        apart += [n] if t == 1 else [1, n]
        wide += [n] if t == 1 else [t, n]
    copy = x.reshape(apart).expand(wide).clone(memory_format=_core.contiguous_format)
    return _core.name_node(copy.view(result), "Repeat")


@composed("method")
def repeat(self: Tensor, *repeats) -> Tensor:
    """The tensor put beside itself along each dimension.

    Parameters
    ----------
    *repeats : ints, or one sequence of ints
        How many times along each dimension; more of them than dimensions add leading ones.

    Raises
    ------
    RuntimeError
        Fewer repeats than dimensions, or negative ones.
    """
    return repeated(self, sizes_arg(repeats, "repeat", "repeats"), "repeat")


def tiled(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    return repeated(x, (1,) * (x.dim() - len(dims)) + dims, "tile")


@composed("function")
def tile(input: Tensor, dims) -> Tensor:
    """`input` put beside itself along its last dimensions, as often as `dims` says."""
    return tiled(tensor_arg(input, "tile"), ints_arg(dims, "tile", "dims"))


@composed("method", name="tile")
def tile_method(self: Tensor, *dims) -> Tensor:
    """The tensor put beside itself along its last dimensions, as often as `dims` says."""
    return tiled(self, sizes_arg(dims, "tile", "dims"))


# ---- turning ---------------------------------------------------------------------------------------------------------


@composed("function method")
def fliplr(input: Tensor) -> Tensor:
    """A copy with the second dimension reversed."""
    if tensor_arg(input, "fliplr").dim() < 2:
        raise RuntimeError(f"fliplr(): Input must be >= 2-d, got shape {list(input.shape)}")
    return input.flip(1)


@composed("function method")
def flipud(input: Tensor) -> Tensor:
    """A copy with the first dimension reversed."""
    if tensor_arg(input, "flipud").dim() < 1:
        raise RuntimeError("flipud(): Input must be >= 1-d, got a tensor without dimensions")
    return input.flip(0)


@composed("function method")
def rot90(input: Tensor, k: int = 1, dims=(0, 1)) -> Tensor:
    """A copy turned by 90 degrees `k` times, in the plane of two dimensions, from the first towards the second.

    Parameters
    ----------
    input : Tensor
        With two dimensions at least.
    k : int
        Negative: the other way.
    dims : tuple of two ints

    Raises
    ------
    RuntimeError
        Not two dimensions, the same one twice, or a tensor that has fewer.
    """
    x = tensor_arg(input, "rot90")
    k, dims = int_arg(k, "rot90", "k"), ints_arg(dims, "rot90", "dims")
    if len(dims) != 2:
        raise RuntimeError(f"rot90(): expected total rotation dims == 2, but got dims = {len(dims)}")
    if x.dim() < 2:
        raise RuntimeError(f"rot90(): expected total dims >= 2, but got total dims = {x.dim()}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == x.dim():
        raise RuntimeError(f"rot90(): expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = "
                           f"{dims[1]}")
    for d in dims:
        if not -x.dim() <= d < x.dim():
            raise RuntimeError(f"rot90(): Rotation dim out of range, dim = {d}")
    k %= 4
    if k == 0:
        return x.clone(memory_format=_core.contiguous_format)
    if k == 2:
        return x.flip(dims)
    return x.flip(dims[1 if k == 1 else 0]).transpose(*dims)


# ---- grids -----------------------------------------------------------------------------------------------------------


@composed("function")
def meshgrid(*tensors: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector expanded along the dimensions of the others, as views.

    Parameters
    ----------
    *tensors : Tensor, or one sequence of Tensors
        Vectors or numbers of one dtype.
    indexing : {"ij", "xy"}
        "xy" exchanges the first two dimensions of the grid.

    Raises
    ------
    RuntimeError
        No tensor, tensors of several dtypes or of two dimensions, or another word for `indexing`.
    """
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        tensors = tensors[0]
    tensors = tensors_arg(tensors, "meshgrid")
    if not tensors:
        raise RuntimeError("meshgrid(): expects a non-empty TensorList")
    if any(x.dim() > 1 for x in tensors):
        raise RuntimeError("meshgrid(): Expected 0D or 1D tensor in the tensor list but got shapes "
                           f"{[list(x.shape) for x in tensors]}")
    if any(x.dtype is not tensors[0].dtype for x in tensors):
        raise RuntimeError("meshgrid(): expects all tensors to have the same dtype, got "
                           f"{[str(x.dtype) for x in tensors]}")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid(): indexing must be one of \"xy\" or \"ij\", but received: {indexing}")
    swapped = indexing == "xy" and len(tensors) > 1
    if swapped:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    size = tuple(x.numel() for x in tensors)
    ones = (1,) * len(size)
    grids = [x.view(*ones[:i], -1, *ones[i + 1 :]).expand(size) for i, x in enumerate(tensors)]
    if swapped:
        grids[:2] = grids[1], grids[0]
    return tuple(grids)


@composed("function")
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every choice of one element from each vector, as rows, the last vector's elements changing fastest.

    Parameters
    ----------
    *tensors : Tensor
        Vectors of one dtype.
    """
    tensors = tensors_arg(tensors, "cartesian_prod")
    if any(x.dim() != 1 for x in tensors):
        raise RuntimeError("cartesian_prod(): Expect a 1D vector, but got shapes "
                           f"{[list(x.shape) for x in tensors]}")
    if len(tensors) == 1:
        return tensors[0]
    return _core.stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


@composed("function")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of `r` elements of a vector, as rows, in the order of their places.

    Parameters
    ----------
    input : Tensor
        A vector.
    r : int
        Not negative.
    with_replacement : bool
        Whether an element may be chosen several times.
    """
    x = tensor_arg(input, "combinations")
    r = int_arg(r, "combinations", "r")
    if x.dim() != 1:
        raise RuntimeError(f"combinations(): Expect a 1D vector, but got shape {list(x.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations(): Expect a non-negative number, but got {r}")
    if r == 0:
        return x.new_empty(0)
    grids = meshgrid(*[_core.arange(x.numel(), device=x.device)] * r)
    chosen = _core.ones_like(grids[0], dtype=dtypes["bool"])
    for low, high in pairwise(grids):
        chosen = chosen & ((low <= high) if with_replacement else (low < high))
    return _core.stack([x[g[chosen]] for g in grids], 1)
