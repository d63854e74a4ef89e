"""Linear algebra: what defines each decomposition, gradients, failures that name the batch item, and unusual input."""

import itertools

import numpy as np
import pytest

import cygrad as torch
from cygrad.linalg import LinAlgError
from cygrad.tools.gradcheck import gradcheck, gradgradcheck

linalg = torch.linalg
F64 = torch.float64
BATCHES = [(), (3,), (2, 1), (0,)]
SHAPES = [(4, 4), (5, 3), (3, 5), (1, 1), (0, 0), (3, 0), (0, 2)]
SQUARE = [0, 1, 2, 5]


def randn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed + sum(shape)).standard_normal(shape))


def positive(*batch_and_n):
    a = randn(*batch_and_n, batch_and_n[-1])
    return a @ a.mT + torch.eye(batch_and_n[-1], dtype=F64)


def close(a, b, tol=1e-10):
    assert tuple(a.shape) == tuple(b.shape)
    assert a.numel() == 0 or float((a - b).abs().max()) < tol


def layouts(a):
    """The same matrices as rows, as columns, and with gaps."""
    wide = torch.zeros((*a.shape[:-1], 2 * a.shape[-1]), dtype=a.dtype)
    gaps = wide[..., ::2]
    gaps.copy_(a)
    return [a, a.mT.contiguous().mT, gaps]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_multiply_to_the_matrix(batch, shape):
    m, n = shape
    k = min(shape)
    for a in layouts(randn(*batch, m, n)):
        p, low, up = linalg.lu(a)
        close(p @ low @ up, a)
        for mode, rows in (("reduced", k), ("complete", m)):
            q, r = linalg.qr(a, mode)
            assert q.shape[-1] == r.shape[-2] == rows
            close(q @ r, a)
            close(q.mT @ q, torch.eye(rows, dtype=F64).expand(*batch, rows, rows))
        for full in (False, True):
            u, s, vh = linalg.svd(a, full)
            assert u.shape[-1] == (m if full else k) and vh.shape[-2] == (n if full else k)
            close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
            close(u.mT @ u, torch.eye(u.shape[-1], dtype=F64).expand(*batch, u.shape[-1], u.shape[-1]))
        pinv = linalg.pinv(a)
        close(a @ pinv @ a, a)
        packed, tau = torch.geqrf(a)
        if m >= n:
            close(torch.orgqr(packed, tau), linalg.qr(a)[0])
        c = randn(*batch, m, 2)
        close(torch.ormqr(packed, tau, torch.ormqr(packed, tau, c), transpose=True), c)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", SQUARE)
def test_square_and_symmetric_matrices(batch, n):
    eye = torch.eye(n, dtype=F64).expand(*batch, n, n)
    for a in layouts(positive(*batch, n)):
        for upper in (False, True):
            factor = linalg.cholesky(a, upper=upper)
            close(factor.mT @ factor if upper else factor @ factor.mT, a)
            close(torch.cholesky_inverse(factor, upper) @ a, eye, 1e-9)
            b = randn(*batch, n, 2)
            close(a @ torch.cholesky_solve(b, factor, upper), b, 1e-9)
        w, v = linalg.eigh(a)
        close((v * w.unsqueeze(-2)) @ v.mT, a)
        close(linalg.eigvalsh(a, "U"), w)
        ld, pivots = linalg.ldl_factor(a)
        close(a @ linalg.ldl_solve(ld, pivots, b), b, 1e-9)
    for a in layouts(randn(*batch, n, n) + 3 * torch.eye(n, dtype=F64)):
        close(linalg.inv(a) @ a, eye, 1e-9)
        for left in (True, False):
            b = randn(*batch, n, 2) if left else randn(*batch, 2, n)
            x = linalg.solve(a, b, left=left)
            close(a @ x if left else x @ a, b, 1e-9)
            lu, pivots = linalg.lu_factor(a)
            close(linalg.lu_solve(lu, pivots, b, left=left), x, 1e-9)
            y = linalg.lu_solve(lu, pivots, b, left=left, adjoint=True)
            close(a.mT @ y if left else y @ a.mT, b, 1e-9)
            t = linalg.solve_triangular(a, b, upper=True, left=left)
            u = torch.where(torch.ones(n, n).cumsum(1) >= torch.ones(n, n).cumsum(0), a, torch.zeros((), dtype=F64))
            close(u @ t if left else t @ u, b, 1e-7)
        sign, log = linalg.slogdet(a)
        close(sign * log.exp(), linalg.det(a), 1e-6)
        close(torch.matrix_exp(a) @ torch.matrix_exp(-a), eye, 1e-6)
        close(linalg.matrix_power(a, -3) @ linalg.matrix_power(a, 3), eye, 1e-6)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3), (40, 20)])
