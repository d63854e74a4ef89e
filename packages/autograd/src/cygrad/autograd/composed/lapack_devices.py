"""What LAPACK's drivers compute, for tensors on devices: of products, gathers and elementwise operations there.

Names, arguments and results are those of `cygrad.autograd._core.lapack`. Triangular systems and factors halve their
matrices, so that nearly all of the work is in products (S. Toledo, "Locality of reference in LU decomposition with
partial pivoting", 1997). Orthogonal factors are products of Householder's reflections. Singular values come from
Jacobi's rotations of pairs of columns, all disjoint pairs at once (R. P. Brent and F. T. Luk, "The solution of
singular-value and symmetric eigenvalue problems on multiprocessor arrays", 1985), and eigenvalues of Hermitian matrices
from the singular values of a shifted, positive one.
"""

from cygrad.storage.core import dtypes

from .. import _core
from .._core import anywhere, arange, cat, maximum, minimum, tril, triu, where, whole_batch
from .linalg_base import (
    columns,
    conj,
    diag_embed,
    diagonal,
    epsilon,
    expand_batch,
    identity,
    int32,
    int64,
    mH,
    mT,
    real,
)

MOST_SWEEPS = 40       # of rotations; some ten are enough


def lapack(routine, *tensors, letters="", rcond=-1):
    """`cygrad.autograd._core.lapack`, wherever the tensors are."""
    away = next((t.device for t in tensors if t.device.type != "cpu"), None)
    if away is None:
        return _core.lapack(routine, *tensors, letters=letters, rcond=rcond)
    if routine in ABSENT:
        raise NotImplementedError(f"{ABSENT[routine]} not implemented for tensors on {away}: move them with .cpu()")
    results = _core._uncast_call(ROUTINES[routine], (*tensors, letters), {})         # its products keep their digits
    return [columns(y) if y.ndim == tensors[0].ndim else y for y in results]        # matrices, as LAPACK has them


def taken(x, order):
    """Rows of matrices in another order, one for each item of the batch."""
    return x.gather(-2, order.unsqueeze(-1).expand(*order.shape, x.shape[-1]))


def numbers(like, dtype):
    """A zero of `dtype` for each item of a batch of matrices."""
    return like.new_zeros(like.shape[:-2], dtype=dtype)


def turned(x):
    """Rows and columns backwards: lower triangles become upper ones."""
    return x.flip((-2, -1))


# ---- triangular systems


def lower(a, b, unit):
    """The solution of a x = b for lower triangles; what is above them is not read."""
    n = a.shape[-1]
    if n == 0 or b.shape[-1] == 0:
        return b
    if n == 1:
        return b.clone() if unit else b / a
    h = n // 2
    top = lower(a[..., :h, :h], b[..., :h, :], unit)
    return cat([top, lower(a[..., h:, h:], b[..., h:, :] - a[..., h:, :h] @ top, unit)], -2)


def upper(a, b, unit):
    """The same for upper triangles."""
    return lower(turned(a), b.flip(-2), unit).flip(-2)


def trsm(a, b, letters):
    side, uplo, trans, diag = letters
    is_lower = (uplo == "L") == (trans == "N")
    a = a if trans == "N" else mT(a) if trans == "T" else mH(a)
    solve = lower if is_lower == (side == "L") else upper
    x = solve(a, b, diag == "U") if side == "L" else mT(solve(mT(a), mT(b), diag == "U"))
    return (x,)


# ---- Cholesky, LU


def cholesky(a):
    """The lower factor, NaN or 0 on the diagonal from the first minor on that is not positive."""
    n = a.shape[-1]
    if n <= 1:
        return real(a).sqrt().to(a.dtype)
    h = n // 2
    first = cholesky(a[..., :h, :h])
    under = mH(lower(first, mH(a[..., h:, :h]), False))
    last = cholesky(a[..., h:, h:] - under @ mH(under))
    return cat([cat([first, first.new_zeros(*first.shape[:-1], n - h)], -1), cat([under, last], -1)], -2)


def first_bad(bad, dtype):
    """The number, from 1, of the first True along the last dimension; 0 where there is none."""
    count = bad.shape[-1]
    if count == 0:
        return bad.new_zeros(bad.shape[:-1], dtype=dtype)
    place = arange(1, count + 1, device=bad.device)
    return where(bad, place, count + 1).amin(-1).remainder(count + 1).to(dtype)


