"""Norms of vectors and matrices, condition numbers."""

from math import inf

from .._core import Tensor, where
from .._core import norm as plain_norm
from . import composed
from .linalg_base import check_float, check_matrix, check_square, check_tensor, type_word
from .linalg_solve import LinalgInvEx
from .linalg_spectral import values_of


def as_number(x, name, arg):
    if isinstance(x, Tensor) and x.ndim == 0:
        return x.item()
    if isinstance(x, bool) or not isinstance(x, (int, float, complex)):
        raise TypeError(f"{name}(): argument '{arg}' must be Number, not {type(x).__name__}")
    return x


def wrapped(dim, ndim, name):
    """Dimensions counted from the front."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not isinstance(d, int):
            raise TypeError(f"{name}(): argument 'dim' must be tuple of ints, but found element of type "
                            f"{type(d).__name__}")
        n = max(ndim, 1)
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    return [d % max(ndim, 1) for d in dims]


def converted(x, dtype, name):
    """`x` in the dtype that the norm is asked to compute in."""
    if dtype is None:
        return x
    wide = x.detach().new_empty(0).to(dtype)
    if not (wide.is_floating_point() or wide.is_complex()):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {type_word(wide)}")
    if x.is_complex() and not wide.is_complex():
        raise RuntimeError(f"{name}: dtype should be complex for complex inputs, but got {type_word(wide)}")
    if not x.is_complex() and wide.is_complex():
        raise RuntimeError(f"{name}: dtype should be real for real inputs, but got {type_word(wide)}")
    if wide.itemsize < x.itemsize:
        raise RuntimeError(f"{name}: the dtype of the input ({type_word(x)}) should be convertible without narrowing "
                           "to the "
                           f"specified dtype ({type_word(wide)})")
    return x.to(dtype)


def vector(x, order, dim, keepdim, dtype, name="linalg.vector_norm"):
    check_float(x, name, low=True)
    order = as_number(order, name, "ord")
    if isinstance(order, complex):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    x = converted(x, dtype, name)
    if dim is not None:
        dim = wrapped(dim, x.ndim, name)
        dim = dim or None
    dims = range(x.ndim) if dim is None else dim
    empty = any(x.shape[d] == 0 for d in dims) if x.ndim else False
    if empty and (order < 0 or order == inf):
        raise RuntimeError(f"{name} cannot compute the {order:g} norm on an empty tensor because the operation does "
                           "not have "
                           "an identity")
    return plain_norm(x, float(order), dim, keepdim)


@composed("linalg out")
def vector_norm(x: Tensor, ord: float = 2, dim=None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """The `ord`-norm of all elements over `dim`, taken for a vector.

    Parameters
    ----------
    x : Tensor
        Floating-point or complex.
    ord : float
        Any number, inf and -inf: the largest and smallest absolute value; 0 counts what is not zero.
    dim : int or tuple of int, optional
        Default: all.
    keepdim : bool
        Whether reduced dimensions stay with size 1.
    dtype : dtype, optional
        Converts x first.
    """
    check_tensor(x, "linalg.vector_norm", "self")
    return vector(x, ord, dim, keepdim, dtype)


def matrix(x, order, dim, keepdim, dtype, name="linalg.matrix_norm"):
    check_matrix(x, name, "A", low=True)
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    row, col = wrapped(dims, x.ndim, name)
    if row == col:
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    if isinstance(order, str):
        if order not in ("fro", "nuc"):
            raise RuntimeError(f"{name}: Order {order} not supported.")
        if order == "fro":
            return vector(x, 2, [row, col], keepdim, dtype, name)
    else:
        order = as_number(order, name, "ord")
        if abs(order) not in (1, 2, inf):
            raise RuntimeError(f"{name}: Order {order:g} not supported.")
    x = converted(x, dtype, name)
    if order == "nuc" or abs(order) == 2:
        s = values_of(x.movedim([row, col], [-2, -1]), "linalg.svd")
        y = s.sum(-1) if order == "nuc" else extreme(s, -1, order, name)
        return spread(y, x, row, col) if keepdim else y
    along, across = (row, col) if abs(order) == 1 else (col, row)
    sums = x.abs().sum(along, True)
    y = extreme(sums, across, order, name, True)
    return y if keepdim else y.squeeze(max(row, col)).squeeze(min(row, col))


def extreme(x, dim, order, name, keepdim=False):
    """The largest for a positive order, else the smallest; a largest of none is 0."""
    if x.shape[dim] == 0:
        if order < 0:
            raise IndexError(f"{name}: Expected reduction dim {dim} to have non-zero size for the order {order:g}")
        return x.sum(dim, keepdim)
    return x.amax(dim, keepdim) if order > 0 else x.amin(dim, keepdim)


def spread(y, x, row, col):
    """With the two reduced dimensions as size 1."""
    for d in sorted((row, col)):
        y = y.unsqueeze(d)
    return y


@composed("linalg out")
def matrix_norm(A: Tensor, ord="fro", dim=(-2, -1), keepdim: bool = False, *, dtype=None) -> Tensor:
    """Norms of matrices: "fro", "nuc" (sum of singular values), inf, -inf (row sums), 1, -1 (column sums), 2, -2
    (singular values), of which the negative ones take the smallest."""
    check_tensor(A, "linalg.matrix_norm", "self")
    return matrix(A, ord, dim, keepdim, dtype)


@composed("linalg out")
def norm(A: Tensor, ord=None, dim=None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """`vector_norm` of one dimension (or of all, without `ord`), `matrix_norm` of two."""
    name = "linalg.norm"
    check_tensor(A, name, "A")
    if dim is not None and not isinstance(dim, int):
        dim = list(dim)
        if ord is not None and len(dim) not in (1, 2):
            raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dim}")
    if dim is None and ord is not None and A.ndim not in (1, 2):
        raise RuntimeError("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                           f"{A.ndim}D.")
    if ord is None:
        if dim is None:
            y = vector(A.reshape(-1) if A.ndim > 1 else A, 2, None, keepdim and A.ndim < 2, dtype)
            return y.reshape([1] * A.ndim) if keepdim and A.ndim > 1 else y
        return vector(A, 2, dim, keepdim, dtype)
    pair = A.ndim == 2 if dim is None else not isinstance(dim, int) and len(dim) == 2
    if isinstance(ord, str) or pair:
        return matrix(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype)
    return vector(A, ord, dim, keepdim, dtype)


@composed("linalg out")
def cond(A: Tensor, p=None) -> Tensor:
    """Condition numbers: of a norm `p`, ``||A|| ||A^-1||``; by default the ratio of the extreme singular values."""
    name = "linalg.cond"
    check_matrix(A, name)
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if not isinstance(p, str) and p is not None and p not in (2, -2, 1, -1, inf, -inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if not A.numel():
        return A.new_zeros(A.shape[:-2]) if not A.is_complex() else A.real.new_zeros(A.shape[:-2])
    if p is None or p in (2, -2):
        s = values_of(A, "linalg.svd")
        first, last = s[..., 0], s[..., -1]
        return last / first if p == -2 else first / last
    check_square(A, f"linalg.cond(ord={p})")
    inverse, info = LinalgInvEx.apply(A)
    y = matrix(A, p, (-2, -1), False, None)
    z = matrix(where((info > 0)[..., None, None], inverse.new_zeros(()), inverse), p, (-2, -1), False, None)
    return where((info > 0), y.new_full((), inf), y * z)


@composed("function")
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0):
    """Norms over all dimensions but one.

    Parameters
    ----------
    v : Tensor
    pow : int
        Order of the norm.
    dim : int
        The dimension that is kept; -1 for none.

    Returns
    -------
    Tensor
        Of as many dimensions, all of size 1 but `dim`; 0-d for `dim` -1.
    """
    if dim == -1:
        return plain_norm(v, pow)
    if not 0 <= dim < v.ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [-1, {v.ndim - 1}], but got {dim})")
    others = tuple(d for d in range(v.ndim) if d != dim)
    return plain_norm(v, pow, others, True) if others else v.abs()


@composed("function")
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0):
    """``v`` with the lengths `g`: see `norm_except_dim`."""
    return v * (g / norm_except_dim(v, 2, dim))
