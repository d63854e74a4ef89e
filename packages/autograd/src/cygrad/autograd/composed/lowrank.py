"""A few singular values or eigenvalues of large matrices, by products with a few vectors."""

from .. import _core
from .._core import Tensor, matmul, randn, stack
from ..grad_mode import no_grad
from . import composed
from ._args import int_arg, tensor_arg
from .linalg_base import mH
from .linalg_factor import cholesky
from .linalg_qr import qr
from .linalg_solve import solve_triangular
from .linalg_spectral import eigh, svd


def matrix_arg(A, function):
    """`A`, which has to be of floating-point matrices; (m, n)."""
    if tensor_arg(A, function, "A").ndim < 2:
        raise ValueError(f"{function}(): A must have at least two dimensions, got shape {list(A.shape)}")
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(f"{function}(): A must be of a floating-point or complex dtype, got {A.dtype}")
    return A.shape[-2:]


# ---- singular values


def range_of(A, q, niter):
    """An orthonormal basis of about the range of A, of at most `q` vectors: algorithm 4.4 of Halko and others."""
    Q = qr(matmul(A, randn(A.shape[-1], q, dtype=A.dtype, device=A.device)))[0]
    for _ in range(niter):
        Q = qr(matmul(mH(A), Q))[0]
        Q = qr(matmul(A, Q))[0]
    return Q


@composed("function")
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2,
                M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """About the `q` largest singular values of ``A - M``, with their vectors: ``A - M = U diag(S) V^H``.

    Halko, Martinsson and Tropp, "Finding structure with randomness" (2009), algorithm 5.1. Draws random numbers.

    Parameters
    ----------
    A : Tensor, shape (*, m, n)
    q : int, optional
        A little more than the rank that is looked for; 6 by default.
    niter : int, optional
        Subspace iterations; 2 by default.
    M : Tensor, optional
        Broadcast to A, for example the mean of its rows.

    Returns
    -------
    tuple of Tensor
        U (*, m, k), S (*, k) in descending order, V (*, n, k), with k = min(q, m, n).

    Raises
    ------
    ValueError
        A has fewer than two dimensions.
    RuntimeError
        A is of integers, or `q` is negative.
    """
    m, n = matrix_arg(A, "svd_lowrank")
    q = 6 if q is None else int_arg(q, "svd_lowrank", "q")
    niter = 2 if niter is None else int_arg(niter, "svd_lowrank", "niter")
    if q < 0:
        raise RuntimeError(f"svd_lowrank(): q must not be negative, got {q}")
    if M is not None:
        A = A - tensor_arg(M, "svd_lowrank", "M").broadcast_to(A.shape)
    tall = A if m >= n else mH(A)
    Q = range_of(tall, q, niter)
    U, S, Vh = svd(matmul(mH(Q), tall), False)
    U, V = matmul(Q, U), mH(Vh)
    return (U, S, V) if m >= n else (V, S, U)


