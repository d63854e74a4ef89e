"""svd_lowrank, pca_lowrank and lobpcg; torch.range."""

import pytest

import cygrad
from cygrad.tools.gradcheck import gradcheck


def low_rank(*shape, rank=2, seed=0, dtype=None):
    generator = cygrad.Generator().manual_seed(seed)
    *batch, m, n = shape
    dtype = dtype or cygrad.float64
    left = cygrad.randn(*batch, m, rank, generator=generator, dtype=dtype)
    return left @ cygrad.randn(*batch, rank, n, generator=generator, dtype=dtype)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30), (2, 3, 9, 7), (5, 5)])
def test_a_matrix_of_low_rank_is_its_parts(shape):
    A = low_rank(*shape)
    U, S, V = cygrad.svd_lowrank(A, 4)
    assert (U.shape, S.shape, V.shape) == ((*shape[:-1], 4), (*shape[:-2], 4), (*shape[:-2], shape[-1], 4))
    assert cygrad.allclose((U * S.unsqueeze(-2)) @ V.mT, A)
    assert cygrad.allclose(S[..., :2], cygrad.linalg.svdvals(A)[..., :2])
    assert S[..., 2:].abs().max() < 1e-10
    shifted = cygrad.svd_lowrank(A + 3, 4, M=cygrad.full(shape[-1:], 3.0, dtype=A.dtype))[1]
    assert cygrad.allclose(shifted, S, atol=1e-8)


def test_the_same_numbers_as_pytorch():
    torch = pytest.importorskip("torch")
    values = cygrad.randn(20, 12, generator=cygrad.Generator().manual_seed(3), dtype=cygrad.float64).tolist()
    results = []
    for m in (cygrad, torch):
        m.manual_seed(0)
        A = m.tensor(values, dtype=m.float64)
        results.append([m.svd_lowrank(A, 5)[1].tolist(), m.pca_lowrank(A, 3, niter=1)[1].tolist(),
                        m.svd_lowrank(A, 5, niter=0)[1].tolist(), m.rand(2).tolist()])
    assert results[0] == [pytest.approx(r, rel=1e-10) for r in results[1]]


def test_principal_components():
    A = low_rank(40, 6) + 5
    U, S, V = cygrad.pca_lowrank(A, 3)
    assert cygrad.allclose(S[:2], cygrad.linalg.svdvals(A - A.mean(0))[:2])
    assert cygrad.allclose((U * S) @ V.mT, A - A.mean(0), atol=1e-8)
    assert cygrad.allclose(cygrad.pca_lowrank(A, 3, center=False)[1][:2], cygrad.linalg.svdvals(A)[:2])


def test_complex_and_gradients():
    A = (low_rank(6, 5, rank=1) + 1j * low_rank(6, 5, rank=1, seed=1)).requires_grad_()
    U, S, V = cygrad.svd_lowrank(A, 2)
    assert cygrad.allclose((U * S) @ V.mH, A)

    def values(A):
        cygrad.manual_seed(0)
        return cygrad.svd_lowrank(A, 2)[1]

    assert gradcheck(values, (low_rank(6, 5, rank=2).requires_grad_(),), atol=1e-4)


@pytest.mark.parametrize("f, error", [
    (lambda A: cygrad.pca_lowrank(A, 9), ValueError), (lambda A: cygrad.pca_lowrank(A, 2, niter=-1), ValueError),
    (lambda A: cygrad.svd_lowrank(A[0]), ValueError), (lambda A: cygrad.svd_lowrank(A.int()), RuntimeError),
    (lambda A: cygrad.svd_lowrank(A, -1), RuntimeError), (lambda A: cygrad.svd_lowrank(A, 2.5), TypeError),
    (lambda A: cygrad.svd_lowrank(3), TypeError), (lambda A: cygrad.lobpcg(A), AssertionError),
    (lambda A: cygrad.lobpcg(A.mT @ A, k=3), ValueError), (lambda A: cygrad.lobpcg(A.mT @ A, k=0), ValueError),
    (lambda A: cygrad.lobpcg((A.mT @ A).int()), RuntimeError),
    (lambda A: cygrad.lobpcg(A.mT @ A, X=A[:3, :1]), AssertionError),
    (lambda A: cygrad.lobpcg(A.mT @ A, method="x"), ValueError),
])
def test_bad_arguments(f, error):
    with pytest.raises(error):
        f(low_rank(5, 4, rank=4))


