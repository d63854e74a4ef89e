"""saved_tensors tells what a graph keeps for backward: by node, with storages counted once."""

import gc
import weakref

import pytest

import cygrad as torch
from cygrad import nn
from cygrad.autograd import trace_lines
from cygrad.autograd.graph import save_on_cpu, saved_tensors, saved_tensors_hooks


def leaf(n=4):
    return torch.arange(1.0, n + 1).requires_grad_()


def found(kept):
    return [(e.node, e.name, e.nbytes, e.counted, e.owner) for e in kept]


def test_by_node_newest_first():
    x, w = torch.ones(4), leaf()
    loss = (x * w).exp().sum()
    kept = saved_tensors(loss)
    assert found(kept) == [("ExpBackward0", "result", 16, True, None), ("MulBackward0", "self", 16, True, None)]
    assert (kept.total, kept.leaves, kept.extra, kept.unknown) == (32, 0, 32, 0)
    assert list(kept.by_node().values()) == [16, 16]
    assert kept[0].shape == (4,)
    assert kept[0].dtype == torch.float32


def test_shared_storages_are_counted_once():
    w = leaf()
    y = w.exp()
    loss = (y * y).sum() + (y * y[:2].sum()).sum()
    kept = saved_tensors(loss)
    assert sum(e.name in ("self", "other", "result") and e.nbytes == 16 for e in kept) == 4
    of_y = [e for e in kept if e.storage_nbytes == 16]
    assert sum(e.counted for e in of_y) == 1
    assert kept.total == 16 + 4, "y, and the sum of its half"


def test_a_view_keeps_all_of_its_storage():
    w = leaf(1000)
    part = w.neg()[:2]
    kept = saved_tensors(part.square().sum())
    (entry,) = (e for e in kept if e.shape == (2,))
    assert (entry.nbytes, entry.storage_nbytes) == (8, 4000)
    assert kept.total == 4000
    assert "of a storage of 4,000" in str(kept)


def test_parameters_are_no_extra_memory():
    model = nn.Sequential(nn.Linear(3, 2), nn.Sigmoid(), nn.Linear(2, 1))
    kept = saved_tensors(model(torch.ones(5, 3)).sum(), model.named_parameters())
    owners = {e.owner for e in kept}
    assert "2.weight" in owners
    assert kept.leaves == 8, "the last weight; the gradient of the first needs its input only"
    assert kept.extra == kept.total - 8
    assert "2.weight" in str(kept)
    unnamed = saved_tensors(model(torch.ones(5, 3)).sum())
    assert {e.owner for e in unnamed} == {None, "a leaf"}


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        ctx.table = torch.ones(10)
        ctx.number = 3
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g


def test_custom_functions_and_what_they_put_on_ctx():
    kept = saved_tensors(Square.apply(leaf()).sum())
    assert found(kept) == [("SquareBackward", "0", 16, True, "a leaf"), ("SquareBackward", "ctx.table", 40, True, None)]


def test_indices_and_writes_through_views():
    x = leaf() * 1
    index = torch.tensor([0, 2])
    kept = saved_tensors(x[index].sum())
    assert any(e.node == "IndexBackward0" and e.nbytes == 16 and e.dtype == torch.int64 for e in kept)
    y = leaf() * 1
    y[:2].mul_(torch.ones(2))
    kept = saved_tensors(y.sum())
    assert any(e.node == "CopySlices" and e.name.startswith("MulBackward0.") and e.nbytes == 8 for e in kept)


def test_packed_values():
    w = leaf()
    with save_on_cpu():
        loss = w.exp().sum()
    (entry,) = saved_tensors(loss)
    assert entry.packed
    assert "packed" in str(saved_tensors(loss))
    with saved_tensors_hooks(lambda t: [t.half(), "name"], lambda p: p[0].float()):
        loss = w.exp().sum()
    (entry,) = saved_tensors(loss)
    assert (entry.packed, entry.shape, entry.nbytes) == (True, None, 8)
    with saved_tensors_hooks(lambda t: 7, lambda p: w.detach()):
        loss = w.exp().sum()
    kept = saved_tensors(loss)
    assert (kept.unknown, kept.total) == (1, 0)
    assert "1 packed values of unknown size" in str(kept)


def test_after_backward_nothing_is_kept():
    loss = leaf().exp().sum()
    loss.backward()
    assert len(saved_tensors(loss)) == 0
    assert saved_tensors(loss).total == 0


def test_it_keeps_nothing_alive_itself():
    w = leaf()
    y = w.exp()
    loss = y.sum()
    memory = weakref.ref(y.untyped_storage()) if hasattr(y, "untyped_storage") else None
    kept = saved_tensors(loss)
    del y, loss
    gc.collect()
    assert memory is None or memory() is None
    assert kept.total == 16


def test_lines():
    with trace_lines():
        loss = leaf().exp().sum()  # here
    (entry,) = saved_tensors(loss)
    assert entry.line.endswith("loss = leaf().exp().sum()  # here")
    assert "# here" in str(saved_tensors(loss))


def test_several_roots_and_a_long_chain():
    x = leaf()
    y = x
    for _ in range(20_000):
        y = y * 2
    kept = saved_tensors([y, x.exp()])
    assert len(kept) == 20_001, "the number of each product, and the exponential"
    assert kept.total == 20_000 * 4 + 16


def test_what_is_no_graph():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        saved_tensors(torch.ones(1))
    with pytest.raises(TypeError, match=r"outputs\[0\] must be a Tensor"):
        saved_tensors([1])
    assert len(saved_tensors(leaf())) == 0