def test_least_squares_is_numpys(driver, shape):
    a, b = randn(2, *shape), randn(2, shape[0], 2, seed=1)
    x, residuals, rank, s = linalg.lstsq(a, b, driver=driver)
    for i in range(2):
        want = np.linalg.lstsq(a[i].numpy(), b[i].numpy(), rcond=None)
        np.testing.assert_allclose(x[i].numpy(), want[0], atol=1e-9)
        if residuals.numel():
            np.testing.assert_allclose(residuals[i].numpy(), want[1], atol=1e-9)
        if s.numel():
            np.testing.assert_allclose(s[i].numpy(), want[3], atol=1e-9)
    assert rank.tolist() == ([] if driver == "gels" else [min(shape)] * 2)
    close(linalg.lstsq(a[0], b[0, :, 0], driver=driver).solution, x[0, :, 0])


def test_rank_deficient_least_squares_and_pinv():
    a = randn(4, 1) @ randn(1, 3, seed=2)
    b = randn(4, 2, seed=3)
    want = linalg.pinv(a) @ b
    for driver in ("gelsy", "gelsd", "gelss"):
        found = linalg.lstsq(a, b, driver=driver)
        close(found.solution, want)
        assert found.rank.item() == 1
    assert linalg.matrix_rank(a).item() == 1
    assert linalg.matrix_rank(a, atol=100.0).item() == 0
    assert linalg.matrix_rank(torch.ones(2, 3, 3), hermitian=True).tolist() == [1, 1]


# ---- gradients


