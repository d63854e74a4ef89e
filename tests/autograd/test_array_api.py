"""The array API namespace as its users see it; the standard's own suite is run by ``nox -s array_api``."""
import os
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def xp(backend):
    if backend != "cygrad":
        pytest.skip("the namespace is cygrad's")
    import cygrad.array_api

    return cygrad.array_api


def test_tensors_name_their_namespace(torch, xp):
    """The protocol by which libraries find it."""
    assert torch.ones(2).__array_namespace__() is xp is xp.ones(2).__array_namespace__(api_version="2024.12")
    with pytest.raises(ValueError, match=r"2019\.12"):
        torch.ones(2).__array_namespace__(api_version="2019.12")
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] is torch.int64 and info.devices() == [torch.device("cpu")]
    assert "float64" in info.dtypes(kind="real floating") and info.capabilities()["boolean indexing"]


def test_tensors_stay_tensors_and_arrays_arrays(torch, xp):
    """Functions give what they are given; what is made from nothing is an Array."""
    t, x = torch.arange(3.0), xp.arange(3.0)
    assert type(xp.exp(t)) is torch.Tensor and type(xp.exp(x)) is xp.Array is type(xp.zeros((2, 2)))
    assert type(t + x) is type(x + t) is type(x[0]) is type(-x) is type(2 * x) is xp.Array
    assert xp.asarray(t).data_ptr() == t.data_ptr() and type(xp.asarray(t)) is xp.Array
    assert isinstance(x, torch.Tensor) and x.size == 3 and x.size() == (3,)


def test_promotion_ignores_dimensions(torch, xp):
    """Where PyTorch lets an operand without dimensions give way."""
    x, y = xp.ones(3, dtype=xp.float32), xp.asarray(2.0, dtype=xp.float64)
    for found in (x + y, y - x, xp.multiply(x, y), x ** y):
        assert found.dtype is xp.float64
    assert (x + 1.5).dtype is xp.float32 and (xp.ones(3, dtype=xp.int32) + 1).dtype is xp.int32
    assert (x < 2.0).dtype is xp.bool and xp.result_type(x, y, 3) is xp.float64
    assert torch.add(torch.ones(3), torch.tensor(2.0, dtype=torch.float64)).dtype is torch.float32


def test_gradients_pass(torch, xp):
    """An Array has a history like any Tensor."""
    leaf = torch.arange(1.0, 4.0, requires_grad=True)
    x = xp.asarray(leaf)
    xp.sum(xp.exp(x) * x + xp.mean(x, axis=0)).backward()
    e = torch.arange(1.0, 4.0).exp()
    assert torch.allclose(leaf.grad, e * torch.arange(1.0, 4.0) + e + 1)


def test_backward_slices(torch, xp):
    """Reading and writing in the other direction."""
    if not hasattr(torch.Tensor, "flip"):
        pytest.skip("no flip yet")
    a = np.arange(12.0).reshape(3, 4)
    for key in (slice(None, None, -1), (..., slice(None, None, -2)), (1, slice(3, 0, -1)), (None, slice(2, 0, -1), 1),
                (slice(None, None, -1), slice(1, 1, -1)), slice(5, None, -2)):
        x = xp.asarray(a.copy())
        assert x[key].tolist() == a[key].tolist()
        b = a.copy()
        b[key] = np.arange(b[key].shape[-1] if b[key].ndim else 1.0)[:None] * 1.5 if b[key].size else 0
        x[key] = xp.asarray(np.arange(a[key].shape[-1] if a[key].ndim else 1.0) * 1.5) if a[key].size else 0
        assert x.tolist() == b.tolist()


def test_statistics_differ_from_pytorchs(xp):
    """Divisors, dtypes of sums and results without pairs are the standard's."""
    x = xp.asarray([[1, 2], [3, 6]], dtype=xp.int32)
    assert xp.sum(x).dtype is xp.int64 and xp.sum(x, axis=0, keepdims=True).tolist() == [[4, 8]]
    y = xp.asarray([1.0, 3.0], dtype=xp.float64)
    assert float(xp.var(y)) == 1.0 and float(xp.std(y, correction=1)) == 2 ** 0.5
    assert xp.max(x, axis=(0, 1)).item() == 6 and xp.argmax(x, axis=1).tolist() == [1, 1]
    assert xp.cumulative_sum(x, axis=1, include_initial=True).tolist() == [[0, 1, 3], [0, 3, 9]]
    with pytest.raises(ValueError, match="axis"):
        xp.cumulative_sum(x)
    with pytest.raises(IndexError):
        xp.sum(x, axis=2)


