"""Systems of linear equations, inverses and determinants, on the LU factorisation of LAPACK."""

from .._core import Tensor, anywhere, deliver, differentiated, tril, triu, where
from . import composed
from .lapack_devices import lapack
from .linalg_base import (
    SINGULAR,
    Step,
    check_alike,
    check_float,
    check_matrix,
    check_square,
    check_tensor,
    columns,
    conj,
    diag_embed,
    diagonal,
    epsilon,
    expand_batch,
    identity,
    is_vector,
    mH,
    mT,
    one_batch,
    raise_failed,
)

# ---- solve


class LinalgSolveEx(Step):
    @staticmethod
    def forward(ctx, a, b):
        lu, pivots, info = lapack("getrf", a)
        x, = lapack("getrs", lu, pivots, b, letters="N")
        ctx.mark_non_differentiable(lu, pivots, info)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, x, lu, pivots)
        return x, lu, pivots, info

    @staticmethod
    def backward(ctx, g, *_):
        if g is None:
            return None, None
        a, x, lu, pivots = ctx.saved_tensors
        if differentiated(a, g):
            gb = LinalgSolveEx.apply(mH(a), g)[0]
        else:
            gb, = lapack("getrs", lu, pivots, g, letters="C" if a.is_complex() else "T")
        return -(gb @ mH(x)) if ctx.needs_input_grad[0] else None, gb if ctx.needs_input_grad[1] else None


def solve_parts(a, b, left, name):
    """(solution, info) of AX = B, or XA = B."""
    check_square(a, name)
    check_tensor(b, name, "B")
    check_alike(a, b, name)
    vector = is_vector(a, b) and b.ndim > 0
    if not left and vector:
        raise RuntimeError(f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In "
                           "this "
                           "case linalg.solve is equivalent to B / A.squeeze(-1)")
    if vector:
        b = b.unsqueeze(-1)
    check_system(a, b, left, name)
    if not left:
        a, b = mT(a), mT(b)
    x, _, _, info = LinalgSolveEx.apply(*one_batch(a, b))
    x = x if left else mT(x)
    return columns(x.squeeze(-1)) if vector else x, info


def check_system(a, b, left, name):
    if b.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions, but has shape "
                           f"{list(b.shape)}.")
    if a.shape[-1] != b.shape[-2 if left else -1]:
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
                           f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})")


@composed("linalg out")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The solution X of ``AX = B``, or of ``XA = B``.

    Parameters
    ----------
    A : Tensor
        Square matrices, shape (*, n, n).
    B : Tensor
        Right-hand sides: (*, n, k), or (n,) or (*, n) with A's batch for vectors.
    left : bool
        Whether A stands to the left of X.

    Raises
    ------
    LinAlgError
        If a matrix is singular; the message names the batch item.
    """
    x, info = solve_parts(A, B, left, "linalg.solve")
    raise_failed(info, "torch.linalg.solve", "The solver failed because the input matrix is singular.")
    return x


@composed("linalg out", returns="result info")
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """`solve` without its error: ``info`` is 0 for items that have a solution."""
    x, info = solve_parts(A, B, left, "linalg.solve")
    if check_errors:
        raise_failed(info, "torch.linalg.solve_ex", "The solver failed because the input matrix is singular.")
    return x, info


# ---- inverse


class LinalgInvEx(Step):
    @staticmethod
    def forward(ctx, a):
        lu, pivots, info = lapack("getrf", a)
        x, = lapack("getrs", lu, pivots, expand_batch(identity(a, a.shape[-1]), tuple(a.shape[:-2])), letters="N")
        ctx.mark_non_differentiable(info)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x, info

    @staticmethod
    def backward(ctx, g, _):
        if g is None:
            return None
        x = mH(ctx.saved_tensors[0])
        return -(x @ (g @ x))


def inverse_of(a, name):
    check_square(a, name)
    x, info = LinalgInvEx.apply(a)
    raise_failed(info, name, SINGULAR)
    return x


@composed("linalg out")
def inv(A: Tensor) -> Tensor:
    """Inverses of square matrices; LinAlgError names the batch item that has none."""
    return inverse_of(A, "linalg.inv")


@composed("function method out")
def inverse(input: Tensor) -> Tensor:
    """See `linalg.inv`."""
    return inverse_of(input, "linalg.inv")


@composed("linalg out", returns="inverse info")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """`inv` without its error: ``info`` is 0 for items that have an inverse, else the zero pivot's number."""
    check_square(A, "linalg.inv")
    x, info = LinalgInvEx.apply(A)
    if check_errors:
        raise_failed(info, "linalg.inv_ex", SINGULAR)
    return x, info


# ---- triangular systems


