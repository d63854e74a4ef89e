"""QR decomposition, products of reflections, and the LDL factors of symmetric matrices."""

from .._core import Tensor, cat, differentiated, tril, triu, where
from . import composed
from .lapack_devices import lapack
from .linalg_base import (
    Step,
    check_alike,
    check_matrix,
    check_square,
    check_tensor,
    columns,
    diag_embed,
    diagonal,
    expand_batch,
    identity,
    int32,
    mH,
    mT,
    one_batch,
    raise_failed,
    type_word,
)
from .linalg_solve import check_system, triangular

# ---- QR


class LinalgQr(Step):
    @staticmethod
    def forward(ctx, a, mode):
        m, n = a.shape[-2:]
        k = min(m, n)
        packed, tau = lapack("geqrf", a)
        rows = m if mode == "complete" else k
        r = mT(tril(mT(packed[..., :rows, :])))
        if mode == "r":
            q = a.new_empty(0)
        else:
            start = packed[..., :k]
            if rows > k:
                start = cat([start, start.new_zeros(*start.shape[:-1], rows - k)], -1)
            q, = lapack("orgqr", start, tau)
        ctx.mode = mode
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, r)
        return q, r

    @staticmethod
    def backward(ctx, gq, gr):
        q, r = ctx.saved_tensors
        if ctx.mode == "r":
            raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
                               "use "
                               "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr")
        m, n = q.shape[-2], r.shape[-1]
        if ctx.mode == "complete" and m > n:
            raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
        if gq is None and gr is None:
            return None, None
        if m >= n:
            return qr_gradient(q, r, gq, gr), None
        # A = [X Y], R = [U V]: X = QU is square, and V = Q^H Y
        rest = None
        if gr is not None:
            y = q @ r[..., m:]
            rest = q @ gr[..., m:]
            more = y @ mH(gr[..., m:])
            gq, gr = more if gq is None else gq + more, gr[..., :m]
        first = qr_gradient(q, r[..., :m], gq, gr)
        return cat([first, r.new_zeros(*first.shape[:-1], n - m) if rest is None else rest], -1), None


def qr_gradient(q, r, gq, gr):
    """Of tall A = QR: Q^H dQ is skew-Hermitian and dR R^-1 upper triangular with a real diagonal, and their sum is
    Q^H dA R^-1 (S. Walter and L. Lehmann, Algorithmic differentiation of linear algebra functions, 2010)."""
    x = 0
    if gr is not None:
        x = gr @ mH(r)
    if gq is not None:
        x = x - mH(q) @ gq
    up = triu(x)
    both = up + mH(up)
    middle = both - diag_embed(diagonal(both)) / 2
    total = q @ middle if gq is None else gq + q @ middle
    return triangular(mH(r), total, False, left=False)


def qr_of(a, mode, name):
    check_matrix(a, name)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
                           "'complete'")
    return LinalgQr.apply(a, mode)


@composed("linalg out", returns="Q R")
def qr(A: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Orthonormal columns Q and upper triangular R with ``A = QR``.

    Parameters
    ----------
    A : Tensor
        Matrices, (*, m, n).
    mode : str
        ``"reduced"``: Q is m x k with k = min(m, n); ``"complete"``: Q is square; ``"r"``: Q comes empty.
    """
    return qr_of(A, mode, "linalg.qr")


@composed("function method out", name="qr", returns="Q R")
def old_qr(input: Tensor, some: bool = True) -> tuple[Tensor, Tensor]:
    """See `linalg.qr`; `some` is mode "reduced"."""
    return qr_of(input, "reduced" if some else "complete", "linalg.qr")


class Geqrf(Step):
    @staticmethod
    def forward(ctx, a):
        return tuple(lapack("geqrf", a))

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError("the derivative for 'geqrf' is not implemented; linalg.qr has one")


@composed("function method out", returns="a tau")
def geqrf(input: Tensor) -> tuple[Tensor, Tensor]:
    """LAPACK's packed form of the QR decomposition: R above the reflectors, and their factors tau."""
    check_matrix(input, "torch.geqrf", "input")
    return Geqrf.apply(input)


def reflectors(packed, tau):
    """Vectors v and factors t of the reflections I - t v v^H."""
    unit = tril(packed, -1)
    k = tau.shape[-1]
    eye = identity(packed, packed.shape[-2])[:, :k]
    return unit[..., :k] + eye, tau


def reflect(v, t, x, adjoint=False):
    """One reflection, of the column vectors v of shape (*, m, 1), of the columns of x."""
    t = t.conj() if adjoint and t.is_complex() else t
    return x - t[..., None, None] * (v @ (mH(v) @ x))


def check_reflectors(packed, tau, name):
    check_matrix(packed, name, "input")
    check_tensor(tau, name, "tau")
    if packed.ndim - tau.ndim != 1:
        raise RuntimeError(f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
                           f"{tau.ndim} and input.ndim is equal to {packed.ndim}")
    if tuple(tau.shape[:-1]) != tuple(packed.shape[:-2]):
        raise RuntimeError(f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
                           f"{list(tau.shape[:-1])}")
    if tau.dtype != packed.dtype:
        raise RuntimeError(f"{name}: tau dtype {type_word(tau)} does not match input dtype {type_word(packed)}")


def product_of_reflectors(packed, tau, name):
    check_reflectors(packed, tau, name)
    m, n = packed.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got "
                           f"{list(packed.shape)}")
    if n < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1], got "
                           f"{list(packed.shape)} and {list(tau.shape)}")
    if not differentiated(packed, tau):
        return lapack("orgqr", packed, tau)[0]
    vs, ts = reflectors(packed, tau)
    q = expand_batch(identity(packed, m)[:, :n], tuple(packed.shape[:-2]))
    for i in range(tau.shape[-1] - 1, -1, -1):
        q = reflect(vs[..., i:i + 1], ts[..., i], q)
    if not tau.shape[-1]:              # no reflection: the input has a gradient, of zeros
        q = where(packed.detach() != packed.detach(), q, where(q == q, q, packed))
    return columns(q)