def potrf(a, letters):
    factor = cholesky(a if letters == "L" else mH(a))
    info = first_bad(~(real(diagonal(factor)) > 0), int32())
    return factor if letters == "L" else mH(factor).resolve_conj(), info


def eliminated(a):
    """(LU in one matrix, swapped row of each step from 0, order of the rows)."""
    m, n = a.shape[-2:]
    if n == 1:
        size = real(a).abs() + a.imag.abs() if a.is_complex() else a.abs()
        chosen = size.argmax(-2)                                   # (..., 1)
        places = arange(m, device=a.device)
        order = where(places == 0, chosen, where(places == chosen, 0, places))
        column = taken(a, order)
        pivot, rest = column[..., :1, :], column[..., 1:, :]
        return cat([pivot, where(pivot == 0, rest, rest / pivot)], -2), chosen, order
    h = max(min(m, n) // 2, 1)
    left, swaps, order = eliminated(a[..., :h])
    right = taken(a[..., h:], order)
    top = lower(left[..., :h, :], right[..., :h, :], True)
    if m == h:
        return cat([left, top], -1), swaps, order
    under = left[..., h:, :]
    last, more, below = eliminated(right[..., h:, :] - under @ top)
    packed = cat([cat([left[..., :h, :], top], -1), cat([taken(under, below), last], -1)], -2)
    return packed, cat([swaps, more + h], -1), cat([order[..., :h], order[..., h:].gather(-1, below)], -1)


def getrf(a, letters):
    m, n = a.shape[-2:]
    if min(m, n) == 0:
        return a.clone(), a.new_zeros((*a.shape[:-2], 0), dtype=int32()), numbers(a, int32())
    packed, swaps, _ = eliminated(a)
    return packed, (swaps + 1).to(int32()), first_bad(diagonal(packed) == 0, int32())


def getrs(lu, pivots, b, letters):
    from .linalg_factor import inverse_order, permutation_of

    n = lu.shape[-1]
    swaps = pivots.cpu()                     # rows of a table of numbers, one swap after another
    known = whole_batch(swaps)
    if known.numel() and not (known.amin() >= 1 and known.amax() <= n):
        wrong = known[(known < 1) | (known > n)][0].item()
        raise RuntimeError(f"lu_solve: pivots must be between 1 and {n}, the size of the matrix, got {wrong}")
    order = permutation_of(swaps, n)
    if letters == "N":
        return (upper(lu, lower(lu, taken(b, order.to(b.device)), True), False),)
    adjoint = mT(lu) if letters == "T" else mH(lu)
    return (taken(upper(adjoint, lower(adjoint, b, False), True), inverse_order(order).to(b.device)),)


# ---- reflections


def geqrf(a, letters):
    work, k = a.clone(), min(a.shape[-2:])
    factors = []
    for j in range(k):
        x = work[..., j:, j : j + 1]
        largest = x.abs().amax(-2, keepdim=True)         # squares of what is divided by it are in range
        scale = where(largest > 0, largest, 1)
        x = x / scale
        alpha = x[..., :1, :]
        rest = real(x[..., 1:, :] * conj(x[..., 1:, :])).sum(-2, keepdim=True)
        whole = (rest + real(alpha * conj(alpha))).sqrt()
        beta = where(real(alpha) > 0, -whole, whole).to(a.dtype)
        none = (rest == 0) & (alpha.imag == 0) if a.is_complex() else rest == 0      # the column is finished already
        beta = where(none, alpha, beta)
        tau = where(none, 0, (beta - alpha) / where(none, 1, beta))
        v = cat([identity(a, 1).expand_as(alpha), x[..., 1:, :] / where(none, 1, alpha - beta)], -2)
        others = work[..., j:, j + 1 :]
        others -= conj(tau) * v @ (mH(v) @ others)
        work[..., j:, j : j + 1] = cat([beta * scale, v[..., 1:, :]], -2)
        factors.append(tau[..., 0])
    return work, cat(factors, -1) if k else a.new_empty((*a.shape[:-2], 0))


def reflected(packed, tau, c, adjoint):
    """Q c, or Q's adjoint times c."""
    c = c.clone()
    for j in range(tau.shape[-1]) if adjoint else range(tau.shape[-1] - 1, -1, -1):
        factor = tau[..., j : j + 1].unsqueeze(-1)
        v = cat([identity(c, 1).expand(*c.shape[:-2], 1, 1), packed[..., j + 1 :, j : j + 1]], -2)
        rows = c[..., j:, :]
        rows -= (conj(factor) if adjoint else factor) * v @ (mH(v) @ rows)
    return c


def orgqr(packed, tau, letters):
    m, n = packed.shape[-2:]
    return (reflected(packed, tau, expand_batch(identity(packed, m)[:, :n], tuple(packed.shape[:-2])), False),)


def ormqr(packed, tau, c, letters):
    side, trans = letters
    if side == "L":
        return (reflected(packed, tau, c, trans == "T"),)
    return (mH(reflected(packed, tau, mH(c), trans != "T")).resolve_conj(),)


def gels(a, b, letters):
    m, n = a.shape[-2:]
    packed, tau = geqrf(a if m >= n else mH(a).resolve_conj(), "")
    small = min(m, n)
    factor = packed[..., :small, :]
    info = first_bad(diagonal(factor) == 0, int32())
    if m >= n:
        x = reflected(packed, tau, b, True)
        x = cat([upper(factor, x[..., :n, :], False), x[..., n:, :]], -2)
    else:
        y = lower(mH(factor), b[..., :m, :], False)
        x = reflected(packed, tau, cat([y, y.new_zeros(*y.shape[:-2], n - m, y.shape[-1])], -2), False)
    return x, numbers(a, int32()), real(a).new_zeros((*a.shape[:-2], small)), info


# ---- singular values


def rounds(n):
    """Pairs of 0 .. n-1 in rounds of disjoint ones, each pair once, as in a tournament; the first player stays."""
    players = list(range(n + n % 2))
    for _ in range(len(players) - 1 if n > 1 else 0):
        half = len(players) // 2
        pairs = [(a, b) for a, b in zip(players[:half], reversed(players[half:]), strict=True) if max(a, b) < n]
        yield [min(pair) for pair in pairs], [max(pair) for pair in pairs]
        players = [players[0], players[-1], *players[1:-1]]


def rotated(a, v):
    """Columns of `a` made orthogonal by rotations, which columns of `v` get, too."""
    n = a.shape[-1]
    schedule = [[a.new_tensor(side, dtype=int64()) for side in pair] for pair in rounds(n)]
    small = epsilon(a) * max(n, 4) ** 0.5
    # Shorter columns say nothing about directions; they are as good as 0.
    least = (epsilon(a) * squares(a).amax(-1, keepdim=True).sqrt()).unsqueeze(-1)
    for _ in range(MOST_SWEEPS):
        largest = real(a).new_zeros(a.shape[:-2])
        for p, q in schedule:
            x, y = a.index_select(-1, p), a.index_select(-1, q)
            xx, yy = squares(x).unsqueeze(-2), squares(y).unsqueeze(-2)
            xy = (conj(x) * y).sum(-2, keepdim=True)
            size = xy.abs()
            shorter, longer = minimum(xx, yy).sqrt(), maximum(xx, yy).sqrt()
            none = shorter <= least
            relative = where(none, 0, size / where(none, 1, shorter * longer))
            largest = maximum(largest, relative.amax((-2, -1)))
            idle = relative <= epsilon(a)
            zeta = (yy - xx) / where(idle, 1, 2 * size)
            t = where(zeta < 0, -1.0, 1.0) / (zeta.abs() + (1 + zeta * zeta).sqrt())
            t = where(idle, 0, t).to(xx.dtype)
            c = (1 + t * t).rsqrt()
            phase = where(idle, 1, xy / where(idle, 1, size).to(xy.dtype))
            for matrix in (a, v):
                x, y = matrix.index_select(-1, p), matrix.index_select(-1, q) * conj(phase)
                matrix.index_copy_(-1, p, c * x - c * t * y)
                matrix.index_copy_(-1, q, c * t * x + c * y)
        if not anywhere(largest > small):
            return True
    return False


def widened(routine, a, letters):
    """The results of a routine in double precision, for the many roundings of rotations; in the dtypes of `a`."""
    wide = routine(a.to(dtypes["complex128" if a.is_complex() else "float64"]), letters)
    info = wide[-1]
    return *(y.to(a.dtype if y.is_complex() else real(a).dtype) for y in wide[:-1]), info


def squares(x):
    """The squared lengths of columns."""
    return real(x * conj(x)).sum(-2)


def gesdd(a, letters):
    m, n = a.shape[-2:]
    if epsilon(a) > 1e-10:
        return widened(gesdd, a, letters)
    if m < n:
        u, s, vh, info = gesdd(mH(a).resolve_conj(), letters)
        return mH(vh).resolve_conj(), s, mH(u).resolve_conj(), info
    batch = tuple(a.shape[:-2])
    empty = a.new_empty((*batch, 0, 0))
    if a.numel() == 0:
        u, vh = a.new_zeros((*batch, m, m if letters == "A" else n)), a.new_zeros((*batch, n, n))
        s, info = real(a).new_empty((*batch, n)), numbers(a, int32())
        return (empty, s, empty, info) if letters == "N" else (u, s, vh, info)
    scale = a.abs().amax((-2, -1), keepdim=True)
    scale = where(scale > 0, scale, 1)
    packed, tau = geqrf(a / scale, "")
    left = triu(packed[..., :n, :])
    right = expand_batch(identity(a, n), batch).clone()
    done = rotated(left, right)
    s = squares(left).sqrt()
    s, order = s.sort(-1, descending=True)
    info = numbers(a, int32()) + (0 if done else n)
    if letters == "N":
        return empty, s * scale[..., 0], empty, info
    left, right = (mT(taken(mT(x), order)) for x in (left, right))
    # Columns of length 0 say nothing: reflections give directions that are orthogonal to the others.
    unit = left / where(s > 0, s, 1).unsqueeze(-2)
    inner, factors = geqrf(unit, "")
    lead = diagonal(inner)
    phase = where(lead.abs() > 0.5, lead / where(lead == 0, 1, lead).abs(), 1)
    u = orgqr(inner, factors, "")[0] * phase.unsqueeze(-2)
    rows = m if letters == "A" else n
    corner = cat([u, u.new_zeros((*batch, m - n, n))], -2)
    if rows > n:
        corner = cat([corner, identity(a, m)[:, n:].expand(*batch, m, m - n)], -1)
    return reflected(packed, tau, corner, False), s * scale[..., 0], mH(right).resolve_conj(), info


def syevd(a, letters):
    uplo, n = letters[1], a.shape[-1]
    if epsilon(a) > 1e-10:
        return widened(syevd, a, letters)
    if a.numel() == 0:
        return real(a).new_empty(a.shape[:-1]), a.clone(), numbers(a, int32())
    strict = tril(a, -1) if uplo == "L" else triu(a, 1)
    whole = strict + mH(strict) + diag_embed(real(diagonal(a)).to(a.dtype))
    scale = whole.abs().amax((-2, -1), keepdim=True)
    whole = whole / where(scale > 0, scale, 1)
    shift = whole.abs().sum(-1).amax(-1)[..., None, None]                # no eigenvalue is larger
    moved = (whole + shift * identity(a, n)).contiguous()
    vectors = expand_batch(identity(a, n), tuple(a.shape[:-2])).clone()
    done = rotated(moved, vectors)
    vectors = vectors / squares(vectors).sqrt().unsqueeze(-2)
    w = real(conj(vectors) * (whole @ vectors)).sum(-2) * scale[..., 0]
    w, order = w.sort(-1)
    return w, mT(taken(mT(vectors), order)), numbers(a, int32()) + (0 if done else n)


ROUTINES = {
    "gels": gels, "geqrf": geqrf, "gesdd": gesdd, "getrf": getrf, "getrs": getrs, "orgqr": orgqr, "ormqr": ormqr,
    "potrf": potrf, "syevd": syevd, "trsm": trsm,
}  # fmt: skip
ABSENT = {"geev": "linalg.eig and linalg.eigvals are", "sytrf": "linalg.ldl_factor is", "sytrs": "linalg.ldl_solve is"}