GRADIENTS = {
    "cholesky": (lambda a: linalg.cholesky(a @ a.mT + torch.eye(3, dtype=F64)), (2, 3, 3)),
    "cholesky upper": (lambda a: linalg.cholesky(a @ a.mT + torch.eye(3, dtype=F64), upper=True), (3, 3)),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(a + 3 * torch.eye(3, dtype=F64)), (3, 3)),
    "cholesky_solve": (lambda a, b: torch.cholesky_solve(b, a + 3 * torch.eye(3, dtype=F64)), (3, 3), (3, 2)),
    "inv": (lambda a: linalg.inv(a + 3 * torch.eye(3, dtype=F64)), (2, 3, 3)),
    "solve": (lambda a, b: linalg.solve(a + 3 * torch.eye(3, dtype=F64), b), (3, 3), (2, 3, 2)),
    "solve right": (lambda a, b: linalg.solve(a + 3 * torch.eye(3, dtype=F64), b, left=False), (3, 3), (2, 3)),
    "solve_triangular": (lambda a, b: linalg.solve_triangular(a + 3 * torch.eye(3, dtype=F64), b, upper=True), (3, 3),
                         (3, 2)),
    "det": (linalg.det, (2, 3, 3)),
    "slogdet": (lambda a: linalg.slogdet(a)[1], (2, 3, 3)),
    "lu square": (lambda a: linalg.lu(a)[1:], (2, 3, 3)),
    "lu wide": (lambda a: linalg.lu(a)[1:], (2, 4)),
    "lu tall": (lambda a: linalg.lu(a)[1:], (4, 2)),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True), (3, 3), (3, 2)),
    "qr tall": (lambda a: linalg.qr(a), (2, 4, 3)),
    "qr wide": (lambda a: linalg.qr(a), (2, 4)),
    "svd": (lambda a: (linalg.svd(a, False).U.abs(), linalg.svdvals(a)), (4, 3)),
    "svdvals": (linalg.svdvals, (2, 3, 4)),
    "eigh": (lambda a: (linalg.eigh(a + a.mT)[0], linalg.eigh(a + a.mT)[1].abs()), (3, 3)),
    "eigvalsh": (lambda a: linalg.eigvalsh(a + a.mT), (2, 3, 3)),
    "pinv": (linalg.pinv, (4, 3)),
    "pinv hermitian": (lambda a: linalg.pinv(a + a.mT, hermitian=True), (3, 3)),
    "lstsq": (lambda a, b: linalg.lstsq(a, b, driver="gels")[:2], (4, 3), (4, 2)),
    "householder_product": (linalg.householder_product, (4, 3), (2,)),
    "ormqr": (torch.ormqr, (4, 3), (2,), (4, 2)),
    "matrix_exp": (torch.matrix_exp, (2, 3, 3)),
    "matrix_power": (lambda a: linalg.matrix_power(a, 5), (3, 3)),
    "cond": (linalg.cond, (3, 3)),
    "cond fro": (lambda a: linalg.cond(a, "fro"), (3, 3)),
    "norm nuc": (lambda a: linalg.norm(a, "nuc"), (3, 4)),
    "multi_dot": (lambda *m: linalg.multi_dot(m), (2, 3), (3, 4), (4, 2)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), (2, 3, 4), (3, 4, 2)),
    "kron": (torch.kron, (2, 3), (3, 2)),
    "cross": (linalg.cross, (2, 3), (1, 3)),
    "cdist": (torch.cdist, (3, 2), (4, 2)),
    "cdist mm": (lambda a, b: torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist"), (3, 2), (4, 2)),
    "cdist 3": (lambda a, b: torch.cdist(a, b, 3.0), (3, 2), (2, 2)),
    "vander": (linalg.vander, (4,)),
    "addbmm": (lambda c, a, b: torch.addbmm(c, a, b, beta=2, alpha=0.5), (2, 2), (3, 2, 4), (3, 4, 2)),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=0.5), (2,), (3, 2, 4), (3, 4, 2)),
    "addr": (torch.addr, (2, 3), (2,), (3,)),
    "addmv": (torch.addmv, (2,), (2, 3), (3,)),
    "einsum": (lambda a, b, c: torch.einsum("bij,bjk,ki->b", a, b, c), (2, 2, 3), (2, 3, 2), (2, 2)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    function, *shapes = GRADIENTS[name]
    inputs = [randn(*s, seed=7 * i + 1).requires_grad_() for i, s in enumerate(shapes)]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_determinants_of_singular_matrices_have_gradients(rank):
    """The gradient is the matrix of cofactors, a polynomial in the elements."""
    a = (randn(3, rank) @ randn(rank, 3, seed=5)).requires_grad_()

    def by_permutations(m):
        total = 0
        for order in itertools.permutations(range(3)):
            sign = np.linalg.det(np.eye(3)[list(order)])
            total = total + sign * m[0, order[0]] * m[1, order[1]] * m[2, order[2]]
        return total

    grads = []
    for f in (linalg.det, by_permutations):
        g, = torch.autograd.grad(f(a), a, create_graph=True)
        weights = randn(3, 3, seed=8)
        again, = torch.autograd.grad((g * weights).sum(), a)
        grads.append((g.detach(), again))
    close(grads[0][0], grads[1][0])
    close(grads[0][1], grads[1][1])


def test_cdist_of_equal_points_has_gradient_0():
    a = torch.ones(3, 2, dtype=F64, requires_grad=True)
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        g, = torch.autograd.grad(torch.cdist(a, a, compute_mode=mode).sum(), a)
        assert g.tolist() == [[0.0, 0.0]] * 3


def test_a_complete_qr_of_a_tall_matrix_has_no_gradient():
    q, _ = linalg.qr(torch.ones(3, 2, requires_grad=True), "complete")
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete'"):
        q.sum().backward()
    _, r = linalg.qr(torch.ones(3, 2, requires_grad=True), "r")
    with pytest.raises(RuntimeError, match="mode='reduced'"):
        r.sum().backward()


# ---- failures


@pytest.mark.parametrize("call", [
    lambda a: linalg.solve(a, a), linalg.inv, linalg.cholesky, torch.inverse, torch.cholesky,
    lambda a: linalg.solve_ex(a, a, check_errors=True), lambda a: linalg.inv_ex(a, check_errors=True),
    lambda a: linalg.cholesky_ex(a, check_errors=True), torch.cholesky_inverse, linalg.lu_factor])
def test_singular_matrices_are_named(call):
    a = torch.eye(3).expand(4, 3, 3).clone()
    a[2] = 0
    with pytest.raises(LinAlgError, match="Batch element 2"):
        call(a)
    with pytest.raises(RuntimeError):
        call(a[2])
    assert call(torch.eye(3)) is not None


def test_info_instead_of_an_error():
    a = torch.eye(3).expand(4, 3, 3).clone()
    a[2, 1, 1] = 0
    assert linalg.inv_ex(a).info.tolist() == [0, 0, 2, 0]
    assert linalg.solve_ex(a, a).info.tolist() == [0, 0, 2, 0]
    assert linalg.cholesky_ex(a).info.tolist() == [0, 0, 2, 0]
    assert linalg.lu_factor_ex(a).info.tolist() == [0, 0, 2, 0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite(value):
    a = torch.eye(3).expand(2, 3, 3).clone()
    a[1, 0, 1] = value
    for f in (linalg.svd, linalg.eigh, linalg.svdvals, linalg.pinv, lambda x: linalg.lstsq(x, x)):
        with pytest.raises(LinAlgError, match=r"Batch element 1.*non-finite"):
            f(a)
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        linalg.eig(a)
    for f in (linalg.qr, linalg.lu, torch.matrix_exp, linalg.det, linalg.slogdet):
        f(a)


@pytest.mark.parametrize("pivots", [[0, 1, 2], [1, 2, 9], [-5, 1, 1], [2**31 - 1, 1, 1]])
def test_wrong_pivots_are_refused(pivots):
    a = torch.eye(3)
    p = torch.tensor(pivots, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"[Pp]ivots"):
        linalg.lu_solve(a, p, a)
    with pytest.raises(RuntimeError, match=r"[Pp]ivots"):
        torch.lu_unpack(a, p)
    if pivots[0] != 1:
        with pytest.raises(RuntimeError, match="pivots"):
            linalg.ldl_solve(a, p, a)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: linalg.inv(torch.ones(2, 3)), RuntimeError, "linalg.inv: A must be batches of square matrices.*2 by 3"),
    (lambda: linalg.inv(torch.ones(3)), RuntimeError, "at least 2 dimensions"),
    (lambda: linalg.inv(torch.ones(3, 3, dtype=torch.int64)), RuntimeError, "floating point or complex.*Long"),
    (lambda: linalg.inv([[1.0]]), TypeError, "must be Tensor, not list"),
    (lambda: linalg.solve(torch.ones(3, 3), torch.ones(4, 2)), RuntimeError, "3x3 and 4x2"),
    (lambda: linalg.solve(torch.ones(2, 3, 3), torch.ones(4, 3, 3)), RuntimeError, "size of tensor a"),
    (lambda: linalg.solve(torch.eye(2), torch.eye(2, dtype=F64)), RuntimeError, "same dtype.*Float.*Double"),
    (lambda: linalg.qr(torch.eye(2), "full"), RuntimeError, "mode 'full'"),
    (lambda: linalg.eigh(torch.eye(2), "X"), RuntimeError, "UPLO.*X"),
    (lambda: linalg.lstsq(torch.eye(2), torch.eye(3)), RuntimeError, "size"),
    (lambda: linalg.lstsq(torch.tensor([[1.0, 0], [0, 0]]), torch.ones(2, 1), driver="gels"), LinAlgError,
     "full rank"),
    (lambda: linalg.matrix_norm(torch.eye(2), 3), RuntimeError, "Order 3"),
    (lambda: linalg.norm(torch.ones(2, 2, 2), "fro"), RuntimeError, "1D or 2D. Got 3D"),
    (lambda: linalg.vector_norm(torch.zeros(0), float("inf")), RuntimeError, "inf norm on an empty"),
    (lambda: linalg.multi_dot([torch.ones(3, 2), torch.ones(3, 3)]), RuntimeError, r"\[3, 2\] and \[3, 3\]"),
    (lambda: linalg.matrix_power(torch.eye(2), 1.5), TypeError, "must be int"),
    (lambda: linalg.tensorinv(torch.ones(6, 2, 4)), RuntimeError, "4 != 12"),
    (lambda: torch.cdist(torch.ones(2, 3), torch.ones(2, 4)), RuntimeError, "X1: 3 X2: 4"),
    (lambda: torch.cdist(torch.ones(2, 3), torch.ones(2, 3), -1.0), RuntimeError, "non-negative"),
    (lambda: torch.cross(torch.ones(2, 2), torch.ones(2, 2)), RuntimeError, "no dimension of size 3"),
    (lambda: torch.tensordot(torch.ones(3, 4), torch.ones(3, 4), 1), RuntimeError, "size 4.*size 3"),
    (lambda: torch.addmv(torch.ones(3), torch.ones(2, 3), torch.ones(3)), RuntimeError, "2x3"),
])
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---- products


