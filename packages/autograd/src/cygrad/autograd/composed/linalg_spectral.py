"""Singular values, eigenvalues, and what is made of them: pseudo-inverse, rank, condition, least squares."""

from .._core import Tensor, cat, differentiated, everywhere, stack, view_as_complex, where, whole_batch
from . import composed
from .lapack_devices import lapack
from .linalg_base import (
    Step,
    check_matrix,
    check_square,
    check_tensor,
    diag_embed,
    diagonal,
    epsilon,
    identity,
    int64,
    is_vector,
    mH,
    mT,
    one_batch,
    raise_failed,
    real,
    type_word,
    zero,
)

NOT_FINITE = "The algorithm failed to converge because the input matrix contained non-finite values."
NO_SVD = ("The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
          "singular "
          "values (error code: {}).")
NO_EIGH = ("The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
           "eigenvalues (error code: {}).")


def refuse_infinite(a, name):
    """The iterations of LAPACK mean nothing on infinities and NaN, so they are not begun."""
    if a.numel():
        raise_failed((~a.isfinite()).any(-1).any(-1), name, NOT_FINITE)


def loose(z):
    """Whether a gradient turns vectors by a phase, which a decomposition does not define."""
    z = whole_batch(z)
    parts = z.imag
    return parts.numel() and float(parts.abs().max()) > 1e-2 * max(1.0, float(z.abs().max()))


# ---- singular values


class LinalgSvd(Step):
    @staticmethod
    def forward(ctx, a, full, vectors, name):
        refuse_infinite(a, name)
        u, s, vh, info = lapack("gesdd", a, letters=("A" if full else "S") if vectors else "N")
        raise_failed(info, name, NO_SVD)
        if vectors and full and not a.numel():
            u.copy_(identity(a, a.shape[-2]))
            vh.copy_(identity(a, a.shape[-1]))
        ctx.vectors = vectors
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(u, s, vh)
        return u, s, vh

    @staticmethod
    def backward(ctx, gu, gs, gvh):
        if gu is None and gs is None and gvh is None:
            return None, None, None, None
        u, s, vh = ctx.saved_tensors
        k = s.shape[-1]
        u, vh = u[..., :k], vh[..., :k, :]
        gu = None if gu is None else gu[..., :k]
        gvh = None if gvh is None else gvh[..., :k, :]
        return svd_gradient(u, s, vh, gu, gs, gvh), None, None, None


def skew(x):
    return x - mH(x)


def gaps(values):
    """``values[k] - values[j]`` at (j, k), and 1 on the diagonal."""
    return values.unsqueeze(-2) - values.unsqueeze(-1) + identity(values, values.shape[-1])


def svd_gradient(u, s, vh, gu, gs, gvh):
    """Of A = U S V^H: U^H dA V = (U^H dU) S + dS + S (V^H dV)^H, where the products with dU and dV are skew-Hermitian
    (J. Townsend, Differentiating the singular value decomposition, 2016). What of dU lies outside U's columns comes
    from A alone, and likewise for V."""
    row, col = s.unsqueeze(-2), s.unsqueeze(-1)
    cast = u.dtype
    if gu is None and gvh is None:
        return u @ (gs.unsqueeze(-1).to(cast) * vh)
    between = gaps(s * s)
    middle = 0
    turn_u = None if gu is None else mH(u) @ gu
    turn_v = None if gvh is None else vh @ mH(gvh)
    if u.is_complex():
        phase = sum(diagonal(t).imag for t in (turn_u, turn_v) if t is not None)
        if loose(phase * 1j):
            raise RuntimeError("svd_backward: The singular vectors in the complex case are specified up to "
                               "multiplication "
                               "by e^{i phi}. The specified loss function depends on this phase term, making it "
                               "ill-defined.")
    if gu is not None:
        middle = middle + skew(turn_u) / between * row
    if gvh is not None:
        middle = middle + col * (skew(turn_v) / between)
    if u.is_complex():
        middle = middle - diag_embed(diagonal(middle))
        if gu is not None:
            middle = middle + diag_embed(diagonal(turn_u).imag * 1j / s)
    if gs is not None:
        middle = middle + diag_embed(gs.to(cast))
    m, n = u.shape[-2], vh.shape[-1]
    k = s.shape[-1]
    if m > k and gu is not None:
        outside = gu - u @ turn_u
        total = (u @ middle + outside / row) @ vh
    else:
        total = u @ (middle @ vh)
    if n > k and gvh is not None:
        total = total + u @ ((gvh - mH(turn_v) @ vh) / col)
    return total


