"""Factorisations: Cholesky, LU, QR and LDL, and what is done with the factors."""

from .._core import (
    RETURNS,
    Tensor,
    arange,
    cat,
    deliver,
    everywhere,
    named_results,
    tril,
    triu,
    whole_batch,
    with_room,
)
from . import composed
from .lapack_devices import lapack
from .linalg_base import (
    NOT_POSITIVE,
    SINGULAR,
    LinAlgError,
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
    mH,
    one_batch,
    raise_failed,
)
from .linalg_solve import check_system, triangular

# ---- Cholesky


class LinalgCholeskyEx(Step):
    @staticmethod
    def forward(ctx, a, upper):
        factor, info = lapack("potrf", a, letters="U" if upper else "L")
        ctx.upper = upper
        ctx.mark_non_differentiable(info)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(factor)
        return factor, info

    @staticmethod
    def backward(ctx, g, _):
        if g is None:
            return None, None
        factor, = ctx.saved_tensors
        low, g = (mH(factor), mH(g)) if ctx.upper else (factor, g)
        # dL = L Phi(L^-1 dA L^-H) with Phi the lower triangle and half the diagonal (I. Murray, arXiv:1602.07527)
        phi = tril(mH(low) @ g)
        phi = phi - diag_embed(diagonal(phi)) / 2
        phi = (phi + mH(phi)) / 2
        return triangular(low, triangular(mH(low), phi, True), False, left=False), None


class Cholesky(LinalgCholeskyEx):
    pass


def cholesky_of(a, upper, name, step=LinalgCholeskyEx):
    check_square(a, name)
    factor, info = step.apply(a, bool(upper))
    raise_failed(info, name, NOT_POSITIVE)
    return factor


@composed("linalg out")
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with ``A = L L^H``, or the upper triangular U with ``A = U^H U``.

    Parameters
    ----------
    A : Tensor
        Hermitian positive-definite matrices, (*, n, n); only the triangle that is asked for is read.

    Raises
    ------
    LinAlgError
        If a matrix is not positive-definite.
    """
    return cholesky_of(A, upper, "linalg.cholesky")


@composed("linalg out", returns="L info")
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """`cholesky` without its error: ``info`` is 0, or the order of the leading minor that is not positive-definite."""
    check_square(A, "linalg.cholesky")
    factor, info = LinalgCholeskyEx.apply(A, bool(upper))
    if check_errors:
        raise_failed(info, "linalg.cholesky_ex", NOT_POSITIVE)
    return factor, info


@composed("method", name="cholesky")
def method_cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """See `linalg.cholesky`."""
    return cholesky_of(input, upper, "cholesky", Cholesky)


@composed("function", name="cholesky")
def function_cholesky(input: Tensor, upper: bool = False, *, out=None) -> Tensor:
    """See `linalg.cholesky`."""
    y = method_cholesky(input, upper)
    return y if out is None else deliver(y.contiguous(), out)


@composed("method")
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """The solution of ``AX = input`` for the A whose Cholesky factor is `input2`."""
    check_tensor(input, "cholesky_solve", "input")
    check_tensor(input2, "cholesky_solve", "input2")
    for x, word in ((input, "b"), (input2, "u")):
        if x.ndim < 2:
            raise RuntimeError(f"{word} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    check_alike(input, input2, "cholesky_solve", "b", "A")
    check_square(input2, "cholesky_solve")
    if input.shape[-2] != input2.shape[-1]:
        raise RuntimeError("Incompatible matrix sizes for cholesky_solve: each A matrix is "
                           f"{input2.shape[-2]} by {input2.shape[-1]} but each b matrix is {input.shape[-2]} by "
                           f"{input.shape[-1]}")
    low, b = one_batch(mH(input2) if upper else input2, input)
    return triangular(mH(low), triangular(low, b, False), True)


@composed("function", name="cholesky_solve")
def function_cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False, *, out=None) -> Tensor:
    """See `Tensor.cholesky_solve`; an empty `out` is laid out by rows."""
    y = cholesky_solve(input, input2, upper)
    return y if out is None else deliver(y.contiguous(), out)


@composed("function method out")
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the A whose Cholesky factor is `input`."""
    check_square(input, "cholesky_inverse")
    lines = whole_batch(diagonal(input))
    zeros = (lines == 0).nonzero()
    if zeros.shape[0]:
        place = zeros[0].tolist()
        item = 0
        for size, k in zip(lines.shape[:-1], place, strict=False):
            item = item * size + k
        where_it_is = f"(Batch element {item}): " if lines.ndim > 1 else ""
        raise LinAlgError(f"cholesky_inverse: {where_it_is}{SINGULAR.format(place[-1] + 1)}")
    eye = expand_batch(identity(input, input.shape[-1]), tuple(input.shape[:-2]))
    half = triangular(mH(input) if upper else input, eye, False)      # L^-1
    return columns(mH(half) @ half)


# ---- LU