def test_beta_0_ignores_the_input():
    nan = torch.full((2, 2), float("nan"), requires_grad=True)
    a, b = torch.ones(1, 2, 3), torch.ones(1, 3, 2)
    for y in (torch.addbmm(nan, a, b, beta=0), torch.baddbmm(nan, a, b, beta=0)[0],
              torch.addmm(nan, a[0], b[0], beta=0), torch.addr(nan, a[0, :, 0], b[0, 0], beta=0) + 2):
        assert y.tolist() == [[3.0, 3.0], [3.0, 3.0]]
        g, = torch.autograd.grad(y.sum(), nan)
        assert g.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_products_in_place():
    x = torch.ones(2, 2)
    y = x
    y.addmm_(torch.ones(2, 3), torch.ones(3, 2), beta=2)
    y.addbmm_(torch.ones(1, 2, 3), torch.ones(1, 3, 2), alpha=2)
    y.addr_(torch.ones(2), torch.ones(2))
    assert y is x and x.tolist() == [[12.0, 12.0], [12.0, 12.0]]
    with pytest.raises(RuntimeError, match="shape"):
        torch.ones(2).addmm_(torch.ones(2, 3), torch.ones(3, 2))


@pytest.mark.parametrize("sizes", [(10, 100, 5, 50), (2, 3), (4, 1, 4, 1, 4), (1, 9, 1, 9)])
def test_chains_of_matrices(sizes):
    matrices = [randn(m, n, seed=i) for i, (m, n) in enumerate(itertools.pairwise(sizes))]
    if len(matrices) < 2:
        matrices.append(randn(sizes[-1], 2))
    want = np.linalg.multi_dot([m.numpy() for m in matrices]) if len(matrices) > 1 else matrices[0].numpy()
    np.testing.assert_allclose(linalg.multi_dot(matrices).numpy(), want)
    np.testing.assert_allclose(torch.chain_matmul(*matrices).numpy(), want)