@composed("function")
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True,
                niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of the rows of A: `svd_lowrank` of A without its mean row.

    Parameters
    ----------
    A : Tensor, shape (*, m, n)
        One sample a row.
    q : int, optional
        A little more than the number of components; min(6, m, n) by default.
    center : bool
        Whether the mean row is taken off.
    niter : int
        Subspace iterations.

    Returns
    -------
    tuple of Tensor
        U (*, m, q), S (*, q), and V (*, n, q), whose columns are the principal directions.

    Raises
    ------
    ValueError
        `q` is not in [0, min(m, n)], `niter` is negative, or A has fewer than two dimensions.
    RuntimeError
        A is of integers.
    """
    m, n = matrix_arg(A, "pca_lowrank")
    q = min(6, m, n) if q is None else int_arg(q, "pca_lowrank", "q")
    niter = int_arg(niter, "pca_lowrank", "niter")
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)


# ---- eigenvalues

LIMITS = {"float32": 1.2e-07, "float64": 2.23e-16}      # from which PyTorch takes its default tolerance


def against(W, basis, BW):
    """W without its parts along an orthonormal basis; twice, for what rounding left."""
    for _ in range(2):
        W = W - basis @ (basis.mT @ BW(W))
    return W


def orthonormal(W, BW):
    """A basis of the same space, by the eigenvectors of its Gram matrix (Stathopoulos and Wu, 2002); directions that
    are lost in rounding are left out."""
    for _ in range(2):
        gram = W.mT @ BW(W)
        scale = gram.diagonal().clamp(min=0).sqrt()
        W, gram, scale = (x[..., scale > 0] for x in (W, gram[scale > 0], scale))
        if W.shape[-1] == 0:
            return W
        sizes, turn = eigh(gram / (scale.unsqueeze(1) * scale))
        kept = sizes > sizes[-1] * LIMITS[str(W.dtype).rpartition(".")[2]] * W.shape[-1]
        W = (W / scale) @ (turn[:, kept] / sizes[kept].sqrt())
    return W


class Lobpcg:
    """The state of one iteration, which a `tracker` is shown.

    Attributes
    ----------
    X, E, R, S : Tensor
        Vectors, values, residuals, and the basis of the last step.
    iparams, fparams, bparams : dict
        Whole, real and truth-valued parameters.
    ivars, fvars, tvars : dict
        ``istep``, ``iterations_left``, ``converged_count``; norms; ``rerr``, the relative residuals.
    """

    def __init__(self, A, B, iK, X, iparams, fparams, bparams, method):
        self.A, self.B, self.iK, self.X, self.method = A, B, iK, X, method
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        self.ivars = {"istep": 0, "iterations_left": iparams["niter"], "converged_count": 0}
        self.fvars, self.bvars, self.tvars = {}, {}, {}
        self.E, self.S = None, X

    def times_b(self, W):
        return W if self.B is None else self.B @ W

    def ritz(self, S, n):
        """The n extreme pairs in the space of S, whose columns are orthonormal."""
        values, turn = eigh(S.mT @ (self.A @ S))
        if self.bparams["largest"]:
            values, turn = values.flip(0), turn.flip(1)
        return values[:n], S @ turn[:, :n]

    def measure(self):
        """Residuals, and how many of the wanted pairs have small ones."""
        X, E = self.X, self.E
        AX, BX = self.A @ X, self.times_b(X)
        self.R = AX - BX * E
        size = X.norm().item() or 1.0
        self.fvars = {"X_norm": size, "A_norm": AX.norm().item() / size, "B_norm": BX.norm().item() / size}
        scale = X.norm(dim=0) * (self.fvars["A_norm"] + E.abs() * self.fvars["B_norm"])
        self.tvars["rerr"] = self.R.norm(dim=0) / scale
        small = (self.tvars["rerr"] <= self.fparams["tol"]).tolist()
        self.ivars["converged_count"] = (*small, False).index(False)

    def run(self, tracker):
        """Knyazev, "Toward the optimal preconditioned eigensolver" (2001): the best vectors in the space of the last
        ones, of their residuals and of the last change."""
        n = self.iparams["n"]
        self.E, self.X = self.ritz(orthonormal(self.X, self.times_b), n)
        change = self.X[:, :0]
        while True:
            self.measure()
            if tracker is not None:
                tracker(self)
            if self.ivars["converged_count"] >= self.iparams["k"] or self.ivars["iterations_left"] == 0:
                return
            W = self.R if self.iK is None else self.iK @ self.R
            W = orthonormal(against(_core.cat([W, change], 1), self.X, self.times_b), self.times_b)
            W = orthonormal(against(W, self.X, self.times_b), self.times_b) if W.shape[1] else W
            self.S = _core.cat([self.X, W], 1)
            before = self.X
            self.E, self.X = self.ritz(self.S, n)
            change = against(self.X, before, self.times_b)
            self.ivars["istep"] += 1
            self.ivars["iterations_left"] -= 1


def exact_pairs(A, B, E, X, largest):
    """The same pairs by a full decomposition, which has gradients, with the signs of X."""
    if B is None:
        values, vectors = eigh(A)
    else:
        L = cholesky(B)
        inner = solve_triangular(L, solve_triangular(L, A, upper=False).mT, upper=False)
        values, vectors = eigh(inner)
        vectors = solve_triangular(L.mT, vectors, upper=True)
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    k = E.shape[-1]
    values, vectors = values[..., :k], vectors[..., :k]
    sign = _core.where((vectors.detach() * X).sum(-2, True) < 0, -1.0, 1.0).to(X.dtype)
    return values, vectors * sign


def check_pencil(A, B):
    m, n = matrix_arg(A, "lobpcg")
    if str(A.dtype).rpartition(".")[2] not in LIMITS:
        raise RuntimeError(f"lobpcg(): A must be of float32 or float64, got {A.dtype}")
    if m != n:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and tensor_arg(B, "lobpcg", "B").shape != A.shape:
        raise AssertionError(f"A and B shapes mismatch: {A.shape} != {B.shape}")
    return m


@composed("function")
def lobpcg(A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None,
           iK: Tensor | None = None, niter: int | None = None, tol: float | None = None, largest: bool | None = None,
           method: str | None = None, tracker=None, ortho_iparams=None, ortho_fparams=None,
           ortho_bparams=None) -> tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) eigenvalues of the symmetric problem ``A x = e B x``, with their vectors.

    Knyazev, "Toward the optimal preconditioned eigensolver" (2001). Where a gradient is wanted, the pairs are those of
    a full decomposition, which has one.

    Parameters
    ----------
    A : Tensor, shape (*, m, m)
        Symmetric, float32 or float64.
    k : int, optional
        Default: 1, or the number of columns of X.
    B : Tensor, shape (*, m, m), optional
        Symmetric and positive-definite.
    X : Tensor, shape (*, m, n), optional
        Vectors to start from; random ones by default.
    n : int, optional
        How many random vectors; default k.
    iK : Tensor, shape (*, m, m), optional
        Preconditioner: about the inverse of A.
    niter : int, optional
        At most so many steps; 1000 by default, -1 for no limit.
    tol : float, optional
        Relative residual at which a pair is taken; the root of the dtype's resolution by default.
    largest : bool, optional
        True by default.
    method : {"ortho", "basic"}, optional
        Both keep the basis orthonormal here.
    tracker : callable, optional
        Called in each step with the iteration, whose attributes are its state.
    ortho_iparams, ortho_fparams, ortho_bparams : dict, optional
        Shown to the tracker among the parameters; the basis needs none.

    Returns
    -------
    tuple of Tensor
        Eigenvalues (*, k), and vectors (*, m, k).

    Raises
    ------
    ValueError
        m is smaller than 3 k, or the method is another one.
    AssertionError
        Shapes do not go together.
    """
    m = check_pencil(A, B)
    k = (1 if X is None else X.shape[-1]) if k is None else int_arg(k, "lobpcg", "k")
    n = (k if n is None else int_arg(n, "lobpcg", "n")) if X is None else X.shape[-1]
    if k < 1 or n < 1:
        raise ValueError(f"lobpcg(): at least one eigenpair is wanted, got k={k} and n={n}")
    if m < 3 * n:
        raise ValueError(f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the "
                         f"number of requested eigenpairs (={n})")
    if method not in (None, "ortho", "basic"):
        raise ValueError(f"lobpcg(): method is 'ortho' or 'basic', not {method!r}")
    if X is not None and tensor_arg(X, "lobpcg", "X").shape != (*A.shape[:-1], n):
        raise AssertionError(f"X shape mismatch: got {X.shape}, expected {(*A.shape[:-1], n)}")
    largest = largest is None or bool(largest)
    limit = LIMITS[str(A.dtype).rpartition(".")[2]] ** 0.5
    iparams = {"m": m, "n": n, "k": min(k, n), "niter": 1000 if niter is None else int_arg(niter, "lobpcg", "niter"),
               **(ortho_iparams or {})}
    fparams = {"tol": limit if tol is None else float(tol), **(ortho_fparams or {})}
    bparams = {"largest": largest, **(ortho_bparams or {})}
    values, vectors = [], []
    with no_grad():
        for i in range(A.shape[:-2].numel()):
            parts = [None if t is None else t.detach().reshape(-1, *t.shape[-2:])[i] for t in (A, B, iK, X)]
            start = parts.pop() if X is not None else parts.pop() or randn(m, n, dtype=A.dtype, device=A.device)
            state = Lobpcg(*parts, start, iparams, fparams, bparams, method or "ortho")
            state.run(tracker)
            values.append(state.E[: iparams["k"]])
            vectors.append(state.X[:, : iparams["k"]])
    E, V = (stack(x).reshape(*A.shape[:-2], *x[0].shape) for x in (values, vectors))
    if _core.is_grad_enabled() and (A.requires_grad or (B is not None and B.requires_grad)):
        return exact_pairs(A, B, E, V, largest)
    return E, V