def lu_gradient(g, packed, pivots):
    """Gradient of A from that of its packed factors L and U, with A = PLU and P fixed.

    From L^-1 P^T dA U^-1 = L^-1 dL + dU U^-1, whose terms are strictly lower and upper triangular. Where A is not
    square that holds for its leading block, and the remaining rows of L or columns of U follow from its factors.
    """
    m, n = g.shape[-2:]
    k = min(m, n)
    low, up = lu_triangles(packed)
    gl, gu = tril(g[..., :k], -1), triu(g[..., :k, :])
    l1, u1 = low[..., :k, :], up[..., :k]
    below, above = mH(l1) @ gl[..., :k, :], gu[..., :k] @ mH(u1)
    if n > k:
        below = below - gu[..., k:] @ mH(up[..., k:])
    if m > k:
        above = above - mH(low[..., k:, :]) @ gl[..., k:, :]
    block = triangular(mH(l1), tril(below, -1) + triu(above), True, unit=True)
    ga = triangular(mH(u1), block, False, left=False)
    if n > k:
        ga = cat([ga, triangular(mH(l1), gu[..., k:], True, unit=True)], -1)
    if m > k:
        ga = cat([ga, triangular(mH(u1), gl[..., k:, :], False, left=False)], -2)
    return swap_rows(ga, pivots, True)


def lu_triangles(packed):
    """L with ones on its diagonal, and U."""
    k = min(packed.shape[-2:])
    low = packed[..., :k]
    eye = identity(packed, k)
    if packed.shape[-2] > k:
        eye = cat([eye, eye.new_zeros(packed.shape[-2] - k, k)], 0)
    return tril(low, -1) + eye, triu(packed[..., :k, :])


def permutation_of(pivots, m):
    """For each row of PLU, the row of LU that it is: row swaps, one after another, of the rows 0 .. m-1."""
    order = with_room(arange(m, device=pivots.device).expand(*pivots.shape[:-1], m).clone(), pivots)
    for i in range(pivots.shape[-1]):
        j = (pivots[..., i:i + 1] - 1).long()
        here, there = order[..., i:i + 1].clone(), order.gather(-1, j)
        order.scatter_(-1, j, here)
        order[..., i:i + 1] = there
    return order


def inverse_order(order):
    """The inverse permutation."""
    ranks = arange(order.shape[-1], device=order.device).expand(*order.shape).clone()
    return ranks.scatter(-1, order, ranks)


def swap_rows(x, pivots, back):
    """P x, or P^T x where not `back`."""
    order = permutation_of(pivots, x.shape[-2])
    if back:
        order = inverse_order(order)
    return x.gather(-2, order.unsqueeze(-1).expand(*x.shape))


class LinalgLuFactorEx(Step):
    @staticmethod
    def forward(ctx, a):
        packed, pivots, info = lapack("getrf", a)
        ctx.mark_non_differentiable(pivots, info)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(packed, pivots)
        return packed, pivots, info

    @staticmethod
    def backward(ctx, g, *_):
        return None if g is None else lu_gradient(g, *ctx.saved_tensors)


def factored(a, pivot, name):
    check_matrix(a, name)
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")
    return LinalgLuFactorEx.apply(a)


NO_PIVOT = ("U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
            "perform "
            "the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)")