def svd_of(a, full, name, vectors=True):
    check_matrix(a, name)
    return LinalgSvd.apply(a, bool(full), vectors, name)


@composed("linalg out", returns="U S Vh")
def svd(A: Tensor, full_matrices: bool = True, *, driver=None) -> tuple[Tensor, Tensor, Tensor]:
    """Singular value decomposition ``A = U diag(S) Vh``.

    Parameters
    ----------
    A : Tensor
        Matrices, (*, m, n).
    full_matrices : bool
        Whether U and Vh are square, or have k = min(m, n) columns and rows.
    driver : None
        PyTorch's choice on other devices; here only None.

    Raises
    ------
    LinAlgError
        If the iteration does not converge, or A is not finite.
    """
    check_driver(driver, "svd")
    return svd_of(A, full_matrices, "linalg.svd")


def check_driver(driver, name):
    if driver is not None:
        raise RuntimeError(f"torch.linalg.{name}: keyword argument `driver=` is only supported on CUDA inputs with "
                           "cuSOLVER "
                           "backend.")


def values_of(a, name):
    """Singular values only, unless their gradient wants the vectors."""
    return svd_of(a, False, name, differentiated(a))[1]


@composed("linalg out")
def svdvals(A: Tensor, *, driver=None) -> Tensor:
    """Singular values, in descending order."""
    check_driver(driver, "svdvals")
    return values_of(A, "linalg.svdvals")


@composed("function method out", name="svd", returns="U S V")
def old_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """See `linalg.svd`; the third result is V, not its conjugate transpose."""
    check_matrix(input, "svd", "A")
    if compute_uv:
        u, s, vh = svd_of(input, not some, "linalg.svd")
        return u, s, mH(vh)
    s = values_of(input, "linalg.svd")
    m, n = input.shape[-2:]
    batch = tuple(input.shape[:-2])
    return input.new_zeros(*batch, m, m), s, mT(input.new_zeros(*batch, n, n))


# ---- eigenvalues


class LinalgEigh(Step):
    @staticmethod
    def forward(ctx, a, uplo, vectors, name):
        refuse_infinite(a, name)
        w, v, info = lapack("syevd", a, letters=("V" if vectors else "N") + uplo)
        raise_failed(info, name, NO_EIGH)
        if not vectors:
            v = a.new_empty(0)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, v)
        return w, v

    @staticmethod
    def backward(ctx, gw, gv):
        w, v = ctx.saved_tensors
        if gw is None and gv is None:
            return None, None, None, None
        if gv is None:
            return v @ (gw.unsqueeze(-1).to(v.dtype) * mH(v)), None, None, None
        turn = mH(v) @ gv
        if v.is_complex() and loose(diagonal(turn)):
            raise RuntimeError("linalg_eigh_backward: The eigenvectors in the complex case are specified up to "
                               "multiplication by e^{i phi}. The specified loss function depends on this quantity, so "
                               "it is "
                               "ill-defined.")
        middle = turn / gaps(w)
        middle = middle - diag_embed(diagonal(middle))
        if gw is not None:
            middle = middle + diag_embed(gw.to(v.dtype))
        return v @ (middle @ mH(v)), None, None, None


def eigh_of(a, uplo, name, vectors=True):
    check_square(a, name)
    if not isinstance(uplo, str):
        raise TypeError(f"{name}(): argument 'UPLO' must be str, not {type(uplo).__name__}")
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return LinalgEigh.apply(a, uplo.upper(), vectors, name)


@composed("linalg out", returns="eigenvalues eigenvectors")
def eigh(A: Tensor, UPLO: str = "L") -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices, of which one triangle is read."""
    return eigh_of(A, UPLO, "linalg.eigh")


@composed("linalg out")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues, ascending, of Hermitian matrices, of which one triangle is read."""
    return eigh_of(A, UPLO, "linalg.eigh", isinstance(A, Tensor) and differentiated(A))[0]