class LinalgSolveTriangular(Step):
    @staticmethod
    def forward(ctx, a, b, upper, left, unit):
        # A row-major matrix is the transpose of a column-major one, so it needs no copy either.
        turned = a.shape[-1] > 1 and a.stride(-1) == 1
        letters = ("L" if left else "R") + "LU"[upper != turned] + "NT"[turned] + "NU"[unit]
        x, = lapack("trsm", mT(a) if turned else a, b, letters=letters)
        ctx.how = upper, left, unit
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, g):
        upper, left, unit = ctx.how
        a, x = ctx.saved_tensors
        gb = LinalgSolveTriangular.apply(mH(a), g, not upper, left, unit)
        ga = None
        if ctx.needs_input_grad[0]:
            ga = -(gb @ mH(x)) if left else -(mH(x) @ gb)
            ga = triu(ga, int(unit)) if upper else tril(ga, -int(unit))
        return ga, gb, None, None, None


def triangular(a, b, upper, left=True, unit=False):
    return LinalgSolveTriangular.apply(*one_batch(a, b), upper, left, unit)


@composed("linalg out")
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The solution X of ``AX = B``, or of ``XA = B``, for triangular matrices A.

    Parameters
    ----------
    A : Tensor
        Matrices of shape (*, n, n), of which one triangle is read.
    B : Tensor
        Right-hand sides, (*, n, k).
    upper : bool
        Which triangle.
    left : bool
        Whether A stands to the left of X.
    unitriangular : bool
        Take the diagonal of A for ones.
    """
    name = "linalg.solve_triangular"
    check_square(A, name)
    check_tensor(B, name, "B")
    check_alike(A, B, name)
    check_system(A, B, left, name)
    return triangular(A, B, bool(upper), bool(left), bool(unitriangular))


@composed("function method out", returns="solution cloned_coefficient")
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """The solution of ``AX = input`` for triangular A, or of ``A^T X = input``; and a copy of A."""
    check_tensor(A, "triangular_solve", "A")
    check_square(A, "triangular_solve")
    check_matrix(input, "triangular_solve", "b")
    check_alike(input, A, "triangular_solve", "b", "A")
    check_system(A, input, True, "triangular_solve")
    a, b = one_batch(A, input)
    x = triangular(mT(a) if transpose else a, b, bool(upper) != bool(transpose), unit=bool(unitriangular))
    return x, columns(a.clone())


# ---- determinants


def parity(pivots):
    """-1 or 1: the sign of the permutation that row swaps make."""
    from .._core import arange

    n = pivots.shape[-1]
    swaps = (pivots != arange(1, n + 1, device=pivots.device)).sum(-1)
    return 1 - 2 * (swaps % 2)


class LinalgDet(Step):
    @staticmethod
    def forward(ctx, a):
        lu, pivots, _ = lapack("getrf", a)
        det = diagonal(lu).prod(-1) * parity(pivots).to(a.dtype)
        ctx.mark_non_differentiable(lu, pivots)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, det, lu, pivots)
        return det, lu, pivots

    @staticmethod
    def backward(ctx, g, *_):
        if g is None:
            return None
        a, det, lu, pivots = ctx.saved_tensors
        if nearly_singular(lu):                   # no inverse, or none that is exact: by minors
            return g[..., None, None] * Cofactors.apply(a)
        wanted = diag_embed((g * conj(det)).unsqueeze(-1).expand(*a.shape[:-1]))
        if differentiated(a, wanted):
            return LinalgSolveEx.apply(mH(a), wanted)[0]
        return lapack("getrs", lu, pivots, wanted, letters="C" if a.is_complex() else "T")[0]


def nearly_singular(lu):
    """Whether an inverse from these factors has lost half of its digits."""
    pivots = diagonal(lu).abs()
    if not pivots.numel():
        return False
    return anywhere(pivots.amin(-1) <= epsilon(lu) ** 0.5 * pivots.amax(-1))


def product_of_others(s, pairs=False):
    """Products of all singular values but one, or (a matrix) but two."""
    n = s.shape[-1]
    off = identity(s, n)
    if pairs:
        kept = (1 - off).unsqueeze(-2) * (1 - off).unsqueeze(-3)
        terms = where(kept == 1, s.unsqueeze(-2).unsqueeze(-2), s.new_ones(()))
        return terms.prod(-1) * (1 - off)
    return where(off == 1, s.new_ones(()), s.unsqueeze(-2)).prod(-1)


class Cofactors(Step):
    """The conjugate of the matrix of cofactors, of any square matrix.

    With the singular value decomposition A = U S V^H the adjugate of A is det(U V^H) V adj(S) U^H, and adj(S) is
    diagonal with the products of the other values (G. W. Stewart, On the adjugate matrix, Linear Algebra Appl. 283,
    1998).
    """

    @staticmethod
    def forward(ctx, a):
        u, s, vh, _ = lapack("gesdd", a, letters="S")
        phase = LinalgDet.apply(conj(u @ vh))[0][..., None, None]
        ctx.save_for_backward(u, s, vh, phase)
        return phase * (u * product_of_others(s).unsqueeze(-2).to(a.dtype) @ vh)

    @staticmethod
    def backward(ctx, g):
        if differentiated(g, *ctx.saved_tensors):
            raise RuntimeError("the third derivative of the determinant of a singular matrix is not implemented")
        u, s, vh, phase = ctx.saved_tensors
        inner = mT(u) @ (conj(g) * phase) @ mT(vh)
        pairs = product_of_others(s, True).to(u.dtype)
        spread = diag_embed((pairs @ diagonal(inner).unsqueeze(-1)).squeeze(-1))
        return u @ (spread - mT(pairs * inner)) @ vh


def determinant(a, name):
    check_square(a, name)
    return LinalgDet.apply(a)[0]


@composed("linalg out")
def det(A: Tensor) -> Tensor:
    """Determinants of square matrices."""
    return determinant(A, "linalg.det")


@composed("function method", name="det")
def old_det(input: Tensor) -> Tensor:
    """See `linalg.det`."""
    return determinant(input, "linalg.det")


class LinalgSlogdet(Step):
    @staticmethod
    def forward(ctx, a):
        lu, pivots, _ = lapack("getrf", a)
        d = diagonal(lu)
        size = d.abs()
        sign = (d.sgn() if a.is_complex() else d.sign()).prod(-1) * parity(pivots).to(a.dtype)
        log = size.log().sum(-1)
        ctx.mark_non_differentiable(lu, pivots)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, sign, lu, pivots)
        return sign, log, lu, pivots

    @staticmethod
    def backward(ctx, gs, gl, *_):
        a, sign, lu, pivots = ctx.saved_tensors
        if gs is None and gl is None:
            return None
        g = gl
        if a.is_complex():
            g = 0 if gl is None else gl.to(a.dtype)
            if gs is not None:
                turn = gs.conj() * sign
                g = g - (turn - turn.conj()) / 2
        if g is None:                  # the sign of a real determinant is constant
            return a.new_zeros(*a.shape)
        wanted = diag_embed(g.unsqueeze(-1).expand(*a.shape[:-1]))
        if differentiated(a, wanted):
            return LinalgSolveEx.apply(mH(a), wanted)[0]
        return lapack("getrs", lu, pivots, wanted, letters="C" if a.is_complex() else "T")[0]


def sign_and_log(a, name):
    check_square(a, name)
    return LinalgSlogdet.apply(a)[:2]


@composed("linalg out", returns="sign logabsdet")
def slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    """Sign of the determinant and logarithm of its absolute value; (0, -inf) for singular matrices."""
    return sign_and_log(A, "linalg.slogdet")


@composed("function method", name="slogdet", returns="sign logabsdet")
def old_slogdet(input: Tensor) -> tuple[Tensor, Tensor]:
    """See `linalg.slogdet`."""
    return sign_and_log(input, "linalg.slogdet")


@composed("function method")
def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants; nan where they are negative."""
    sign, log = sign_and_log(input, "logdet")
    if input.is_complex():
        return log + sign.log()
    return where(sign == -1, log.new_full((), float("nan")), log)