def test_sets(torch, xp):
    """NaN differ from one another; first positions, inverses and counts."""
    if not hasattr(torch, "sort"):
        pytest.skip("no sort yet")
    x = xp.asarray([[3.0, 1.0], [float("nan"), 3.0], [float("nan"), 1.0]])
    found = xp.unique_all(x)
    assert found.values.tolist()[:2] == [1, 3]
    assert found.counts.tolist() == [2, 2, 1, 1] == xp.unique_counts(x).counts.tolist()
    assert found.indices.tolist() == [1, 0, 2, 4] and found.inverse_indices.tolist() == [[1, 0], [2, 1], [3, 0]]
    assert xp.isin(x, xp.asarray([1.0])).tolist() == [[False, True], [False, False], [False, True]]


def test_limits(xp):
    """finfo and iinfo agree with NumPy's."""
    for name in ("float32", "float64"):
        ours, theirs = xp.finfo(getattr(xp, name)), np.finfo(name)
        assert (ours.bits, ours.eps, ours.max, ours.min, ours.smallest_normal) == (
            theirs.bits, theirs.eps, theirs.max, theirs.min, theirs.smallest_normal)
    for name in ("uint8", "int32", "int64"):
        ours, theirs = xp.iinfo(getattr(xp, name)), np.iinfo(name)
        assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)
    assert xp.isdtype(xp.float32, ("integral", "real floating")) and not xp.isdtype(xp.bool, "numeric")
    assert xp.can_cast(xp.int32, xp.float32) is False or xp.can_cast(xp.uint8, xp.int32)
    with pytest.raises(TypeError):
        xp.iinfo(xp.float32)


PROGRAM = """
import numpy as np
import cygrad as torch
from sklearn import config_context
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

data, target = load_iris(return_X_y=True)
X, y = torch.tensor(data), torch.tensor(target)

def close(name, found, wanted):
    assert isinstance(found, torch.Tensor), (name, type(found))
    assert np.allclose(found.numpy(), wanted, atol=1e-6), name
    print(name, "agrees")

steps = [StandardScaler, MinMaxScaler, MaxAbsScaler, lambda: PCA(n_components=2, svd_solver="full"),
         LinearDiscriminantAnalysis, lambda: Ridge(solver="svd")]
for make in steps:
    model = make()
    supervised = not hasattr(model, "fit_transform") or "Discriminant" in type(model).__name__
    method = "predict" if hasattr(model, "predict") else "transform"
    wanted = getattr(make().fit(data, target.astype(float) if "Ridge" in repr(model) else target), method)(data)
    with config_context(array_api_dispatch=True):
        found = getattr(model.fit(X, y.to(X.dtype) if "Ridge" in repr(model) else y), method)(X)
    close(type(model).__name__, found, wanted)
with config_context(array_api_dispatch=True):
    assert accuracy_score(y, y) == 1.0 and abs(mean_squared_error(X[:, 0], X[:, 0] + 1) - 1) < 1e-12
print("metrics agree")
"""


def test_scikit_learn_takes_tensors(tmp_path, torch, xp):
    """Estimators and metrics under array API dispatch give tensors that agree with NumPy's results."""
    pytest.importorskip("sklearn")
    if not hasattr(torch.linalg, "svd"):
        pytest.skip("no svd yet")
    lines = run_with_scipy(tmp_path, PROGRAM)
    assert lines == ["StandardScaler agrees", "MinMaxScaler agrees", "MaxAbsScaler agrees", "PCA agrees",
                     "LinearDiscriminantAnalysis agrees", "Ridge agrees", "metrics agree"]


