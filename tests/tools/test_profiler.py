"""The profiler: what ran, in what, in which module and direction; sums, tables, traces, flame graphs."""

import json
import math
import threading

import pytest

import cygrad
from cygrad.autograd import _core
from cygrad.profiler import ProfilerActivity, machine_limits, profile, record_function

with_modules = pytest.mark.skipif(not hasattr(cygrad, "nn"), reason="needs cygrad-nn")


def named(prof, name):
    return [event for event in prof.events if event.name == name]


def test_operations_and_nodes():
    x = cygrad.ones(3, 4, requires_grad=True)
    with profile() as prof:
        y = (x * 2).exp().sum()
        y.backward()
    ops = [(e.name, e.phase) for e in prof.events if e.kind == "op" and e.phase == "forward"]
    assert ops == [("mul", "forward"), ("exp", "forward"), ("sum", "forward")]
    nodes = [e.name for e in prof.events if e.kind == "node"]
    assert nodes == ["SumBackward0", "ExpBackward0", "MulBackward0"]
    assert all(e.phase == "backward" for e in prof.events if e.kind == "node")
    mul, = named(prof, "mul")
    assert mul.shapes == ((3, 4), (), None)[: len(mul.shapes)] and mul.bytes == 2 * 48 + 4
    assert prof.seconds >= sum(e.duration for e in prof.events if e.parent is None) > 0


def test_each_kind_of_operation_is_seen():
    """Pointwise, kernel, composed, in place, indexed, copying, random, batched."""
    x = cygrad.ones(4, 4)
    with profile() as prof:
        x.add_(1)
        cygrad.softmax(x, 0)
        x.mm(x)
        x[[0, 1]] = 3
        x.copy_(cygrad.zeros(4, 4))
        x.sort()
        x.to(cygrad.float64)
        x.masked_fill_(x > 0, 1.0)
        cygrad.vmap(lambda row: row * 2)(x)
        cygrad.linalg.solve(cygrad.eye(4), x)
    seen = {e.name for e in prof.events}
    assert {"add", "softmax", "mm", "index_put", "copy", "sort", "cast", "masked_fill", "mul"} <= seen


def test_copies_are_seen_by_whatever_name():
    x, image = cygrad.ones(4, 4), cygrad.ones(2, 3, 4, 4, requires_grad=True)
    for copy in (x.clone, x.t().contiguous, lambda: image.contiguous(memory_format=cygrad.channels_last),
                 lambda: x.t().reshape(16), lambda: cygrad.clone(image)):
        with profile() as prof:
            y = copy()
        event, = named(prof, "clone")
        assert event.bytes == 2 * 4 * y.numel() and event.phase == "forward"
    with profile() as prof:
        x.contiguous(), x.t()
    assert not prof.events


def test_parts_lie_inside_what_called_them():
    with profile() as prof, record_function("outer"):
        with record_function("inner"):
            cygrad.ones(1000).exp()
        cygrad.ones(1000).cos()
    outer, = named(prof, "outer")
    inner, = named(prof, "inner")
    exp, = named(prof, "exp")
    assert inner.parent is outer and exp.parent is inner and named(prof, "cos")[0].parent is outer
    for event in prof.events:
        assert event.duration >= event.self_duration >= 0
        assert event.start >= 0 and event.start + event.duration <= prof.seconds + 1e-9
    assert math.isclose(outer.self_duration, outer.duration - sum(c.duration for c in outer.children), abs_tol=1e-12)


