"""Writing through indices of which many are equal: blocks of them are joined first, the same in every run."""

import numpy as np
import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")


def indices(counts, seed=0):
    """Place k as often as counts[k], in no order."""
    return cygrad.tensor(np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts)))


COUNTS = [[64], [65], [63, 65, 64], [1, 200, 1, 0, 127, 3], [30, 128, 34, 4096, 70], [5, 9000, 1, 1, 4200], [100] * 20]
JOINS = {
    "index_add": lambda x, i, v: x.index_add_(0, i, v),
    "prod": lambda x, i, v: x.index_reduce_(0, i, v, "prod"),
    "amin": lambda x, i, v: x.index_reduce_(0, i, v, "amin", include_self=False),
    "mean": lambda x, i, v: x.index_reduce_(0, i, v, "mean"),
    "scatter": lambda x, i, v: x.scatter_add_(0, i[:, None].expand(*v.shape), v),
    "scatter along rows": lambda x, i, v: x.t().scatter_add_(1, i.expand(v.shape[1], -1), v.t()),
    "copy": lambda x, i, v: x.index_copy_(0, i, v),
    "put": lambda x, i, v: x.index_put_((i,), v, accumulate=True),
    "write": lambda x, i, v: x.index_put_((i,), v),
    "one number": lambda x, i, v: x.index_put_((i,), v[0, 0], accumulate=True),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("counts", COUNTS, ids=range(len(COUNTS)))
def test_runs_of_equal_indices(name, counts):
    i, r = indices(counts), np.random.default_rng(1)
    wide = cygrad.tensor(r.integers(-9, 9, (len(i), 3)))
    if name == "prod":                               # of -1 and 1, which are exact
        wide = wide.sign() + (wide == 0)
    near = cygrad.arange(3.0 * len(counts), dtype=cygrad.float64).reshape(-1, 3)
    others = [wide > 0] if name in ("copy", "write") else [wide.to(cygrad.complex128)]
    for v in (wide.double(), wide, wide.float(), wide.half(), *others):
        if name in ("amin", "mean") and v.is_complex():
            continue
        a, b = near.to(v.dtype), near.to(v.dtype).cuda()
        JOINS[name](a, i, v)
        JOINS[name](b, i.cuda(), v.cuda())
        if v.dtype == cygrad.float16 or name == "mean":
            rough = 2e-2 if v.dtype == cygrad.float16 else 1e-6
            np.testing.assert_allclose(b.cpu().double().numpy(), a.double().numpy(), rtol=rough)
        else:
            assert b.tolist() == a.tolist()


def test_many_equal_ones_are_no_thread_s_work_alone():
    """In float32 a thread that adds ones to 2**24 stays there; blocks of them come to 64 each first."""
    x = cygrad.full((3,), 2.0**24, device="cuda")
    x.index_add_(0, cygrad.tensor([1] * 9000, device="cuda"), cygrad.ones(9000, device="cuda"))
    assert x.tolist()[::2] == [2.0**24] * 2
    assert 2.0**24 + 9000 - 130 <= x[1].item() <= 2.0**24 + 9000


def test_up_to_64_equal_ones_are_added_as_on_the_cpu():
    r = np.random.default_rng(2)
    i = indices(r.integers(0, 65, 300))
    v = cygrad.tensor(r.normal(size=(len(i), 2)), dtype=cygrad.float32)
    near, far = cygrad.zeros(300, 2), cygrad.zeros(300, 2, device="cuda")
    assert far.index_add_(0, i.cuda(), v.cuda()).tolist() == near.index_add_(0, i, v).tolist()


def test_the_same_in_every_run():
    i = indices([700, 3, 20000, 64, 65, 5000]).cuda()
    v = cygrad.tensor(np.random.default_rng(3).normal(size=(len(i), 2)), dtype=cygrad.float32).cuda()
    first = cygrad.zeros(6, 2, device="cuda").index_add_(0, i, v).tolist()
    assert all(cygrad.zeros(6, 2, device="cuda").index_add_(0, i, v).tolist() == first for _ in range(3))
    exact = np.zeros((6, 2))
    np.add.at(exact, i.cpu().numpy(), v.cpu().numpy().astype("float64"))
    np.testing.assert_allclose(first, exact, rtol=1e-4, atol=1e-3)
