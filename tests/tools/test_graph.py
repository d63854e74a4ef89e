"""Drawings of the recorded graph: what is in them, that they are well-formed, and what cannot be drawn."""

import xml.etree.ElementTree as ET
from collections import Counter

import pytest

import cygrad as torch
from cygrad.tools import graph
from cygrad.tools.graph import Graph, save, to_dot, to_svg

SVG = "{http://www.w3.org/2000/svg}"
VIEWS = ["backward", "forward"]


def shown(drawing):
    """Vertices as text, and edges as pairs of names."""
    names = [v.lines[0] for v in drawing.vertices]
    return names, sorted((names[e.tail], names[e.head]) for e in drawing.edges)


def vertices_in(svg):
    """Count the drawn vertices by kind: groups with a class, below the group that holds the drawing."""
    return Counter(g.get("class") for g in ET.fromstring(svg).iter(f"{SVG}g") if g.get("class"))


def chapter():
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = a * 3
    return {"a": a, "b": b, "c": b.mean()}


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


GOLDEN_BACKWARD = """\
digraph {
  node [fontname="Helvetica", fontsize=11, style=filled];
  edge [fontsize=9];
  n0 [label="c\\n() float32", shape=box, fillcolor="#dcf2e3", color="#1b7f4b"];
  n1 [label="MeanBackward0\\n() float32", shape=ellipse, fillcolor="#f4f5f7", color="#5b6472"];
  n2 [label="MulBackward0\\n(2,) float32", shape=ellipse, fillcolor="#f4f5f7", color="#5b6472"];
  n3 [label="AccumulateGrad", shape=ellipse, fillcolor="#fff1d6", color="#b7791f"];
  n4 [label="a\\n(2,) float32", shape=box, fillcolor="#e6f4f6", color="#2b8a99"];
  n0 -> n1;
  n1 -> n2;
  n2 -> n3;
  n3 -> n4;
}
"""

GOLDEN_FORWARD = """\
digraph {
  node [fontname="Helvetica", fontsize=11, style=filled];
  edge [fontsize=9];
  n0 [label="Mean", shape=ellipse, fillcolor="#f4f5f7", color="#5b6472"];
  n1 [label="b\\n(2,) float32", shape=box, fillcolor="#ffffff", color="#9aa3af"];
  n2 [label="Mul", shape=ellipse, fillcolor="#f4f5f7", color="#5b6472"];
  n3 [label="a\\n(2,) float32", shape=box, fillcolor="#e6f4f6", color="#2b8a99"];
  n4 [label="c\\n() float32", shape=box, fillcolor="#dcf2e3", color="#1b7f4b"];
  n1 -> n0;
  n3 -> n2;
  n2 -> n1;
  n0 -> n4;
}
"""


def test_dot_of_the_chapter_backwards():
    named = chapter()
    assert to_dot(named["c"], named) == GOLDEN_BACKWARD


def test_dot_of_the_chapter_forwards():
    named = chapter()
    assert to_dot(named["c"], named, view="forward") == GOLDEN_FORWARD


def test_a_product_of_matrices_shows_only_what_needs_gradients():
    w = torch.randn(5, 3, requires_grad=True)
    z = (torch.randn(1, 5) @ w).mean()
    names, edges = shown(Graph(z, {"w": w}))
    assert names == ["output", "MeanBackward0", "MmBackward0", "AccumulateGrad", "w"]
    assert edges == [
        ("AccumulateGrad", "w"),
        ("MeanBackward0", "MmBackward0"),
        ("MmBackward0", "AccumulateGrad"),
        ("output", "MeanBackward0"),
    ]


def test_a_custom_function_has_its_own_name():
    w, b = torch.ones(2, 3, requires_grad=True), torch.ones(2, requires_grad=True)
    y = LinearFunction.apply(torch.ones(4, 3), w, b)
    names, _ = shown(Graph(y, {"w": w, "b": b}))
    assert "LinearFunctionBackward" in names
    names, edges = shown(Graph(y, {"w": w, "b": b}, view="forward"))
    assert edges == [("LinearFunction", "output"), ("b", "LinearFunction"), ("w", "LinearFunction")]


@pytest.mark.parametrize("view", VIEWS)
def test_svg_shows_each_vertex_once(view):
    x = torch.randn(3, 3, requires_grad=True)
    y = x * x
    out = (y @ y + y.exp()).sum()
    drawing = Graph(out, {"x": x}, view=view)
    counts = vertices_in(drawing.to_svg())
    assert counts == Counter(v.kind for v in drawing.vertices)
    assert counts["output"] == counts["leaf"] == 1
    assert counts["operation"] == 5