@with_modules
def test_modules_forward_and_backward():
    nn = cygrad.nn
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = cygrad.optim.SGD(model.parameters(), lr=0.1)
    with profile() as prof:
        model(cygrad.ones(4, 8)).sum().backward()
        optimizer.step()
    regions = [(e.region, e.name) for e in prof.events if e.kind == "region"]
    assert regions == [("module", "Sequential"), ("module", "Sequential.0"), ("module", "Sequential.1"),
                       ("module", "Sequential.2"), ("optimizer", "SGD.step")]
    products = [(e.module, e.phase) for e in prof.events if e.flops]
    assert ("Sequential.0", "forward") in products and ("Sequential.2", "forward") in products
    assert ("Sequential.0", "backward") in products and ("Sequential.2", "backward") in products
    rows = {row.name: row for row in prof.by_module()}
    assert {"Sequential.0", "Sequential.1", "Sequential.2"} <= set(rows)
    assert all(rows[f"Sequential.{i}"].phase == "both" and rows[f"Sequential.{i}"].calls == 1 for i in range(3))
    assert math.isclose(rows["Sequential"].total_seconds, sum(r.self_seconds for n, r in rows.items() if n[0] == "S"))
    forward = sum(e.flops for e in prof.events if e.phase == "forward")
    assert forward == 2 * 4 * (8 * 16 + 16 * 2)


@with_modules
def test_memory_by_operation_and_by_module():
    nn = cygrad.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 4))
    x = cygrad.ones(1000, 64)
    kept = []
    with profile(profile_memory=True) as prof:
        kept.append(model(x))
    hidden, out = 4 * 1000 * 128, 4 * 1000 * 4
    operations = {row.name: row.grown_bytes for row in prof.key_averages()}
    modules = {row.name: row.grown_bytes for row in prof.by_module()}
    # what tanh was given is freed after it, as only its result is kept, and that shows at the next operation
    assert operations["tanh"] == hidden and operations["addmm"] == hidden + (out - hidden)
    assert [modules[f"Sequential.{i}"] for i in range(3)] == [hidden, hidden, out - hidden]
    assert sum(operations.values()) == sum(modules.values()) == hidden + out
    with profile(profile_memory=True) as prof:
        kept.pop().sum().backward()
    rows = {row.name: row.grown_bytes for row in prof.by_module()}
    assert sum(rows.values()) < 0
    table = prof.by_module().table()
    assert table.splitlines()[0].endswith("memory") and " -" in table
    with profile() as prof:
        cygrad.ones(3).exp()
    assert "memory" not in prof.key_averages().table() and prof.key_averages()[0].grown_bytes == 0


def test_memory_of_backward_belongs_to_its_nodes():
    x = cygrad.ones(1000, requires_grad=True)
    y = x.exp().sum()
    with profile(profile_memory=True) as prof:
        y.backward()
    nodes = {e.name: e for e in prof.events if e.kind == "node"}
    assert all(e.live_bytes is not None for e in nodes.values())
    ends = [e.live_bytes for e in sorted(prof.events, key=lambda e: e.start + e.duration)]
    assert sum(e.grown for e in prof.events) == ends[-1] - prof._live


@with_modules
def test_equal_blocks_are_one_row_where_that_is_asked():
    nn = cygrad.nn
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Sigmoid(),
                          *[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(4)])
    with profile() as prof:
        model(cygrad.ones(4, 8)).sum().backward()
    each, folded = ({row.name: row for row in rows} for rows in (prof.by_module(), prof.by_module(fold=True)))
    names = {"Sequential", "Sequential.0", "Sequential.1", "Sequential.2", "(outside of modules)",
             "Sequential.*", "Sequential.*.0", "Sequential.*.1"}
    assert set(folded) == names and len(each) == 4 + 1 + 4 * 3
    assert folded["Sequential.*"].calls == 4 and folded["Sequential.*.0"].calls == 4
    assert folded["Sequential.*.0"].flops == sum(each[f"Sequential.{i}.0"].flops for i in range(3, 7)) > 0
    assert math.isclose(folded["Sequential.*"].total_seconds,
                        sum(each[f"Sequential.{i}"].total_seconds for i in range(3, 7)))


@with_modules
def test_a_convolution_counts_its_multiplications():
    conv = cygrad.nn.Conv2d(3, 8, 3, padding=1, bias=False)
    with profile() as prof:
        conv(cygrad.ones(2, 3, 10, 10)).sum().backward()
    forward = 2 * (2 * 8 * 10 * 10) * (3 * 3 * 3)
    assert sum(e.flops for e in prof.events if e.phase == "forward") == forward
    assert sum(e.flops for e in prof.events if e.phase == "backward") == forward        # of the weight alone