@composed("linalg out", returns="LU pivots")
def lu_factor(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    """The factors L and U of ``A = PLU`` in one matrix, and the row swaps, counted from 1, that make up P."""
    packed, pivots, info = factored(A, pivot, "linalg.lu_factor")
    raise_failed(info, "torch.linalg.lu_factor", NO_PIVOT)
    return packed, pivots


@composed("linalg out", returns="LU pivots info")
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """`lu_factor` without its error: ``info`` is 0, or the number of the zero on the diagonal of U."""
    packed, pivots, info = factored(A, pivot, "linalg.lu_factor_ex")
    if check_errors:
        raise_failed(info, "torch.linalg.lu_factor_ex", NO_PIVOT)
    return packed, pivots, info


def lu_parts(packed, pivots, want_pivots=True, want_data=True):
    p = low = up = packed.new_empty(0)
    if want_pivots:
        order = permutation_of(pivots, packed.shape[-2])
        p = (order.unsqueeze(-2) == arange(packed.shape[-2], device=packed.device).unsqueeze(-1)).to(packed.dtype)
    if want_data:
        low, up = lu_triangles(packed)
    return p, low.contiguous(), up.contiguous()


@composed("linalg out", returns="P L U")
def lu(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Permutation P, unit lower triangular L and upper triangular U with ``A = PLU``."""
    check_tensor(A, "linalg.lu", "A")
    if A.ndim < 2:
        raise RuntimeError(f"linalg.lu: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    packed, pivots, _ = factored(A, pivot, "linalg.lu_factor")
    return lu_parts(packed, pivots)


@composed("function out", returns="P L U")
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True,
              unpack_pivots: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U from what `linalg.lu_factor` returned; what is not asked for comes empty."""
    check_tensor(LU_data, "lu_unpack", "LU_data")
    check_tensor(LU_pivots, "lu_unpack", "LU_pivots")
    if unpack_pivots:
        check_pivots(LU_data, LU_pivots)
    return lu_parts(LU_data, LU_pivots, unpack_pivots, unpack_data)


def check_pivots(packed, pivots):
    if pivots.is_floating_point() or pivots.dtype.itemsize != 4:
        raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got "
                           f"{pivots.dtype}. Note: this function is intended to be used with the output produced by "
                           "torch.linalg.lu_factor")
    if pivots.numel() and not everywhere((pivots >= 1) & (pivots <= packed.shape[-2])):
        raise RuntimeError("pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive. Did you properly "
                           "pass the result of lu_factor?")


RETURNS["_lu_with_info"] = ("LU", "pivots", "info")


@composed("method", name="lu")
def method_lu(input: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """``(LU, pivots)``, or ``(LU, pivots, info)``; see `linalg.lu_factor`."""
    packed, pivots, info = factored(input, pivot, "linalg.lu_factor")
    return named_results("_lu_with_info", (packed, pivots, info)) if get_infos else (packed, pivots)


@composed("function", name="lu")
def function_lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out=None) -> tuple[Tensor, ...]:
    """``(LU, pivots)``, or ``(LU, pivots, info)``; see `linalg.lu_factor`."""
    if out is not None and not (isinstance(out, (tuple, list)) and all(isinstance(o, Tensor) for o in out)):
        raise TypeError(f"lu(): argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    result = method_lu(A, pivot, get_infos)
    if out is None:
        return result
    if len(out) != len(result):
        raise TypeError(f"lu(): expected tuple of {len(result)} elements but got {len(out)}")
    # PyTorch converts here what it refuses elsewhere.
    deliver(tuple(r.to(o.dtype) if o.shape == r.shape else r.contiguous() for o, r in zip(out, result, strict=True)),
            tuple(out))
    return out


class LinalgLuSolve(Step):
    @staticmethod
    def forward(ctx, packed, pivots, b, adjoint):
        x, = lapack("getrs", packed, pivots, b, letters=("C" if b.is_complex() else "T") if adjoint else "N")
        ctx.adjoint = adjoint
        ctx.save_for_backward(packed, pivots, x)
        return x

    @staticmethod
    def backward(ctx, g):
        packed, pivots, x = ctx.saved_tensors
        gb = LinalgLuSolve.apply(packed, pivots, g, not ctx.adjoint)
        if not ctx.needs_input_grad[0]:
            return None, None, gb, None
        # The gradient of A = PLU, permuted, and from it those of L and U.
        ga = -(gb @ mH(x)) if not ctx.adjoint else -(x @ mH(gb))
        ga = swap_rows(ga, pivots, False)
        low, up = lu_triangles(packed)
        return tril(ga @ mH(up), -1) + triu(mH(low) @ ga), None, gb, None


def check_lu_solve(packed, pivots, b, left):
    name = "linalg.lu_solve"
    check_tensor(pivots, name, "pivots")
    check_tensor(b, name, "B")
    check_square(packed, name, "LU")
    if pivots.is_floating_point() or pivots.dtype.itemsize != 4:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32, got {pivots.dtype}")
    check_alike(packed, b, name, "LU", "B")
    if b.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions, but has shape "
                           f"{list(b.shape)}.")
    if pivots.ndim < 1 or pivots.shape[-1] != packed.shape[-1]:
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of the matrix, got "
                           "shapes "
                           f"{list(pivots.shape)} and {list(packed.shape)}")
    if tuple(pivots.shape[:-1]) != tuple(packed.shape[:-2]):
        raise RuntimeError(f"{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                           f"{list(pivots.shape)} and LU with shape {list(packed.shape)}")
    check_system(packed, b, left, name)
    if pivots.numel() and not everywhere(pivots >= 1):
        raise RuntimeError("Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the "
                           "result "
                           "of lu_factor?")
    if pivots.numel() and not everywhere(pivots <= packed.shape[-1]):
        raise RuntimeError("Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly "
                           "pass "
                           "the result of lu_factor?")


def lu_solved(packed, pivots, b, left, adjoint):
    check_lu_solve(packed, pivots, b, left)
    if not left:                       # X A = B is A^H X^H = B^H
        return mH(lu_solved(packed, pivots, mH(b), True, not adjoint))
    packed, b = one_batch(packed, b)
    return LinalgLuSolve.apply(packed, pivots.expand(*packed.shape[:-1]), b, bool(adjoint))


@composed("linalg out", name="lu_solve")
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution of ``AX = B``, or ``XA = B``, for the A, or its adjoint, that `linalg.lu_factor` factored."""
    return lu_solved(LU, pivots, B, left, adjoint)


@composed("function method out")
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """The solution of ``AX = input`` for the A that `linalg.lu_factor` factored."""
    return lu_solved(LU_data, LU_pivots, input, True, False)
