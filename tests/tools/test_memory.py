"""Who holds memory: snapshots by role, what a peak is made of, what is left between two points."""

import gc
import sys

import numpy as np
import pytest

import cygrad
from cygrad.storage import memory_stats
from cygrad.storage.core import note_births, noted_births
from cygrad.tools import memory

nn = pytest.importorskip("cygrad.nn")


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
    assert sum(m.nbytes for m in found if not m.borrowed) <= found.peak_bytes     # others own what is borrowed
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


def test_what_is_passed_back_is_named_by_its_node():
    x = cygrad.ones(1000, requires_grad=True)
    y = x * cygrad.ones(1000)
    found = []
    y.register_hook(lambda g: found.append(memory.snapshot()))
    with memory.record():
        y.exp().sum().backward(); made = here()                                       # noqa: E702
    passed = [m for m in of_role(found[0], "passed back") if m.nbytes == 4000]
    assert [(m.name, line_number(m)) for m in passed] == [("ExpBackward0", made)]


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


def line_number(m):
    file, number = m.line.split(", ")[0].split(": ")[0].rsplit(":", 1)
    assert file.endswith("test_memory.py")
    return int(number)


def here():
    return sys._getframe(1).f_lineno


def test_every_storage_has_its_line_while_recording():
    with memory.record() as recorder:
        model = nn.Linear(101, 103); made = here()                                    # noqa: E702
        optimizer = cygrad.optim.Adam(model.parameters())
        x = cygrad.ones(7, 101); inputs = here()                                      # noqa: E702
        loss = model(x).exp().sum(); forward = here()                                 # noqa: E702
        saved = {m.nbytes: line_number(m) for m in of_role(memory.snapshot(), "saved for backward") if m.number}
        loss.backward(); backward = here()                                            # noqa: E702
        optimizer.step(); step = here()                                               # noqa: E702
        shared = cygrad.from_numpy(np.ones(107)); borrowed = here()                   # noqa: E702
        alias = shared.data
        bare = cygrad.UntypedStorage(109); alone = here()                             # noqa: E702
    mine = [m for m in memory.snapshot() if m.number is not None and m.number > recorder._since]
    lines = {(m.role, m.nbytes): line_number(m) for m in mine}
    assert lines["parameter", 4 * 101 * 103] == made and lines["gradient", 4 * 101 * 103] == backward
    assert saved[4 * 7 * 101] == inputs and saved[4 * 7 * 103] == forward
    assert lines["optimizer state", 4 * 101 * 103] == step
    numpys, = [m for m in mine if m.borrowed]
    assert numpys.nbytes == 8 * 107 and line_number(numpys) == borrowed and numpys.tensors == ("float64 [107]",)
    holds, = [m for m in mine if m.nbytes == 109]
    assert holds.tensors == () and line_number(holds) == alone and "no tensor" in str(holds)
    assert alias.shape == (107,) and len(bare) == 109
    sums = memory.Snapshot(mine).by_line()
    assert list(sums.values()) == sorted(sums.values(), reverse=True)
    assert sum(sums.values()) == sum(m.nbytes for m in mine)
    assert "by the line that made them:" in memory.Snapshot(mine).table()
    assert "Adam.step" in next(m.line for m in mine if m.role == "optimizer state")


def test_what_is_made_after_recording_has_no_line_and_what_dies_is_forgotten():
    before = len(noted_births())
    with memory.record():
        with memory.record():
            x = cygrad.ones(11_111)
        y = cygrad.ones(11_113)
    z = cygrad.ones(11_117)
    known = {m.nbytes: m.line is not None for m in memory.snapshot()}
    assert known[4 * 11_111] and known[4 * 11_113] and not known[4 * 11_117]
    assert len(noted_births()) == before + 2
    del x, y, z
    assert len(noted_births()) == before
    again = [cygrad.ones(11_111) for _ in range(100)]                 # at the same addresses
    assert all(m.line is None for m in memory.snapshot() if m.nbytes == 4 * 11_111) and len(again) == 100


def test_storages_that_exchange_their_memory_are_forgotten_too():
    """share_memory_() exchanges a tensor's memory with that of a storage, which dies with the old one."""
    before = len(noted_births())
    y = cygrad.ones(1234)
    with memory.record():
        x = cygrad.ones(1234)
        y.share_memory_()
    x.share_memory_()
    assert len(noted_births()) == before + 1
    del x
    assert len(noted_births()) == before
    many = [cygrad.ones(10) for _ in range(50)]
    assert len({t.data_ptr() for t in many}) == 50


def test_recording_changes_no_storage():
    with memory.record():
        s = cygrad.UntypedStorage(0)
        assert s.resize_(100).nbytes() == 100 and s.resize_(10).resize_(100).nbytes() == 100
        with pytest.raises(RuntimeError, match="cannot grow"):
            s.resize_(200)
        with pytest.raises(RuntimeError, match="not resizable"):
            s[2:5].resize_(1)
        with pytest.raises(RuntimeError, match="initialised once"):
            s.__init__(3)
    live = memory_stats()["live_bytes"]
    s.resize_(1)
    del s
    assert memory_stats()["live_bytes"] == live - 100


def test_a_slice_of_a_storage_is_that_storage():
    with memory.record():
        s = cygrad.UntypedStorage(4321)
        t = cygrad.tensor([], dtype=cygrad.uint8).set_(s[1:11])
    mine = [m for m in memory.snapshot() if m.nbytes in (4321, 10)]
    assert [(m.nbytes, m.tensors, m.borrowed) for m in mine] == [(4321, ("uint8 [10]",), False)] and t.shape == (10,)


def test_where_noting_fails_no_storage_is_made():
    stats = memory_stats()
    note_births(1, lambda: 1 / 0)
    try:
        with pytest.raises(ZeroDivisionError):
            cygrad.UntypedStorage(1000)
        with pytest.raises(ZeroDivisionError):
            cygrad.ones(1000)
    finally:
        note_births(-1, lambda: 1 / 0)
    assert memory_stats()["live_storages"] == stats["live_storages"]
    assert memory_stats()["live_bytes"] == stats["live_bytes"]
    for change, place, error in ((2, len, ValueError), (-1, len, ValueError), (1, None, TypeError)):
        with pytest.raises(error, match="note_births"):
            note_births(change, place)


def test_borrowed_memory_is_no_part_of_the_allocators_peak():
    x = cygrad.from_numpy(np.ones(500_000))
    found = memory.peak(lambda: (x[:1000] + 1).sum().item())
    assert sum(m.nbytes for m in found if m.borrowed) >= 4_000_000 and found.peak_bytes < found.total
    made = [m for m in found if m.nbytes == 8000]
    assert made and all("test_memory.py" in m.line for m in made)