class LinalgEig(Step):
    @staticmethod
    def forward(ctx, a, vectors):
        w, v, info = lapack("geev", a, letters="V" if vectors else "N")
        raise_failed(info, "torch.linalg.eig", "The algorithm failed to converge (error code: {}).")
        if not a.is_complex():
            w, v = unpacked(w, v, a.shape[-1])
        ctx.real = not a.is_complex()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, v)
        return w, v

    @staticmethod
    def backward(ctx, gw, gv):
        w, v = ctx.saved_tensors
        if gw is None and gv is None:
            return None, None
        middle = 0 if gw is None else diag_embed(gw)
        if gv is not None:
            turn = mH(v) @ gv
            if loose(diagonal(turn)):
                raise RuntimeError("linalg_eig_backward: The eigenvectors in the complex case are specified up to "
                                   "multiplication by e^{i phi}. The specified loss function depends on this "
                                   "quantity, so "
                                   "it is ill-defined.")
            # Vectors of length 1: what stretches them has no effect.
            turn = (turn - mH(v) @ (v * diagonal(turn).real.unsqueeze(-2))) / gaps_conj(w)
            middle = middle + turn - diag_embed(diagonal(turn))
        from .linalg_solve import LinalgSolveEx

        ga = LinalgSolveEx.apply(mH(v), middle @ mH(v))[0]
        return ga.real if ctx.real else ga, None


def gaps_conj(w):
    w = w.conj()
    return w.unsqueeze(-2) - w.unsqueeze(-1) + identity(w, w.shape[-1])


def make(re, im):
    return view_as_complex(stack([re, im], -1))


def unpacked(w, v, n):
    """Complex eigenvalues and vectors from LAPACK's real ones: a pair's columns hold real and imaginary part."""
    im = w[..., n:]
    values = make(w[..., :n], im)
    if not v.numel():
        return values, make(v, v)
    first, second = (im > 0).unsqueeze(-2), (im < 0).unsqueeze(-2)
    before, after = cat([v[..., :1], v[..., :-1]], -1), cat([v[..., 1:], v[..., -1:]], -1)
    re = where(second, before, v)
    imag = where(first, after, where(second, -v, zero(v)))
    return values, mT(make(mT(re), mT(imag)))


def eig_of(a, vectors):
    check_square(a, "linalg.eig")
    if a.numel() and not everywhere(a.isfinite()):
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    return LinalgEig.apply(a, vectors)


@composed("linalg out", returns="eigenvalues eigenvectors")
def eig(A: Tensor) -> tuple[Tensor, Tensor]:
    """Complex eigenvalues and eigenvectors of length 1 of square matrices."""
    return eig_of(A, True)


@composed("linalg out")
def eigvals(A: Tensor) -> Tensor:
    """Complex eigenvalues of square matrices."""
    return eig_of(A, isinstance(A, Tensor) and differentiated(A))[0]


# ---- pseudo-inverse and rank


class LinalgPinv(Step):
    @staticmethod
    def forward(ctx, a, atol, rtol, hermitian):
        if hermitian:
            w, v, info = lapack("syevd", a, letters="VL")
            raise_failed(info, "linalg.eigh", NO_EIGH)
            size, uh = w.abs(), mH(v)
        else:
            u, w, uh, info = lapack("gesdd", a, letters="S")
            raise_failed(info, "linalg.svd", NO_SVD)
            size, v, uh = w, mH(uh), mH(u)
        cut = cutoff(size, atol, rtol)
        inverse = where(size > cut, 1 / where(size > cut, w, w.new_ones(())), w.new_zeros(()))
        p = (v * inverse.unsqueeze(-2).to(a.dtype)) @ uh
        ctx.save_for_backward(a, p)
        return p

    @staticmethod
    def backward(ctx, g):
        a, p = ctx.saved_tensors
        return pinv_gradient(g, a, p), None, None, None


def pinv_gradient(g, a, p):
    """From dP = -P dA P + P P^H dA^H (1 - AP) + (1 - PA) dA^H P^H P, for constant rank (G. Golub and V. Pereyra, The
    differentiation of pseudo-inverses, SIAM J. Numer. Anal. 10, 1973)."""
    ph, gh = mH(p), mH(g)
    left, right = (gh @ p) @ ph, ph @ (p @ gh)
    return -(ph @ g @ ph) + (left - a @ (p @ left)) + (right - (right @ p) @ a)


def largest(s):
    """The largest of each row, as a column; 0 of none."""
    return s.amax(-1, True) if s.shape[-1] else s.new_zeros(*s.shape[:-1], 1)