@with_modules
def test_a_failing_module_ends_its_region():
    class Broken(cygrad.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model = cygrad.nn.Sequential(cygrad.nn.Identity(), Broken())
    with profile() as prof:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                model(cygrad.ones(1))
        cygrad.nn.Identity()(cygrad.ones(1))
    names = [e.name for e in prof.events if e.kind == "region"]
    assert names == ["Sequential", "Sequential.0", "Sequential.1"] * 2 + ["Identity"]


def test_key_averages():
    x, w = cygrad.ones(8, 4), cygrad.ones(4, 2)
    with profile() as prof:
        for _ in range(3):
            x.mm(w)
        w.mm(cygrad.ones(2, 2))
    row, = [r for r in prof.key_averages() if r.name == "mm"]
    assert row.calls == 4 and row.flops == 3 * 2 * 8 * 4 * 2 + 2 * 4 * 2 * 2
    assert row.total_seconds >= row.self_seconds > 0 and row.gflop_per_s > 0 and row.gb_per_s > 0
    rows = {r.shapes: r.calls for r in prof.key_averages(group_by_input_shape=True) if r.name == "mm"}
    assert rows == {((8, 4), (4, 2)): 3, ((4, 2), (2, 2)): 1}
    assert json.loads(json.dumps(prof.key_averages().to_json()))[0]["calls"] > 0


def test_a_function_that_calls_itself_counts_once_in_total():
    def down(n):
        with record_function("down"):
            cygrad.ones(100).exp()
            if n:
                down(n - 1)

    with profile() as prof:
        down(3)
    row, = [r for r in prof.key_averages() if r.name == "down"]
    outermost = named(prof, "down")[0]
    assert row.calls == 4 and row.total_seconds == outermost.duration


def test_table():
    with profile() as prof:
        cygrad.ones(50, 50).mm(cygrad.ones(50, 50)).exp()
    table = prof.key_averages().table(sort_by="calls", row_limit=2, header="first line")
    lines = table.splitlines()
    assert lines[0] == "first line" and lines[1].split()[:3] == ["operation", "calls", "self"]
    assert len([line for line in lines if line.startswith(("mm", "exp"))]) <= 2
    assert "GFLOP/s" in table and str(prof).count("mm") >= 1
    assert "%" in prof.key_averages().table(limits=True).splitlines()[2]
    names = [line.split()[0] for line in prof.key_averages().table(sort_by="name").splitlines()[2:-2]]
    assert names == sorted(names)
    with pytest.raises(ValueError, match="sort_by is one of"):
        prof.key_averages().table(sort_by="speed")


def test_limits_are_of_this_machine():
    limits = machine_limits()
    assert set(limits) == {"GB/s", "GFLOP/s"} and all(value > 0.05 for value in limits.values())


def test_memory():
    with profile(profile_memory=True) as prof:
        kept = cygrad.ones(1 << 20).exp()
        del kept
    live = [e.live_bytes for e in prof.events]
    assert max(live) >= 4 << 20 and prof.peak_bytes >= 4 << 20
    with profile() as prof:
        cygrad.ones(3).exp()
    assert prof.events[-1].live_bytes is None


def test_chrome_trace(tmp_path):
    with profile(profile_memory=True) as prof, record_function('a "name" <b>'):
        cygrad.ones(3).exp()
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"X", "C", "M"} == {e["ph"] for e in trace}
    complete = [e for e in trace if e["ph"] == "X"]
    assert 'a "name" <b>' in {e["name"] for e in complete}
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in complete)