def test_distances_are_scipys():
    a, b = randn(4, 3), randn(30, 3, seed=1)
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf")):
        d = np.abs(a.numpy()[:, None] - b.numpy()[None])
        want = d.max(-1) if p == float("inf") else (d != 0).sum(-1) if p == 0 else (d**p).sum(-1) ** (1 / p)
        np.testing.assert_allclose(torch.cdist(a, b, p).numpy(), want, atol=1e-7)


def test_the_thread_count_changes_nothing():
    a = randn(40, 24, 24)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append([linalg.inv(a), *linalg.svd(a), *linalg.qr(a), *linalg.eigh(a)])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_a_matrix_that_squares_many_times():
    a = torch.tensor([[0.0, 1e3], [-1e3, 0.0]], dtype=F64)
    want = torch.tensor([[np.cos(1e3), np.sin(1e3)], [-np.sin(1e3), np.cos(1e3)]], dtype=F64)
    close(torch.matrix_exp(a), want, 1e-11)
    assert torch.matrix_exp(torch.full((1, 1), -1e300, dtype=F64)).item() == 0.0
    assert torch.matrix_exp(torch.zeros(2, 2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


# ---- complex numbers


def complex_randn(*shape, seed=0):
    return torch.complex(randn(*shape, seed=seed), randn(*shape, seed=seed + 50))


@pytest.mark.parametrize("make", [randn, complex_randn])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1)])
def test_eigenvalues(make, shape):
    a = make(*shape)
    w, v = linalg.eig(a)
    close(a.to(torch.complex128) @ v, v * w.unsqueeze(-2))
    close((v.conj() * v).sum(-2).real, torch.ones(w.shape, dtype=F64))
    np.testing.assert_allclose(np.sort_complex(linalg.eigvals(a).numpy()), np.sort_complex(w.numpy()), atol=1e-10)
    # A function of the eigenvalues that is one of the matrix: the sum of their squares is the trace of its square.
    x = a.clone().requires_grad_()
    g, = torch.autograd.grad((linalg.eigvals(x) ** 2).sum().real, x)
    h, = torch.autograd.grad((x @ x).diagonal(0, -2, -1).sum().real, x)
    close(g, h)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5), (0, 3, 3)])