def cutoff(s, atol, rtol):
    """``max(atol, rtol * max(s))`` for each row."""
    s = s.detach()
    absolute = column(atol, s)
    relative = column(rtol, s) * largest(s)
    return where(absolute > relative, absolute, relative)


def column(tol, s):
    if isinstance(tol, Tensor):
        return tol.detach().to(s.dtype).unsqueeze(-1)
    return s.new_full((), tol)


def tolerances(a, atol, rtol, name):
    """The defaults: epsilon times the larger side, relative; nothing relative beside an absolute one."""
    for word, tol in (("atol", atol), ("rtol", rtol)):
        if isinstance(tol, Tensor) and tol.is_complex():
            raise RuntimeError(f"torch.linalg.{name}: {word} tensor of complex type is not supported. Got {word} with "
                               f"scalar type {type_word(tol)}")
    if rtol is None:
        rtol = epsilon(a) * max(a.shape[-2:])
        if isinstance(atol, Tensor):
            rtol = where(atol.detach() > 0, zero(atol).double(), zero(atol).double() + rtol)
        elif atol is not None and atol > 0:
            rtol = 0.0
    return 0.0 if atol is None else atol, rtol


def pseudo_inverse(a, atol, rtol, hermitian):
    check_tensor(a, "linalg.pinv", "input")
    if a.ndim < 2 or not (a.is_floating_point() or a.is_complex()):
        raise RuntimeError(f"linalg.pinv({type_word(a)}{{{list(a.shape)}}}): expected a tensor with 2 or more "
                           "dimensions of "
                           "float, double, cfloat or cdouble types")
    (check_square if hermitian else check_matrix)(a, "linalg.pinv")
    atol, rtol = tolerances(a, atol, rtol, "pinv")
    if not a.numel():
        return mH(a) * 1 if a.requires_grad else a.new_empty(*a.shape[:-2], a.shape[-1], a.shape[-2])
    refuse_infinite(a, "linalg.eigh" if hermitian else "linalg.svd")
    return LinalgPinv.apply(a, atol, rtol, bool(hermitian))


@composed("linalg out")
def pinv(A: Tensor, rcond=None, hermitian: bool = False, *, atol=None, rtol=None) -> Tensor:
    """Moore-Penrose pseudo-inverses.

    Parameters
    ----------
    A : Tensor
        Matrices, (*, m, n).
    rcond : float or Tensor, optional
        Older name of `rtol`.
    hermitian : bool
        Take A for Hermitian and use its eigenvalues.
    atol, rtol : float or Tensor, optional
        Singular values up to max(atol, rtol * largest) count as 0; rtol is epsilon times the larger side of A, or 0
        where atol is given.
    """
    return pseudo_inverse(A, atol, rtol if rcond is None else rcond, hermitian)


@composed("function method")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """See `linalg.pinv`; `rcond` is its rtol."""
    return pseudo_inverse(input, 0.0, rcond, False)


@composed("linalg out")
def matrix_rank(A: Tensor, tol=None, hermitian: bool = False, *, atol=None, rtol=None) -> Tensor:
    """Number of singular values above max(atol, rtol * largest); defaults as for `pinv`, `tol` is an older atol."""
    name = "torch.linalg.matrix_rank"
    check_tensor(A, name, "A")
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(f"{name}: this function doesn't handle types other than float and double, got {A.dtype}")
    (check_square if hermitian else check_matrix)(A, name, "input")
    if tol is not None:
        atol, rtol = tol, 0.0
    atol, rtol = tolerances(A, atol, rtol, "matrix_rank")
    a = A.detach()
    s = eigh_of(a, "L", "linalg.eigh", False)[0].abs() if hermitian else values_of(a, "linalg.svd")
    return (s > cutoff(s, atol, rtol)).sum(-1)


# ---- least squares