def test_flame_graph_is_one_page_that_names_cannot_break(tmp_path):
    with profile() as prof, record_function("</script><script>alert(1)</script>"):
        cygrad.ones(3).exp()
    prof.export_flame_graph(tmp_path / "flame.html")
    page = (tmp_path / "flame.html").read_text()
    assert page.count("<script>") == page.count("</script>") == 1
    assert "http" not in page.split("</style>")[1]
    data = json.loads(page.split("const root = ")[1].split(";\nconst graph")[0])
    assert data["parts"][0]["name"] == "</script><script>alert(1)</script>"
    assert "exp" in {part["name"] for part in data["parts"][0]["parts"]}


@with_modules
def test_backward_lies_in_a_box_of_its_own_by_module(tmp_path):
    model = cygrad.nn.Sequential(cygrad.nn.Linear(8, 8), cygrad.nn.Tanh())
    with profile() as prof:
        (model(cygrad.ones(4, 8)) ** 2).sum().backward()
    prof.export_flame_graph(tmp_path / "flame.html")
    page = (tmp_path / "flame.html").read_text()
    data = json.loads(page.split("const root = ")[1].split(";\nconst graph")[0])
    tops = {part["name"]: part for part in data["parts"]}
    assert {"Sequential", "pow_square", "sum", "backward"} == set(tops) and tops["backward"]["phase"] == "backward"
    inside = {part["name"]: part for part in tops["backward"]["parts"]}
    assert {"SumBackward0", "PowBackward0", "Sequential"} <= set(inside)
    parts = {part["name"]: [p["name"] for p in part["parts"]] for part in inside["Sequential"]["parts"]}
    assert parts["Sequential.1"] == ["TanhBackward0"] and "AddmmBackward0" in parts["Sequential.0"]
    nodes = sum(e.duration for e in prof.events if e.kind == "node")
    assert math.isclose(tops["backward"]["value"], nodes) and tops["backward"]["value"] <= data["value"]


def test_only_the_thread_that_profiles_is_seen():
    with profile() as prof:
        other = threading.Thread(target=lambda: cygrad.ones(10).exp())
        other.start()
        other.join()
        cygrad.ones(10).cos()
    assert named(prof, "cos") and not named(prof, "exp")


@with_modules
def test_inside_another_profile():
    with profile() as outer:
        cygrad.ones(3).cos()
        with profile() as inner:
            cygrad.nn.Identity()(cygrad.ones(3).exp())
        cygrad.ones(3).sin()
    assert named(inner, "exp") and not named(inner, "cos") and not named(inner, "sin")
    assert all(len(named(outer, name)) == 1 for name in ("cos", "exp", "sin", "Identity"))


def test_nothing_is_written_down_when_it_is_over():
    with profile() as prof:
        cygrad.ones(3).exp()
    count = len(prof._raw)
    cygrad.ones(3).exp()
    with record_function("free"):
        pass
    assert len(prof._raw) == count and not _core._mode_bits(0x800, 0)
    with pytest.raises(ZeroDivisionError), profile() as failed:
        cygrad.ones(3).exp()
        raise ZeroDivisionError
    assert named(failed, "exp") and not _core._mode_bits(0x800, 0)


def test_results_are_the_same():
    x = cygrad.randn(5, 5, requires_grad=True)
    plain, = cygrad.autograd.grad((x @ x).tanh().sum(), x)
    with profile():
        profiled, = cygrad.autograd.grad((x @ x).tanh().sum(), x)
    assert cygrad.equal(plain, profiled)


def test_record_function_decorates():
    @record_function("work")
    def work(x):
        return x.exp()

    with profile() as prof:
        work(cygrad.ones(3))
        work(cygrad.ones(3))
    assert len(named(prof, "work")) == 2


def test_misuse():
    prof = profile()
    with pytest.raises(RuntimeError, match="has not ended"):
        prof.key_averages()
    with prof, pytest.raises(RuntimeError, match="has not ended"):
        _ = prof.events
    with pytest.raises(RuntimeError, match="used once"), prof:
        pass
    with pytest.raises(RuntimeError, match="only ProfilerActivity"):
        profile(activities=["CUDA"])
    profile(activities=[ProfilerActivity.CPU])
    with pytest.raises(TypeError, match="must be str, not int"):
        record_function(3)