def test_svg_has_a_legend_of_the_kinds_that_occur():
    named = chapter()
    texts = [t.text for t in ET.fromstring(to_svg(named["c"], named)).iter(f"{SVG}text")]
    assert {"output", "operation", "leaf tensor"} <= set(texts)
    assert "saved for backward" not in texts


def test_a_drawing_is_the_same_each_time():
    named = chapter()
    drawing = Graph(named["c"], named)
    assert drawing.to_svg() == Graph(named["c"], named).to_svg() == to_svg(named["c"], named)


def test_parameters_are_told_from_other_leaves():
    class Parameter(torch.Tensor):
        _is_param = True

    p = torch.Tensor._make_subclass(Parameter, torch.ones(3), True)
    x = torch.ones(3, requires_grad=True)
    drawing = Graph((p * x).sum(), {"p": p, "x": x})
    assert {v.lines[0]: v.kind for v in drawing.vertices if v.kind in ("leaf", "parameter")} == {
        "p": "parameter",
        "x": "leaf",
    }


def test_names_may_come_as_pairs_or_from_a_module():
    class Module:
        def named_parameters(self, remove_duplicate):
            return [("first", a)] if remove_duplicate else [("first", a), ("second", a)]

    a = torch.ones(2, requires_grad=True)
    assert shown(Graph(a.sum(), [("pair", a)]))[0][-1] == "pair"
    assert shown(Graph(a.sum(), Module()))[0][-1] == "first = second"


def test_the_same_tensor_twice_has_two_edges():
    x = torch.ones(2, requires_grad=True)
    _, edges = shown(Graph(x * x))
    assert edges.count(("MulBackward0", "AccumulateGrad")) == 2
    _, edges = shown(Graph(x * x, {"x": x}, view="forward"))
    assert edges.count(("x", "Mul")) == 2


def test_edges_tell_which_output_is_used():
    x = torch.ones(6, requires_grad=True)
    _, second, third = x.split(2)
    drawing = Graph((second * third).sum())
    assert sorted(e.label for e in drawing.edges if e.label) == ["1", "2"]
    assert '[label="2"]' in drawing.to_dot()


def test_several_roots_share_what_they_have_in_common():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    drawing = Graph((y.sum(), y.mean()))
    names, _ = shown(drawing)
    assert names.count("MulBackward0") == 1
    assert {"output 0", "output 1"} <= set(names)


@pytest.mark.parametrize("view", VIEWS)
def test_a_leaf_is_a_graph_of_its_own(view):
    x = torch.ones(2, requires_grad=True)
    drawing = Graph(x, {"x": x}, view=view)
    assert (len(drawing.vertices), drawing.edges) == (1, [])
    ET.fromstring(drawing.to_svg())


@pytest.mark.parametrize("view", VIEWS)
def test_saved_tensors_are_drawn_on_request(view):
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    w = torch.tensor([1.0, 2.0])
    y = (a * w).exp()
    drawing = Graph(y, {"a": a, "w": w}, view=view, show_saved=True)
    saved = [v for v in drawing.vertices if v.kind == "saved"]
    assert "w" in [v.lines[0] for v in saved]
    assert any(e.saved for e in drawing.edges)
    assert "style=dashed" in drawing.to_dot()
    ET.fromstring(drawing.to_svg())
    assert not any(e.saved for e in Graph(y, view=view).edges)


@pytest.mark.parametrize("view", VIEWS)
def test_a_saved_leaf_is_pointed_at_where_it_stands(view):
    a = torch.tensor([2.0], requires_grad=True)
    b = torch.tensor([3.0], requires_grad=True)
    drawing = Graph(a * b, {"a": a, "b": b}, view=view, show_saved=True)
    assert not any(v.kind == "saved" for v in drawing.vertices)
    assert sum(e.saved for e in drawing.edges) == 2


@pytest.mark.parametrize("view", VIEWS)
def test_what_a_custom_function_saved_is_drawn(view):
    x = torch.ones(4, 3)
    w, b = torch.ones(2, 3, requires_grad=True), torch.ones(2, requires_grad=True)
    drawing = Graph(LinearFunction.apply(x, w, b), {"x": x, "w": w}, view=view, show_saved=True)
    assert ("x" in shown(drawing)[0]) and sum(e.saved for e in drawing.edges) == 2