CHECKS = """
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import KernelCenterer, Normalizer, PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import check_array_api_input

for model in (PCA(n_components=2, svd_solver="randomized"), LinearDiscriminantAnalysis(), LogisticRegression(),
              Ridge(solver="svd"), RidgeCV(), GaussianMixture(init_params="random"), GaussianNB(), KernelCenterer(),
              Normalizer(), PolynomialFeatures(), StandardScaler()):
    check_array_api_input(type(model).__name__, model, array_namespace="cygrad.array_api", dtype_name="float32")
    print(type(model).__name__)
"""


def test_scikit_learns_own_checks(tmp_path, torch, xp):
    """What scikit-learn asks of every array library, for the estimators that take any."""
    pytest.importorskip("sklearn")
    if not hasattr(torch.linalg, "svd"):
        pytest.skip("no svd yet")
    assert len(run_with_scipy(tmp_path, CHECKS)) == 11


SCIPY_PROGRAM = """
import numpy as np
import cygrad as torch
from scipy import special, stats
from scipy.cluster import vq

a = np.linspace(0.1, 2.0, 24).reshape(4, 6)
t = torch.tensor(a)
for name, f in (("expit", special.expit), ("logsumexp", lambda x: special.logsumexp(x, axis=1)),
                ("gmean", lambda x: stats.gmean(x, axis=0)), ("skew", lambda x: stats.skew(x, axis=1)),
                ("kurtosis", lambda x: stats.kurtosis(x, axis=1)), ("whiten", vq.whiten),
                ("variation", lambda x: stats.variation(x, axis=1)), ("zscore", lambda x: stats.zscore(x, axis=1))):
    found = f(t)
    assert isinstance(found, torch.Tensor), (name, type(found))
    assert np.allclose(found.numpy(), f(a)), name
    print(name, "agrees")
"""


def test_scipy_takes_tensors(tmp_path, torch, xp):
    """SciPy's functions that take any array give tensors that agree with NumPy's results."""
    pytest.importorskip("scipy")
    if not hasattr(torch, "sgn"):
        pytest.skip("no sgn yet")
    lines = run_with_scipy(tmp_path, SCIPY_PROGRAM)
    assert len(lines) == 8 and all(line.endswith("agrees") for line in lines)


@pytest.mark.parametrize(("call", "words"), [
    (lambda xp, t: xp.abs(None), ("abs", "'x'", "NoneType")),
    (lambda xp, t: xp.sum([1.0]), ("sum", "'x'", "list")),
    (lambda xp, t: xp.linalg.det(3), ("det", "'x'", "int")),
    (lambda xp, t: xp.add("a", t), ("add", "'x1'", "str")),
    (lambda xp, t: xp.add(1, 2), ("add", "operands", "1 and 2")),
    (lambda xp, t: xp.sum(t, dtype=float), ("sum", "'dtype'", "float")),
    (lambda xp, t: xp.prod(t, dtype="f8"), ("prod", "'dtype'", "f8")),
    (lambda xp, t: xp.isdtype(3, "bool"), ("isdtype", "dtype", "3")),
    (lambda xp, t: xp.sum(t, axes=1), ("sum", "axes")),
    (lambda xp, t: xp.broadcast_arrays(t, None), ("broadcast_arrays", "1", "NoneType")),
    (lambda xp, t: xp.meshgrid([]), ("meshgrid", "0", "list")),
    (lambda xp, t: xp.concat([t, 1]), ("concat", "1", "int")),
    (lambda xp, t: xp.can_cast(None, xp.int8), ("can_cast", "dtype", "None")),
    (lambda xp, t: xp.can_cast(xp.int8, 1), ("can_cast", "dtype", "1")),
    (lambda xp, t: xp.astype(t, float), ("astype", "'dtype'", "float")),
])
def test_what_is_no_array_is_named(torch, xp, call, words):
    with pytest.raises(TypeError) as error:
        call(xp, torch.ones(2))
    assert all(word in str(error.value) for word in words), error.value


def run_with_scipy(tmp_path, program):
    """What a program prints in a fresh process in which SciPy takes any array."""
    script = tmp_path / "program.py"
    script.write_text(program)
    env = os.environ | {"SCIPY_ARRAY_API": "1", "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-W", "ignore", str(script)]
    child = subprocess.run(command, env=env, text=True, capture_output=True, timeout=300)
    assert child.returncode == 0, child.stderr[-3000:]
    return child.stdout.strip().splitlines()