def test_factors_of_complex_matrices(shape):
    a = complex_randn(*shape)
    k = min(shape[-2:])
    q, r = linalg.qr(a)
    close(q @ r, a)
    close(q.mH @ q, torch.eye(k, dtype=torch.complex128).expand(*shape[:-2], k, k))
    u, s, vh = linalg.svd(a, False)
    close((u * s.unsqueeze(-2)) @ vh, a)
    p, low, up = linalg.lu(a)
    close(p @ low @ up, a)
    close(a @ linalg.pinv(a) @ a, a)
    b = a @ a.mH + torch.eye(shape[-2], dtype=torch.complex128)
    low = linalg.cholesky(b)
    close(low @ low.mH, b)
    w, v = linalg.eigh(b)
    close((v * w.unsqueeze(-2)) @ v.mH, b)
    x = linalg.solve(b, a)
    close(b @ x, a, 1e-9)
    ld, pivots = linalg.ldl_factor(b, hermitian=True)
    close(linalg.ldl_solve(ld, pivots, a, hermitian=True), x, 1e-8)


def test_a_loss_that_depends_on_phases_is_refused():
    for f, name in ((lambda a: linalg.svd(a)[0], "svd"), (lambda a: linalg.eigh(a)[1], "eigh"),
                    (lambda a: linalg.eig(a)[1], "eig")):
        a = complex_randn(3, 3).requires_grad_()
        with pytest.raises(RuntimeError, match=f"{name}_backward"):
            f(a).imag.sum().backward()


def test_an_empty_out_of_cholesky_solve_is_laid_out_by_rows():
    """As PyTorch's, though the solution itself lies by columns."""
    out = torch.empty(0, dtype=torch.float64)
    factor, right = torch.eye(3, dtype=torch.float64) * 2, torch.arange(6, dtype=torch.float64).view(3, 2)
    assert torch.cholesky_solve(right, factor, out=out) is out
    assert out.stride() == (2, 1)
    assert out.tolist() == (right / 4).tolist()