@pytest.mark.parametrize("view", VIEWS)
def test_a_freed_graph_can_still_be_drawn(view):
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    c = (a * a).sum()
    c.backward()
    drawing = Graph(c, {"a": a}, view=view, show_saved=True)
    assert "freed or changed since" in shown(drawing)[0]
    ET.fromstring(drawing.to_svg())


ODD_NAMES = [
    "quotes \" and '",
    "<script>alert(1)</script>",
    "&amp; & ]]> <!--",
    "back\\slash \\n",
    "two\nlines\r\tand tabs",
    "nul \x00 bell \x07 surrogate \ud800 noncharacter \uffff",
    "日本語 ñ 🙂 {a|b} → ×",
    "long " + "x" * 300,
    "",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_break_nothing(name):
    a = torch.ones(2, requires_grad=True)
    drawing = Graph(a * 2, {name: a})
    root = ET.fromstring(drawing.to_svg().encode("utf-8"))
    assert not list(root.iter(f"{SVG}script"))
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "title", "rect", "ellipse", "g", "path", "text")
    }
    dot = drawing.to_dot().encode("utf-8").decode()
    labels = [line for line in dot.split("\n") if line.startswith("  n") and "[label=" in line]
    assert len(labels) == len(drawing.vertices)
    for line in labels:
        unescaped = line.replace("\\\\", "").replace('\\"', "")
        assert unescaped.count('"') == 6  # label and two colours


def test_a_chain_of_100000_operations_does_not_recurse():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    drawing = Graph(y)
    page = drawing.to_html()
    assert "AddBackward0 × 100000" in page
    assert len(drawing.vertices) == 100_003
    assert drawing.to_dot().count(" -> ") == 100_002
    assert drawing._repr_svg_() is None
    assert vertices_in(drawing.to_svg())["operation"] == 100_000


def test_5000_operations_without_order_are_laid_out():
    torch.manual_seed(0)
    made = [torch.ones(3, requires_grad=True) for _ in range(50)]
    for i, j in torch.randint(1, 60, (5950, 2)).tolist():
        made.append(made[-min(i, len(made))] * made[-min(j, len(made))])
    drawing = Graph(made[-60:])
    svg = drawing.to_svg()
    assert vertices_in(svg).total() == len(drawing.vertices) > 4500


def test_the_graph_does_not_keep_tensors_alive():
    import weakref

    named = chapter()
    node = weakref.ref(named["c"].grad_fn)
    drawing = Graph(named["c"], named)
    named.clear()
    assert node() is None
    assert "MulBackward0" in drawing.to_dot()


def test_saving_goes_by_the_suffix(tmp_path):
    named = chapter()
    for name in ("g.svg", "g.SVG", "g.dot", "g.gv"):
        save(named["c"], tmp_path / name, named)
    assert (tmp_path / "g.dot").read_text() == (tmp_path / "g.gv").read_text() == GOLDEN_BACKWARD
    assert (tmp_path / "g.svg").read_text(encoding="utf-8") == to_svg(named["c"], named)
    with pytest.raises(ValueError, match=r"\.html, \.json, \.mmd, not in '\.png'"):
        save(named["c"], str(tmp_path / "g.png"))
    with pytest.raises(FileNotFoundError):
        save(named["c"], tmp_path / "missing" / "g.svg")
    assert not (tmp_path / "g.png").exists()


def test_notebooks_show_it():
    named = chapter()
    drawing = Graph(named["c"], named)
    assert drawing._repr_svg_() == drawing.to_svg()
    assert repr(drawing) == "<Graph: backward view, 5 vertices, 4 edges>"


def test_what_was_not_recorded_cannot_be_drawn():
    x = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        y = x * 2
    with pytest.raises(RuntimeError, match=r"root 0, shape \(2, 3\), does not require grad"):
        to_dot(y)
    with pytest.raises(RuntimeError, match="root 1"):
        to_svg([x * 2, torch.ones(1)])


def test_bad_arguments_are_named():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="root 0 is a float"):
        to_dot(3.0)
    with pytest.raises(TypeError, match="'x' is a list"):
        to_dot(x * 2, {"x": [1.0]})
    with pytest.raises(ValueError, match="not 'sideways'"):
        graph.to_svg(x * 2, view="sideways")
    with pytest.raises(ValueError, match="at least one tensor"):
        to_dot([])
