"""Linear algebra: the standard's extension of that name. The last two dimensions are matrices, all others a batch."""

import math
from collections import namedtuple

import cygrad

from ._array import pair, standard
from ._dtypes import result_type
from ._manipulation import axes_in, axis_in, matrix_transpose
from ._statistics import wide

__all__ = ["cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
           "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
           "trace", "vecdot", "vector_norm"]

EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
QRResult = namedtuple("QRResult", "Q R")
SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = namedtuple("SVDResult", "U S Vh")


def torch_linalg():
    from cygrad import linalg

    return linalg


@standard
def cholesky(x, /, *, upper=False):
    """The triangular factor of positive definite matrices."""
    return torch_linalg().cholesky(x, upper=upper)


@standard
def cross(x1, x2, /, *, axis=-1):
    """Cross products of vectors of 3 along `axis`."""
    x1, x2 = pair(x1, x2)
    axis_in(axis, builtin_min(x1.ndim, x2.ndim), "cross")
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross(): vectors of 3 are wanted along axis {axis}, got shapes {tuple(x1.shape)} and "
                         f"{tuple(x2.shape)}")
    return torch_linalg().cross(*cygrad.broadcast_tensors(x1, x2), dim=axis)


builtin_min = min


@standard
def det(x, /):
    """Determinants."""
    return torch_linalg().det(x)


@standard
def diagonal(x, /, *, offset=0):
    """Diagonals of matrices, `offset` places above the main one."""
    return cygrad.diagonal(x, offset, -2, -1)


@standard
def eigh(x, /):
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices."""
    return EighResult(*torch_linalg().eigh(x))


@standard
def eigvalsh(x, /):
    """Eigenvalues of Hermitian matrices, ascending."""
    return torch_linalg().eigvalsh(x)


@standard
def inv(x, /):
    """Inverses."""
    return torch_linalg().inv(x)


@standard
def matmul(x1, x2, /):
    """Matrix products."""
    return cygrad.matmul(*pair(x1, x2))


@standard
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """Norms of matrices."""
    if ord is None:
        ord = "fro"
    return torch_linalg().matrix_norm(x, ord, (-2, -1), keepdims)


@standard
def matrix_power(x, n, /):
    """Matrices multiplied `n` times with themselves."""
    return torch_linalg().matrix_power(x, n)


@standard
def matrix_rank(x, /, *, rtol=None):
    """How many singular values are larger than `rtol` times the largest."""
    s = svdvals(x)
    if not s.shape[-1]:
        return cygrad.zeros(s.shape[:-1], dtype=cygrad.int64)
    if rtol is None:
        rtol = builtin_max(x.shape[-2:]) * epsilon(s)
    return (s > s.amax(-1, keepdim=True) * column(rtol)).sum(-1)


builtin_max = max


def epsilon(x):
    return 2.0**-52 if x.dtype is cygrad.float64 else 2.0**-23


def column(rtol):
    """A tolerance for each matrix, beside its singular values."""
    return rtol.unsqueeze(-1) if isinstance(rtol, cygrad.Tensor) else rtol


@standard
def outer(x1, x2, /):
    """The product of each element of one vector with each of another."""
    x1, x2 = pair(x1, x2)
    for x in (x1, x2):
        if x.ndim != 1:
            raise ValueError(f"outer(): vectors are wanted, got {tuple(x1.shape)} and {tuple(x2.shape)}")
    return x1.unsqueeze(1) * x2


@standard
def pinv(x, /, *, rtol=None):
    """Pseudo-inverses; singular values up to `rtol` times the largest count as 0."""
    if rtol is None:
        rtol = builtin_max(x.shape[-2:]) * epsilon(cygrad.real(x) if x.dtype.is_complex else x)
    return torch_linalg().pinv(x, rtol=rtol)


@standard
def qr(x, /, *, mode="reduced"):
    """``x = Q @ R`` with orthonormal columns and an upper triangle."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr(): mode is 'reduced' or 'complete', got {mode!r}")
    return QRResult(*torch_linalg().qr(x, mode))


@standard
def slogdet(x, /):
    """Sign and logarithm of the absolute value of determinants."""
    return SlogdetResult(*torch_linalg().slogdet(x))


@standard
def solve(x1, x2, /):
    """The solution of ``x1 @ y = x2``, where `x2` is one vector or (a batch of) matrices."""
    x1, x2 = pair(x1, x2)
    if x2.ndim == 1:
        return torch_linalg().solve(x1, x2.unsqueeze(-1)).squeeze(-1)
    return torch_linalg().solve(x1, x2)


@standard
def svd(x, /, *, full_matrices=True):
    """Singular value decompositions ``U @ diag(S) @ Vh``."""
    return SVDResult(*torch_linalg().svd(x, full_matrices=full_matrices))


@standard
def svdvals(x, /):
    """Singular values, descending."""
    return torch_linalg().svdvals(x)


@standard
def tensordot(x1, x2, /, *, axes=2):
    """Products summed over axes of both."""
    x1, x2 = pair(x1, x2)
    if not isinstance(axes, int):
        axes = [[axis_in(a, x.ndim, "tensordot") for a in own] for x, own in zip((x1, x2), axes, strict=True)]
    return cygrad.tensordot(x1, x2, axes)


@standard
def trace(x, /, *, offset=0, dtype=None):
    """Sums of the diagonals of matrices."""
    kind = wide(x, dtype)
    return cygrad.diagonal(x, offset, -2, -1).to(kind).sum(-1, dtype=kind)


@standard
def vecdot(x1, x2, /, *, axis=-1):
    """Scalar products along `axis`, of the conjugate of `x1` with `x2`."""
    x1, x2 = pair(x1, x2)
    axis_in(axis, builtin_min(x1.ndim, x2.ndim), "vecdot")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot(): sizes {x1.shape[axis]} and {x2.shape[axis]} along axis {axis} differ")
    x1, x2 = cygrad.broadcast_tensors(x1, x2)
    kind = result_type(x1)
    return ((cygrad.conj(x1) if kind.is_complex else x1) * x2).sum(axis, dtype=kind)


@standard
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """Norms over the axes, all by default, as of vectors."""
    axes = axes_in(axis, x.ndim, "vector_norm")
    if not axes:
        y = cygrad.abs(x)
        return y if ord else (y != 0).to(y.dtype)
    if not math.isfinite(ord) or x.numel():
        return torch_linalg().vector_norm(x, ord, tuple(axes), keepdims)
    return cygrad.abs(x).sum(tuple(axes), keepdim=keepdims)