class LinalgLstsq(Step):
    @staticmethod
    def forward(ctx, a, b, rcond, driver):
        m, n = a.shape[-2:]
        rows = b if m >= n else cat([b, b.new_zeros(*b.shape[:-2], n - m, b.shape[-1])], -2)
        x, rank, s, info = lapack("gels", a, rows, letters="-" if driver == "gels" else driver[-1], rcond=rcond)
        raise_failed(info, "torch.linalg.lstsq", "The least squares solution could not be computed because the input "
                                                 "matrix "
                     "does not have full rank (error code: {})." if driver == "gels" else "The singular value "
                                                                                          "iteration did "
                     "not converge (error code: {}).")
        solution, none = x[..., :n, :], real(a.new_empty(0))
        residuals = none
        if m > n and driver != "gelsy" and (driver == "gels" or everywhere(rank == n)):
            rest = x[..., n:, :].abs()
            residuals = (rest * rest).sum(-2)
        rank = rank.to(int64()) if driver != "gels" else rank.new_empty(0).to(int64())
        s = s if driver in ("gelsd", "gelss") else none.clone()
        ctx.mark_non_differentiable(rank, s)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b, solution)
        return solution, residuals, rank, s

    @staticmethod
    def backward(ctx, gx, gr, *_):
        a, b, x = ctx.saved_tensors
        if gx is None and (gr is None or not gr.numel()):
            return None, None, None, None
        ga = gb = 0
        if gx is not None:
            p = pseudo_inverse(a, None, None, False)
            gb = mH(p) @ gx
            if ctx.needs_input_grad[0]:
                ga = pinv_gradient(gx @ mH(b), a, p)
        if gr is not None and gr.numel():
            rest = 2 * gr.unsqueeze(-2).to(a.dtype) * (a @ x - b)
            ga, gb = ga + rest @ mH(x), gb - rest
        return ga if ctx.needs_input_grad[0] else None, gb if ctx.needs_input_grad[1] else None, None, None


def lstsq_zero(a, b, driver):
    """Matrices without elements: nothing is determined, and the smallest solution is 0."""
    none = real(a.new_empty(0))
    batch = tuple(a.shape[:-2])
    x = mT(a.new_zeros(*batch, b.shape[-1], a.shape[-1]))
    rank = none.new_zeros(*batch).to(int64()) if driver != "gels" else none.to(int64())
    s = none.new_zeros(*batch, min(a.shape[-2:])) if driver in ("gelsd", "gelss") else none
    return x, none, rank, s


@composed("linalg out", returns="solution residuals rank singular_values")
def lstsq(A: Tensor, B: Tensor, rcond=None, *, driver=None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The X of least ``||AX - B||``, and among several the smallest.

    Parameters
    ----------
    A : Tensor
        Matrices, (*, m, n).
    B : Tensor
        Right-hand sides, (*, m, k), or (m,) or (*, m) with A's batch.
    rcond : float, optional
        Singular values below rcond times the largest count as 0; default: epsilon times the larger side.
    driver : str, optional
        ``"gelsy"`` (default: QR with pivots), ``"gels"`` (full rank; the default and the only one on devices),
        ``"gelsd"`` or ``"gelss"`` (singular values).

    Returns
    -------
    (solution, residuals, rank, singular_values)
        What a driver does not compute comes empty; residuals are the squared norms of the columns of AX - B, where A
        has more rows than columns and full rank.

    Raises
    ------
    LinAlgError
        If "gels" meets a matrix without full rank.
    """
    name = "torch.linalg.lstsq"
    check_matrix(A, name, "input")
    check_tensor(B, name, "other")
    if B.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if A.dtype != B.dtype:
        raise RuntimeError(f"{name}: Expected input and other to have the same dtype, but got input's dtype "
                           f"{type_word(A)} "
                           f"and other's dtype {type_word(B)}")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver!r}")
    away = A.device.type != "cpu"
    if away and driver not in (None, "gels"):
        raise RuntimeError(f"{name}: parameter `driver` should be `gels` on {A.device.type.upper()}, got {driver!r}")
    driver = driver or ("gels" if away else "gelsy")
    vector = is_vector(A, B)
    b = B.unsqueeze(-1) if vector else B
    if A.ndim - b.ndim > 1 or (b.ndim - A.ndim > 0 and b.ndim < 2):
        raise RuntimeError(f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
                           "other.dim()) <= "
                           "1")
    if b.ndim < 2 or A.shape[-2] != b.shape[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-2), got shapes {list(A.shape)} and "
                           f"{list(B.shape)}")
    a, b = one_batch(A, b)
    if not a.numel() or not b.numel():
        result = lstsq_zero(a, b, driver)
    else:
        refuse_infinite(a, name)
        cut = epsilon(a) * max(a.shape[-2:]) if rcond is None else float(rcond)
        result = LinalgLstsq.apply(a, b, cut, driver)
    return (result[0].squeeze(-1), *result[1:]) if vector else result
