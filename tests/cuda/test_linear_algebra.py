"""Linear algebra on a device beside LAPACK's on the CPU: results, gradients, failures."""

from pathlib import Path

import numpy as np
import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")

L = cygrad.linalg


def matrices(*shape, complex=False, seed=0):
    x = np.random.default_rng(seed).normal(size=(*shape, 2))
    return cygrad.view_as_complex(cygrad.tensor(x)) if complex else cygrad.tensor(x[..., 0])


def positive(a):
    return a @ a.mH + cygrad.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def parts(*results):
    """Without phases: what vectors of a decomposition are defined up to."""
    return [r.abs() if r.is_complex() else r for r in results]


SQUARE = {
    "cholesky": lambda a, b: L.cholesky(positive(a)),
    "cholesky upper": lambda a, b: L.cholesky(positive(a), upper=True),
    "cholesky_solve": lambda a, b: cygrad.cholesky_solve(b, L.cholesky(positive(a))),
    "cholesky_inverse": lambda a, b: cygrad.cholesky_inverse(L.cholesky(positive(a))),
    "solve": lambda a, b: L.solve(a, b), "solve right": lambda a, b: L.solve(a, b.mT, left=False),
    "inv": lambda a, b: L.inv(a), "det": lambda a, b: L.det(a), "slogdet": lambda a, b: parts(*L.slogdet(a)),
    "lu": lambda a, b: list(L.lu(a)), "lu_solve": lambda a, b: L.lu_solve(*L.lu_factor(a), b),
    "lu_solve adjoint": lambda a, b: L.lu_solve(*L.lu_factor(a), b, adjoint=True),
    "solve_triangular": lambda a, b: L.solve_triangular(a.tril(-1) + 3 * cygrad.eye(4, dtype=a.dtype, device=a.device),
                                                        b, upper=False),
    "solve_triangular unit": lambda a, b: L.solve_triangular(a / 9, b.mT, upper=True, left=False, unitriangular=True),
    "eigvalsh": lambda a, b: L.eigvalsh(a + a.mH), "eigvalsh upper": lambda a, b: L.eigvalsh(a + a.mH, UPLO="U"),
    "eigh": lambda a, b: [(v * w.unsqueeze(-2).to(v.dtype)) @ v.mH for w, v in [L.eigh(a + a.mH)]],
    "pinv hermitian": lambda a, b: L.pinv(a + a.mH, hermitian=True), "matrix_exp": lambda a, b: L.matrix_exp(a / 4),
    "matrix_power": lambda a, b: L.matrix_power(a, -2), "multi_dot": lambda a, b: L.inv(a) @ a @ b,
}  # fmt: skip
ANY = {
    "qr": lambda a: [q @ r for q, r in [L.qr(a)]], "qr r": lambda a: L.qr(a, mode="r")[1].abs().detach(),
    "qr complete": lambda a: [x.detach().abs() for x in L.qr(a, mode="complete")][1],
    "svd": lambda a: [(u * s.unsqueeze(-2).to(u.dtype)) @ v for u, s, v in [L.svd(a, full_matrices=False)]],
    "svd full": lambda a: [x.detach() for u, s, v in [L.svd(a)] for x in (u @ u.mH, v @ v.mH, s)],
    "svdvals": lambda a: L.svdvals(a), "pinv": lambda a: L.pinv(a), "cond": lambda a: L.cond(a),
    "nuclear": lambda a: L.matrix_norm(a, "nuc"), "spectral": lambda a: L.matrix_norm(a, 2),
    "rank": lambda a: L.matrix_rank(a), "lu_factor": lambda a: list(L.lu_factor(a)),
    "lstsq": lambda a: L.lstsq(a, a[..., :1] * 2 + 1, driver="gels")[0],
    "householder": lambda a: L.householder_product(*cygrad.geqrf(a.detach())) if a.shape[-2] >= a.shape[-1] else a,
}  # fmt: skip


def outcome(call, inputs, device):
    inputs = [x.to(device).requires_grad_() for x in inputs]
    results = call(*inputs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    assert all(r.device.type == device for r in results)
    wanted = [r for r in results if r.requires_grad]
    if not wanted:
        return results
    total = sum((r.abs() * r.abs()).sum() for r in wanted)
    return [*results, *[g for g in cygrad.autograd.grad(total, inputs, allow_unused=True) if g is not None]]


def compare(call, *inputs):
    near, far = outcome(call, inputs, "cpu"), outcome(call, inputs, "cuda")
    assert len(near) == len(far)
    for a, b in zip(near, far, strict=True):
        assert a.dtype is b.dtype
        cygrad.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(name, complex):
    compare(SQUARE[name], matrices(2, 4, 4, complex=complex), matrices(2, 4, 3, complex=complex, seed=1))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (1, 1), (2, 3, 9, 7)])
@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("name", ANY)
def test_matrices_of_any_shape(name, complex, shape):
    compare(ANY[name], matrices(*shape, complex=complex))


def test_larger_ones_and_float32():
    halved, rotated = matrices(70, 70).float(), matrices(34, 34).float()     # rotations are many launches
    for a, call in ((halved, L.inv), (halved, lambda x: L.cholesky(positive(x))), (halved, L.slogdet),
                    (rotated, L.svdvals), (rotated, lambda x: L.eigvalsh(x + x.mT))):  # fmt: skip
        near, far = call(a), call(a.cuda())
        for x, y in zip(*([r] if isinstance(r, cygrad.Tensor) else r for r in (near, far)), strict=True):
            cygrad.testing.assert_close(y.cpu(), x, rtol=2e-3, atol=2e-4)


