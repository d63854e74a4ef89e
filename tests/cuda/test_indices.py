"""What may index a tensor on a device: lists, NumPy arrays, masks, tensors of the CPU; reading and writing."""

import numpy as np
import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")


def whole():
    return cygrad.arange(24.0).reshape(4, 6)


KEYS = [
    [0, 2], np.array([1, 3]), cygrad.tensor([1, -1]), whole() > 5, [True, False, True, False], True, False,
    (slice(None), [1, 2]), ([0, 1], [2, 3]), (cygrad.tensor(1), slice(None)), np.array([True, False, True, True]),
    (Ellipsis, cygrad.tensor([0, 1])), (None, [0, 1]), cygrad.tensor([[0, 1], [2, 3]], dtype=cygrad.int32),
    cygrad.tensor([], dtype=cygrad.int64), (1, cygrad.tensor([True] * 6)), (cygrad.tensor([0]), True),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_an_index_from_elsewhere_is_brought_there(key, last_device):
    near, far = whole(), whole().to(last_device)
    assert far[key].device == far.device and far[key].tolist() == near[key].tolist()
    for value in (5, 2.5, cygrad.tensor(3.0), cygrad.tensor(3.0, device=last_device)):
        a, b = near.clone(), far.clone()
        a[key] = value.cpu() if isinstance(value, cygrad.Tensor) else value
        b[key] = value
        assert b.tolist() == a.tolist()
    a, b = near.clone().requires_grad_(), far.clone().requires_grad_()
    for x in (a, b):
        (x[key] * 2).sum().backward()
    assert b.grad.tolist() == a.grad.tolist()


def test_functions_that_take_indices():
    near, far = whole(), whole().cuda()
    index, value = (cygrad.tensor([0, 1, 1]), cygrad.tensor(2)), cygrad.tensor(9.0)
    for accumulate in (False, True):
        expected = near.index_put(index, value, accumulate=accumulate).tolist()
        assert far.index_put(index, value, accumulate=accumulate).tolist() == expected
        assert far.clone().index_put_(index, value.cuda(), accumulate=accumulate).tolist() == expected
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        far[cygrad.tensor([4])]


@pytest.mark.usefixtures("two_devices")
def test_an_index_of_a_device_is_refused_elsewhere():
    near, far = whole(), whole().cuda()
    for x, key in ((near, far > 3), (near, cygrad.tensor([0], device="cuda")), (far.to("cuda:1"), far > 3),
                   (near, (cygrad.tensor([0], device="cuda"), 0))):  # fmt: skip
        words = rf"indices should be either on cpu or on the same device as the indexed tensor \({x.device}\)"
        with pytest.raises(RuntimeError, match=words):
            x[key]
        with pytest.raises(RuntimeError, match=words):
            x[key] = 1
    assert near[cygrad.tensor(1, device="cuda")].tolist() == near[1].tolist()       # a number is read
    with pytest.raises(RuntimeError, match="two devices"):
        far[[0, 1]] = cygrad.ones(2, 6)
    assert near.tolist() == far.tolist() == whole().tolist()


def test_the_default_device_changes_no_index():
    with cygrad.device("cuda"):
        x = whole().cpu()
        x[[0]], x[np.array([1])], x[True] = 1, 2, 3
        assert x.is_cpu and x[[0]].is_cpu and x[np.array([True] * 4)].is_cpu and x.tolist() == [[3.0] * 6] * 4
        x.index_fill_(0, cygrad.tensor([0], device="cpu"), 7)
        assert x[0].tolist() == [7.0] * 6
        assert all(cygrad.as_tensor(v).is_cuda for v in (np.ones(2), [1.0], x))


def test_vmap_indexes_there():
    far = whole().cuda()
    pick = cygrad.vmap(lambda row, i: row[i])
    assert pick(far, cygrad.tensor([0, 1, 2, 3])).tolist() == [0, 7, 14, 21]
    assert cygrad.vmap(lambda row: row[[1, 0]])(far).tolist() == whole()[:, [1, 0]].tolist()


@pytest.mark.usefixtures("two_devices")
def test_a_tensor_taken_as_one_stays_where_it_is():
    far = whole().to("cuda:1")
    assert cygrad.as_tensor(far) is far
    assert cygrad.as_tensor(far, dtype=cygrad.int64).device == cygrad.device("cuda:1")
    with cygrad.device("cuda:0"):
        assert cygrad.as_tensor(whole()).device == cygrad.device("cuda:0")
        assert cygrad.as_tensor(far, dtype=cygrad.int64).device == cygrad.device("cuda:0")


def test_one_index_a_line_reaches_no_place_twice():
    index = cygrad.tensor([[3], [0], [3], [5]])
    near, far = whole(), whole().cuda()
    for x in (near, far):
        i = index.to(x.device)
        x.scatter_add_(1, i, cygrad.full((4, 1), 100.0, device=x.device)).scatter_(1, i.flip(0), -1.0)
        x.scatter_reduce_(1, i, cygrad.full((4, 1), 3.0, device=x.device), "prod", include_self=False)
    assert far.tolist() == near.tolist()
    scores = [cygrad.zeros(4, 6, device=d).requires_grad_() for d in ("cpu", "cuda")]
    for s in scores:
        cygrad.nn.functional.cross_entropy(s, cygrad.tensor([5, 0, -100, 2], device=s.device)).backward()
    cygrad.testing.assert_close(scores[1].grad.cpu(), scores[0].grad)