@composed("linalg out")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflections that `geqrf` describes: Q of the QR decomposition.

    Where a gradient is wanted, the reflections are recorded one by one.
    """
    return product_of_reflectors(A, tau, "torch.linalg.householder_product")


@composed("function method out")
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """See `linalg.householder_product`."""
    return product_of_reflectors(input, tau, "torch.linalg.householder_product")


@composed("function method out")
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """`other` multiplied by the orthogonal matrix that `geqrf` describes, or by its adjoint."""
    name = "torch.ormqr"
    check_reflectors(input, tau, name)
    check_matrix(other, name, "other")
    check_alike(input, other, name, "input", "other")
    side = -2 if left else -1
    if other.shape[side] < tau.shape[-1]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2], got {list(other.shape)} and "
                           f"{list(input.shape)}")
    if tau.shape[-1] > input.shape[-1]:
        raise RuntimeError(f"{name}: tau.shape[-1] must be less than or equal to input.shape[-1]")
    if tuple(other.shape[:-2]) != tuple(input.shape[:-2]):
        raise RuntimeError(f"{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
                           f"{list(other.shape[:-2])}")
    if not differentiated(input, tau, other):
        return lapack("ormqr", input, tau, other, letters=("L" if left else "R") + ("T" if transpose else "N"))[0]
    if not left:
        return mH(ormqr(input, tau, mH(other), True, not transpose))
    vs, ts = reflectors(input, tau)
    order = range(tau.shape[-1])
    for i in order if transpose else reversed(order):
        other = reflect(vs[..., i:i + 1], ts[..., i], other, transpose)
    return columns(other)


# ---- LDL


def ldl(a, hermitian, name):
    check_square(a, name)
    packed, pivots, info = lapack("sytrf", a.detach(), letters="L" + ("H" if hermitian and a.is_complex() else "S"))
    return columns(tril(packed)), pivots, info


@composed("linalg out", returns="LD pivots")
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> tuple[Tensor, Tensor]:
    """Compact form of ``A = P L D L^T P^T`` for symmetric (or Hermitian) matrices, not differentiable."""
    packed, pivots, info = ldl(A, hermitian, "torch.linalg.ldl_factor")
    raise_failed(info, "torch.linalg.ldl_factor", "The block {} of D is zero: the matrix is singular.")
    return packed, pivots


@composed("linalg out", returns="LD pivots info")
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """`ldl_factor` without its error: ``info`` is 0, or the number of the block of D that is zero."""
    packed, pivots, info = ldl(A, hermitian, "torch.linalg.ldl_factor_ex")
    if check_errors:
        raise_failed(info, "torch.linalg.ldl_factor_ex", "The block {} of D is zero: the matrix is singular.")
    return packed, pivots, info


@composed("linalg out")
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """The solution of ``AX = B`` for the A that `ldl_factor` factored."""
    name = "torch.linalg.ldl_solve"
    check_square(LD, name, "LD")
    check_tensor(pivots, name, "pivots")
    check_matrix(B, name, "B")
    check_alike(LD, B, name, "LD", "B")
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                           f"{list(pivots.shape)} instead")
    if pivots.is_floating_point() or pivots.is_complex():
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {type_word(pivots)}")
    check_system(LD, B, True, name)
    packed, b = one_batch(LD, B)
    pivots = pivots.to(int32()).expand(*packed.shape[:-1])
    letters = "L" + ("H" if hermitian and LD.is_complex() else "S")
    return lapack("sytrs", packed.detach(), pivots, b.detach(), letters=letters)[0]