# ---- lobpcg

def spread_matrix(m, seed=0, dtype=None):
    """A symmetric matrix with eigenvalues 1, 4, 9, ..."""
    Q = cygrad.linalg.qr(low_rank(m, m, rank=m, seed=seed))[0]
    A = (Q * cygrad.arange(1, m + 1, dtype=Q.dtype) ** 2) @ Q.mT
    return A.to(dtype) if dtype else A


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", [None, "basic", "ortho"])
@pytest.mark.parametrize("largest", [True, False])
def test_extreme_pairs(largest, method, dtype):
    A = spread_matrix(15, dtype=getattr(cygrad, dtype))
    E, X = cygrad.lobpcg(A, 3, largest=largest, method=method, niter=-1)
    values = cygrad.linalg.eigvalsh(A)
    wanted = values.flip(0)[:3] if largest else values[:3]
    assert cygrad.allclose(E, wanted, rtol=1e-3 if dtype == "float32" else 1e-8)
    assert (A @ X - X * E).abs().max() < (0.2 if dtype == "float32" else 1e-4)
    assert cygrad.allclose(X.mT @ X, cygrad.eye(3, dtype=A.dtype), atol=1e-4)


def test_generalised_preconditioned_batched_and_tracked():
    A = cygrad.stack([spread_matrix(12), spread_matrix(12, 1)])
    B = spread_matrix(12, 2) / 20 + cygrad.eye(12, dtype=A.dtype)
    B = cygrad.stack([B, 2 * B])
    steps = []
    E, X = cygrad.lobpcg(A, 2, B, iK=cygrad.linalg.inv(A), largest=False, tol=1e-12,
                         tracker=lambda s: steps.append((s.ivars["istep"], s.tvars["rerr"].max().item())))
    assert (E.shape, X.shape) == ((2, 2), (2, 12, 2))
    assert cygrad.allclose(A @ X, B @ X * E.unsqueeze(-2), atol=1e-6)
    assert len(steps) > 2
    assert steps[-1][1] < 1e-12
    again = cygrad.lobpcg(A, B=B, X=X, largest=False, niter=0)[0]
    assert cygrad.allclose(again, E)


def test_gradients_of_pairs():
    A = spread_matrix(9).requires_grad_()

    def f(A):
        E, X = cygrad.lobpcg((A + A.mT) / 2, 2, X=start)
        return E, X.abs()

    start = low_rank(9, 2)
    assert gradcheck(f, (A,))


# ---- range

def test_range_includes_its_end():
    torch = pytest.importorskip("torch")
    for arguments in ((0, 5), (1, 4, 0.5), (5, 0, -1), (0, 1, 0.1), (1, 1), (0.5, 3.7), (-3, 11, 2.5)):
        for dtype in ("float16", "float32", "float64", "int32", "int64", "uint8"):
            if (dtype == "uint8" and min(arguments[:2]) < 0) or ("int" in dtype and int((*arguments, 1)[2]) == 0):
                continue
            with pytest.warns(UserWarning, match="deprecated"):
                y = cygrad.range(*arguments, dtype=getattr(cygrad, dtype))
            with pytest.warns(UserWarning, match="deprecated"):
                want = torch.range(*arguments, dtype=getattr(torch, dtype))
            assert (y.tolist(), str(y.dtype)) == (want.tolist(), str(want.dtype))
    with pytest.warns(UserWarning):
        assert cygrad.range(0, 2).dtype is cygrad.float32
    for arguments, error in (((0, 5, 0), RuntimeError), ((5, 0), RuntimeError), ((0, float("inf")), RuntimeError),
                             ((5,), TypeError), (("a", 5), TypeError)):
        with pytest.raises(error):
            cygrad.range(*arguments)
    for dtype in (cygrad.bool, cygrad.complex64):
        with pytest.raises(NotImplementedError):
            cygrad.range(0, 5, dtype=dtype)