def test_matrices_without_elements_and_of_deficient_rank():
    for shape in ((0, 3), (3, 0), (2, 0, 0), (0, 3, 3)):
        x = cygrad.zeros(shape, dtype=cygrad.float64)
        for call in (L.svd, L.qr, L.svdvals, *((L.inv, L.det, L.eigh, L.cholesky) if shape[-1] == shape[-2] else ())):
            near, far = call(x), call(x.cuda())
            for a, b in zip(*([r] if isinstance(r, cygrad.Tensor) else r for r in (near, far)), strict=True):
                assert a.shape == b.shape and b.is_cuda and a.tolist() == b.tolist()
    a = cygrad.outer(cygrad.arange(1.0, 6).double(), cygrad.arange(4.0).double()).cuda()
    u, s, vh = L.svd(a)
    cygrad.testing.assert_close((u[:, :4] * s) @ vh, a, rtol=1e-12, atol=1e-12)
    cygrad.testing.assert_close(u.mT @ u, cygrad.eye(5, dtype=a.dtype, device="cuda"), rtol=0, atol=1e-12)
    assert int(L.matrix_rank(a)) == 1


def test_failures_are_those_of_the_cpu():
    singular, indefinite = cygrad.ones(2, 2, 2).double(), cygrad.tensor([[1.0, 2], [2, 1]])
    for x in (singular, singular.cuda()):
        with pytest.raises(L.LinAlgError, match=r"Batch element 0.*diagonal element 2 is zero"):
            L.inv(x)
        assert L.inv_ex(x)[1].tolist() == [2, 2] and L.det(x).tolist() == [0, 0]
    for x in (indefinite, indefinite.cuda()):
        with pytest.raises(L.LinAlgError, match="minor of order 2 is not positive-definite"):
            L.cholesky(x)
    with pytest.raises(L.LinAlgError, match=r"non-finite|infinit|NaN|inf"):
        L.svd(cygrad.tensor([[float("inf")]], device="cuda"))
    with pytest.raises(RuntimeError, match="`driver` should be `gels` on CUDA"):
        L.lstsq(indefinite.cuda(), indefinite.cuda(), driver="gelsd")
    with pytest.raises(RuntimeError, match="smaller or equal to LU"):
        L.lu_solve(indefinite.cuda(), cygrad.tensor([1, 3], dtype=cygrad.int32, device="cuda"), indefinite.cuda())


def test_vmap_and_second_derivatives():
    a = positive(matrices(3, 4, 4)).cuda()
    cygrad.testing.assert_close(cygrad.vmap(L.inv)(a), L.inv(a))
    x = a[0].clone().requires_grad_()
    (g,) = cygrad.autograd.grad(L.slogdet(x)[1], x, create_graph=True)
    (h,) = cygrad.autograd.grad(g.square().sum(), x)
    y = a[0].cpu().requires_grad_()
    (g,) = cygrad.autograd.grad(L.slogdet(y)[1], y, create_graph=True)
    (k,) = cygrad.autograd.grad(g.square().sum(), y)
    cygrad.testing.assert_close(h.cpu(), k, rtol=1e-8, atol=1e-10)


ABSENT = {
    "eig": lambda a: L.eig(a), "eigvals": lambda a: L.eigvals(a), "ldl_factor": lambda a: L.ldl_factor(a),
    "ldl_solve": lambda a: L.ldl_solve(a, cygrad.tensor([1, 2, 3], dtype=cygrad.int32, device="cuda"), a),
}  # fmt: skip


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_not_there_says_so_and_is_named_on_the_page(name):
    words = rf"linalg\.{name}\b.* not implemented for tensors on cuda:0.*\.cpu\(\)"
    with pytest.raises(NotImplementedError, match=words):
        ABSENT[name](cygrad.eye(3, device="cuda"))
    page = (Path(__file__).parents[2] / "docs/cuda.md").read_text()
    assert f"`{name}`" in next(line for line in page.splitlines() if line.startswith("| linear algebra"))


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("size", [1e-30, 1e-24, 1e25, 1e37])
def test_factors_of_small_and_large_numbers(size, complex):
    a = (matrices(2, 5, 3, complex=complex) / 4).to(cygrad.complex64 if complex else cygrad.float32)
    for scale in (cygrad.tensor(size), cygrad.tensor([1, size, size**0.5])):
        far = (a * scale).cuda()
        q, r = L.qr(far)
        cygrad.testing.assert_close((q @ (r / scale.cuda())).cpu(), a, rtol=1e-5, atol=1e-6)
        cygrad.testing.assert_close((q.mH @ q).cpu(), cygrad.eye(3, dtype=a.dtype).expand(2, 3, 3), rtol=0, atol=1e-6)
        near = L.qr(a * scale)[1]
        cygrad.testing.assert_close((r / scale.cuda()).cpu(), near / scale, rtol=1e-4, atol=1e-5)
    x = L.lstsq((a * size).cuda(), (a[..., :1] * size).cuda()).solution
    cygrad.testing.assert_close(x.cpu(), cygrad.eye(3, 1, dtype=a.dtype).expand(2, 3, 1), rtol=0, atol=1e-5)
