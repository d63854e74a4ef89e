"""Reading through indices, made of gather and of integer arithmetic."""

from collections.abc import Sequence

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from . import composed


@composed("function method")
def argwhere(input: Tensor) -> Tensor:
    """Indices of the nonzero elements, one row each.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor
        int64, of shape ``(count, input.ndim)``.
    """
    return _core.nonzero(input)


@composed("function method out_same")
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The elements that ``indices`` names along ``dim``; what ``argmax`` and ``argsort`` return can be given.

    Parameters
    ----------
    input : Tensor
    indices : Tensor
        int64, of as many dimensions as ``input``; both broadcast against each other outside ``dim``. Negative ones
        count from the end.
    dim : int, optional
        Without it both are flattened, which they have to lie for as `view` asks.

    Raises
    ------
    RuntimeError
        The dimensions are not equally many, do not broadcast, or the dtype is another one.
    """
    if indices.dtype is not _INT64:
        raise RuntimeError(f"take_along_dim(): indices of int64 are wanted, got {indices.dtype}")
    if dim is None:
        return input.view(-1).gather(0, _from_start(indices.view(-1), input.numel()))
    if input.ndim != indices.ndim:
        raise RuntimeError(f"take_along_dim(): input and indices should have the same number of dimensions, but got "
                           f"{input.ndim} for the input {list(input.shape)} and {indices.ndim} for the indices "
                           f"{list(indices.shape)}")
    at = _wrapped(dim, input.ndim)
    wide = [_joint(n, k) if d != at else n
            for d, (n, k) in enumerate(zip(input.shape, indices.shape, strict=True))]
    named = [n if d != at else k for d, (n, k) in enumerate(zip(wide, indices.shape, strict=True))]
    if not input.ndim:
        return input.gather(dim, _from_start(indices, 1))
    return input.expand(wide).gather(dim, _from_start(indices.expand(named), input.shape[at]))


def _from_start(indices: Tensor, size: int) -> Tensor:
    return _core.where(indices < 0, indices + size, indices)


_INT64 = dtypes["int64"]


def _wrapped(dim: int, ndim: int) -> int:
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-max(ndim, 1)}, {max(ndim, 1) - 1}], "
                         f"but got {dim})")
    return dim % max(ndim, 1)


def _joint(a: int, b: int) -> int:
    if a != b and 1 not in (a, b):
        raise RuntimeError(f"take_along_dim(): the sizes {a} and {b} do not broadcast: they must match, or one be 1")
    return b if a == 1 else a


@composed("function")
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Coordinates in ``shape`` of elements that are numbered in row-major order.

    Parameters
    ----------
    indices : Tensor
        Integers; what is outside wraps around.
    shape : int or sequence of int

    Returns
    -------
    tuple of Tensor
        One int64 tensor of the shape of ``indices`` for each dimension.

    Raises
    ------
    TypeError, ValueError
        The indices are no integers; the shape holds what is no int, or is negative.
    """
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is dtypes["bool"]:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in sizes:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n).__name__}")
        if n < 0:
            raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    if not sizes:
        return ()
    steps = [1]
    for n in reversed(sizes[1:]):
        steps.append(steps[-1] * n)
    steps = _core.tensor(steps[::-1], device=indices.device)
    rows = _core.div(indices.long().unsqueeze(-1), steps, rounding_mode="floor")
    return _core.unbind(rows % _core.tensor(sizes, device=indices.device), -1)
