"""Who holds memory: snapshots by role, what a peak is made of, what is left between two points."""

import gc

import pytest

import cygrad
from cygrad import nn
from cygrad.tools import memory


@pytest.fixture(autouse=True)
def clean():
    gc.collect()


def of_role(found, role):
    return [m for m in found if m.role == role]


def test_roles():
    model = nn.Sequential(nn.Linear(100, 200), nn.BatchNorm1d(200))
    optimizer = cygrad.optim.Adam(model.parameters())
    model(cygrad.ones(7, 100)).sum().backward()
    optimizer.step()
    loss = model(cygrad.ones(9, 100)).exp().sum()
    found = memory.snapshot()
    names = {m.name: m for m in found}
    assert names["Sequential.0.weight"].role in ("parameter", "gradient")
    parameters = {m.name: m.nbytes for m in of_role(found, "parameter")}
    assert parameters["Sequential.0.weight"] == 4 * 100 * 200 and parameters["Sequential.1.bias"] == 4 * 200
    assert {m.name: m.nbytes for m in of_role(found, "gradient")}["Sequential.0.weight"] == 4 * 100 * 200
    assert {m.name for m in of_role(found, "buffer")} >= {"Sequential.1.running_mean", "Sequential.1.running_var"}
    state = of_role(found, "optimizer state")
    assert sorted(m.name for m in state if m.nbytes == 80_000) == ["Adam.exp_avg", "Adam.exp_avg_sq"]
    saved = of_role(found, "saved for backward")
    assert any(m.name.startswith("ExpBackward0") and m.nbytes == 4 * 9 * 200 for m in saved)
    del loss
    gone = memory.snapshot()
    assert sum(m.nbytes for m in of_role(gone, "saved for backward")) < sum(m.nbytes for m in saved)


def test_views_are_one_memory():
    x = cygrad.ones(1000)
    views = [x[::2], x.view(10, 100), x.detach()]
    mine, = [m for m in memory.snapshot() if m.nbytes == 4000 and "float32 [10, 100]" in m.tensors]
    assert set(mine.tensors) == {"float32 [1000]", "float32 [500]", "float32 [10, 100]"}
    assert len(views) == 3 and mine.role == "other"


def test_the_sums_add_up():
    kept = [cygrad.ones(100 + i) for i in range(30)]
    found = memory.snapshot()
    assert sum(found.by_role().values()) == found.total == sum(m.nbytes for m in found)
    assert [m.nbytes for m in found] == sorted((m.nbytes for m in found), reverse=True)
    text = str(found)
    assert f"in {len(found)} storages" in text and "the largest:" in text and "others" in text
    assert len(kept) == 30


def test_lines_of_the_program():
    with cygrad.autograd.trace_lines():
        y = cygrad.ones(12_345, requires_grad=True) * 2
    mine, = [m for m in memory.snapshot() if m.nbytes == 4 * 12_345 and m.line]
    assert "test_memory.py" in mine.line and "made in" in str(mine)
    assert y.shape == (12_345,)


def test_a_snapshot_keeps_nothing_alive():
    x = cygrad.ones(54_321)
    found = memory.snapshot()
    del x
    assert any(m.nbytes == 4 * 54_321 for m in found)
    assert not any(m.nbytes == 4 * 54_321 for m in memory.snapshot())


def test_peak():
    a = cygrad.ones(1000)

    def work():
        b = a * 2
        c = b.repeat(100)
        d = c.exp()
        total = (c + d).sum()
        del c, d
        return total.item()

    found = memory.peak(work)
    assert found.after == "sum" and found.peak_bytes >= 3 * 400_000
    assert sum(m.nbytes for m in found) <= found.peak_bytes
    assert len([m for m in found if m.nbytes == 400_000]) == 3
    assert "at most, after sum" in str(found)


def test_the_peak_of_training_is_told_by_role():
    model = nn.Sequential(nn.Linear(50, 500), nn.Tanh(), nn.Linear(500, 10))
    optimizer = cygrad.optim.Adam(model.parameters())
    x = cygrad.ones(200, 50)

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    step()
    roles = memory.peak(step).by_role()
    size = 4 * (50 * 500 + 500 + 500 * 10 + 10)
    assert roles["parameter"] == size and roles["optimizer state"] >= 2 * size
    assert roles["saved for backward"] >= 4 * 200 * 500


def test_peak_of_what_it_cannot_tell():
    with pytest.raises(RuntimeError, match="no operation"):
        memory.peak(lambda: None)
    calls = []

    def changing():
        calls.append(1)
        for _ in range(len(calls)):
            cygrad.ones(3).exp()

    with pytest.raises(RuntimeError, match="1 operations first and 2 then"):
        memory.peak(changing)
    with pytest.raises(ZeroDivisionError):
        memory.peak(lambda: 1 / 0)
    assert not cygrad.autograd._core._mode_bits(0x800, 0)


def test_watch_finds_what_is_left():
    kept = []
    with memory.watch() as watch:
        cygrad.ones(1000).exp()
        x = cygrad.ones(2000, requires_grad=True)
        kept.append((x * 2).sum())
        del x
    sizes = sorted(m.nbytes for m in watch.left)
    assert sizes[-1] == 8000 and 4000 not in sizes                # the leaf that the graph keeps
    assert "made and still there" in watch.report()
    with memory.watch() as watch:
        cycle = [cygrad.ones(777)]
        cycle.append(cycle)
        del cycle
    assert not watch.left and watch.report() == "nothing that was made is left"


def test_a_module_inside_itself():
    model = nn.Linear(3, 3)
    object.__setattr__(model, "itself", model)
    model._modules["again"] = model
    assert any(m.role == "parameter" for m in memory.snapshot())
    del model._modules["again"]