# ---- systems of tensors


@composed("linalg")
def tensorinv(A: Tensor, ind: int = 2, *, out=None) -> Tensor:
    """The inverse of A as a linear map from its last dimensions to its first `ind`.

    Returns a tensor of shape ``A.shape[ind:] + A.shape[:ind]``.
    """
    check_tensor(A, "tensorinv", "A")
    if not isinstance(ind, int) or ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    check_float(A, "linalg.tensorinv")
    first, rest = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    rows, cols = product_of(first), product_of(rest)
    if rows != cols:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
                           f"but got {cols} != {rows}")
    y = inverse_of(A.reshape(rows, cols), "inv").reshape(*rest, *first)
    return y if out is None else deliver(y.contiguous(), out)


def product_of(sizes):
    n = 1
    for s in sizes:
        n *= s
    return n


@composed("linalg out")
def tensorsolve(A: Tensor, B: Tensor, dims=None) -> Tensor:
    """The X with ``tensordot(A, X, X.ndim) == B``.

    Parameters
    ----------
    A : Tensor
        Shape (*B.shape, *X.shape), a square matrix when both are flattened.
    B : Tensor
        Right-hand side.
    dims : tuple of int, optional
        Dimensions of A that are moved to its end first.
    """
    check_tensor(A, "tensorsolve", "A")
    check_tensor(B, "tensorsolve", "B")
    if dims is not None:
        dims = [dims] if isinstance(dims, int) else list(dims)
        A = A.movedim(dims, list(range(-len(dims), 0)))
    rest, rows = tuple(A.shape[B.ndim:]), product_of(A.shape[:B.ndim])
    if product_of(rest) != rows:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                           f"prod(self.shape[:other.ndim]), but got {product_of(rest)} != {rows}")
    return solve(A.reshape(rows, rows), B.reshape(-1)).reshape(rest)
