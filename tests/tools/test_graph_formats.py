"""Graphs as JSON, Mermaid and pages; what is known of vertices; modules and what is folded."""

import json
import re
import runpy
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest

import cygrad as torch
from cygrad.tools import graph
from cygrad.tools._graph_fold import fold
from cygrad.tools.graph import Graph, ModuleCalls, of_model

nn = pytest.importorskip("cygrad.nn")
GOLDEN = Path(__file__).with_name("golden")


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def mean():
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = a * 3
    return b.mean(), {"a": a, "b": b}


def product():
    w = torch.ones(5, 3, requires_grad=True)
    x = torch.ones(1, 5)
    return (x @ w).mean(), {"w": w, "x": x}


def linear():
    w, b = torch.ones(2, 3, requires_grad=True), torch.ones(2, requires_grad=True)
    return LinearFunction.apply(torch.ones(4, 3), w, b), {"w": w, "b": b}


CHAPTER = {"mean": mean, "product": product, "linear": linear}


@pytest.mark.parametrize("view", ["backward", "forward"])
@pytest.mark.parametrize("name", CHAPTER)
@pytest.mark.parametrize("suffix", ["dot", "mmd", "json"])
def test_graphs_of_the_chapter(name, view, suffix, tmp_path):
    """The files in golden/ were read through by a person; sequence numbers count from the first node."""
    root, names = CHAPTER[name]()
    drawing = Graph(root, names, view=view, show_saved=True, show_storages=True)
    first = min(v.details.get("sequence", 1 << 60) for v in drawing.vertices)
    for vertex in drawing.vertices:
        if "sequence" in vertex.details:
            vertex.details["sequence"] -= first
    drawing.save(tmp_path / f"graph.{suffix}")
    text = (tmp_path / f"graph.{suffix}").read_text(encoding="utf-8")
    if suffix == "json":
        text = json.dumps(json.loads(text), indent=1) + "\n"
    assert text == (GOLDEN / f"{name}_{view}.{suffix}").read_text(encoding="utf-8")


class Block(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self, blocks=5):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
        self.head = nn.Linear(4, 7)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return {"scores": [self.head(x)], "other": None}


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 3)

    def forward(self, x):
        h = torch.zeros(x.shape[1], 3)
        for step in x:
            h = self.cell(step, h)
        return h


# ---- JSON
def examples():
    yield Graph(*mean())
    yield Graph(*linear(), view="forward", show_saved=True, show_storages=True)
    yield of_model(Model(), torch.tensor([[1, 2]]), show_saved=True)
    yield of_model(Loop(), torch.ones(4, 1, 2), view="backward", show_saved=True)
    x = torch.ones(6, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: ("packed", t), lambda p: p[1]):
        parts = (x * x).split(2)
    yield Graph([part.sum() for part in parts])
    yield Graph(torch.ones(2, requires_grad=True), {"lone \ud800 surrogate": x})


@pytest.mark.parametrize("number", range(6))
def test_json_goes_both_ways_and_keeps_to_its_schema(number):
    jsonschema = pytest.importorskip("jsonschema")
    drawing = list(examples())[number]
    text = drawing.to_json()
    schema = json.loads(files("cygrad.tools").joinpath("graph.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(text), schema)
    again = Graph.from_json(text)
    assert again == drawing and again.to_json() == text and repr(again) == repr(drawing)
    assert again.to_svg() == drawing.to_svg() and again.to_html() == drawing.to_html()
    assert again.to_dot() == drawing.to_dot() and again.to_mermaid() == drawing.to_mermaid()


BAD_JSON = [
    ("{", "no JSON"),
    (None, "no JSON"),
    ("[" * 100_000, "no JSON"),
    ("[]", '"format": "cygrad.graph"'),
    ({"version": 2}, '"version": 1, got 2'),
    ({"view": "sideways"}, "'sideways'"),
    ({"vertices": {}}, '"vertices": a list'),
    ({"vertices": [{"id": 1, "kind": "leaf", "lines": [], "details": {}}]}, r"vertices\[0\] with id 0"),
    ({"vertices": [{"id": 0, "kind": "cloud", "lines": [], "details": {}}]}, "'cloud'"),
    ({"vertices": [{"id": 0, "kind": "leaf", "lines": [3], "details": {}}]}, "lines, a list of strings"),
    ({"vertices": [{"id": 0, "kind": "leaf", "lines": ["a"], "details": {"module": 1}}]}, "module"),
    ({"edges": [{"tail": 0, "head": 9, "label": "", "saved": False}]}, "numbers of vertices below 0"),
    ({"edges": [{"tail": True, "head": 0, "label": "", "saved": False}]}, "numbers of vertices"),
    ({"modules": [{"path": "a", "type": "b"}]}, r"modules\[0\] with a path"),
]


@pytest.mark.parametrize(("change", "match"), BAD_JSON)
def test_other_json_is_refused(change, match):
    whole = {"format": "cygrad.graph", "version": 1, "view": "forward", "modules": [], "vertices": [], "edges": []}
    with pytest.raises(ValueError, match=match):
        Graph.from_json(json.dumps(whole | change) if isinstance(change, dict) else change)


# ---- what is known of vertices
def details(drawing, name):
    return next(v.details for v in drawing.vertices if v.lines[0] == name)


def test_the_users_line_is_kept():
    with torch.autograd.trace_lines():
        root, names = mean()
    line = details(Graph(root, names), "MulBackward0")["line"]
    assert line["file"] == __file__ and line["source"] == "b = a * 3" and line["function"] == "mean"
    root, names = mean()
    assert "line" not in details(Graph(root, names), "MulBackward0")


def test_saved_bytes_storages_views_and_versions():
    base = torch.arange(6.0).requires_grad_()
    row = base.view(2, 3)[1]
    other = torch.ones(3)
    other.add_(1).add_(1)
    y = row * other
    drawing = Graph(y, {"base": base, "row": row, "other": other, "y": y}, show_saved=True, show_storages=True)
    product = details(drawing, "MulBackward0")
    assert [s["shape"] for s in product["saved"]] == [[3]] and product["saved_bytes"] == 12
    assert product["outputs"] == [{"shape": [3], "dtype": "float32"}]
    known = details(drawing, "other")
    assert known["version"] == 2 and known["storage"] == product["saved"][0]["storage"]
    assert known["storage_bytes"] == 12 and "view_of" not in known
    view = Graph(row, {"base": base, "row": row}, show_storages=True)
    assert details(view, "row")["view_of"] == "base"
    assert details(view, "row")["storage"] == details(view, "base")["storage"]
    assert "view of base" in view.to_dot() and "version 0" in view.to_svg()


# ---- modules
def test_modules_of_nodes():
    drawing = of_model(Model(2), torch.tensor([[1, 2]]))
    paths = {tuple(v.details.get("module", ())) for v in drawing.vertices}
    assert {("embed",), ("blocks.0",), ("blocks.0", "mlp", "0"), ("blocks.1", "norm"), ("head",)} <= paths
    assert drawing.module_types[("blocks.1", "mlp", "1")] == "GELU"
    weight = details(drawing, "blocks.0.mlp.0.weight")
    assert weight["module"] == ["blocks.0", "mlp", "0"]
    assert [v.lines[0] for v in drawing.vertices if v.kind == "output"] == ["output"]


def test_calls_of_one_module_are_numbered():
    drawing = of_model(Loop(), torch.ones(3, 1, 2))
    assert list(drawing.module_types) == [("cell",), ("cell#2",), ("cell#3",)]
    assert "module" not in details(drawing, "cell.weight_ih")  # it belongs to no single call


def test_hooks_and_lines_end_with_the_calls():
    model = Model(1)
    calls = ModuleCalls(model)
    with pytest.raises(IndexError), calls:
        model(torch.tensor([[70]]))
    y = model(torch.tensor([[1]]))["scores"][0]
    assert not calls.path_of(y.grad_fn) and not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert "line" not in details(Graph(y), y.grad_fn.name())
    with calls:
        y = model(torch.tensor([[1]]))["scores"][0]
    assert calls.path_of(y.grad_fn) == ("head#2",) or calls.path_of(y.grad_fn) == ("head",)


def test_an_error_inside_a_module_closes_its_call():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Fails()

        def forward(self, x):
            try:
                return self.inner(x)
            except ValueError:
                return x * 2

    model = Tries()
    with ModuleCalls(model) as calls:
        y = model(torch.ones(1, requires_grad=True))
    assert calls.path_of(y.grad_fn) == ()


def test_what_cannot_be_noted():
    with pytest.raises(TypeError, match="got a function"):
        of_model(lambda x: x, torch.ones(1))
    with pytest.raises(TypeError, match="modules is what ModuleCalls noted, got a Linear"):
        Graph(*mean(), modules=nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="ReLU returned no tensor that requires gradients"):
        of_model(nn.ReLU(), torch.ones(1))


# ---- folding
def boxes_of(drawing):
    boxes, of = fold(drawing)
    return boxes, of, [box["title"] for box in boxes]


def test_equal_modules_in_a_row_are_one_box():
    for view in ("forward", "backward"):
        boxes, _, titles = boxes_of(of_model(Model(5), torch.tensor([[1, 2]]), view=view, show_saved=True))
        repeat = titles.index("Block × 5")
        assert boxes[repeat]["note"] == "blocks.0 … blocks.4" and boxes[repeat]["parent"] == -1
        assert sum(box["parent"] == repeat for box in boxes) == 5
    _, _, titles = boxes_of(of_model(Loop(), torch.ones(9, 1, 2)))
    assert "GRUCell × 9" in titles  # the first one too, although its state has no history
    _, _, titles = boxes_of(of_model(Model(2), torch.tensor([[1, 2]])))
    assert not any("×" in title for title in titles)


def test_unequal_modules_are_not():
    model = Model(5)
    model.blocks[2] = nn.Sequential(nn.Linear(4, 4))
    _, _, titles = boxes_of(of_model(model, torch.tensor([[1, 2]])))
    assert not any("×" in title for title in titles)


def test_no_box_is_made_that_a_cycle_would_run_around():
    class Between(Model):
        def forward(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x) * 0.5
            return x

    _, _, titles = boxes_of(of_model(Between(5), torch.tensor([[1, 2]])))
    assert not any("×" in title for title in titles)


def test_what_repeats_along_a_line_is_folded():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(50):
        y = (y * 2).sin()
    _, of, titles = boxes_of(Graph(y))
    assert titles == ["SinBackward0 → MulBackward0 × 50"] and of.count(0) == 100
    for _ in range(10):
        y = y + x  # a branch in each
    assert "×" in boxes_of(Graph(y))[2][0]
    assert boxes_of(Graph(*mean()))[0] == []


def test_folded_graphs_have_no_cycles():
    for drawing in examples():
        boxes, of = fold(drawing)
        for open_boxes in ([], [b for b, box in enumerate(boxes) if box["kind"] == "repeat"]):
            shown = []
            for k in range(len(drawing.vertices)):
                at, box = ("vertex", k), of[k]
                while box >= 0:
                    if box not in open_boxes:
                        at = ("box", box)
                    box = boxes[box]["parent"]
                shown.append(at)
            after, waiting = {}, Counter()
            for a, b in {(shown[e.tail], shown[e.head]) for e in drawing.edges if not e.saved}:
                if a != b:
                    after.setdefault(a, []).append(b)
                    waiting[b] += 1
            ready = [s for s in set(shown) if not waiting[s]]
            for s in ready:
                for b in after.get(s, ()):
                    waiting[b] -= 1
                    if not waiting[b]:
                        ready.append(b)
            assert len(ready) == len(set(shown))


# ---- Mermaid
def blocks(count, extra=False):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) for _ in range(count)])
    return of_model(model, torch.ones(2, 4), show_saved=extra)


def test_folded_graphs_have_a_vertex_for_each_closed_box():
    drawing = blocks(12)
    small = drawing.folded()
    names = [v.lines[0] for v in small.vertices]
    assert sorted(names) == ["Sequential × 12", "output"]
    operations = sum(v.kind == "operation" for v in drawing.vertices)
    counted = [int(v.lines[-1].split()[0]) for v in small.vertices if "operation" in v.lines[-1]]
    assert sum(counted) + sum(v.kind == "operation" for v in small.vertices) == operations
    assert {v.kind for v in small.vertices} <= {"module", "repeat", "output"}
    assert all(0 <= e.tail < len(names) and 0 <= e.head < len(names) and e.tail != e.head for e in small.edges)
    assert len({(e.tail, e.head, e.saved) for e in small.edges}) == len(small.edges)
    assert len(drawing.vertices) > 12 * 10      # what was folded stays as it was


def test_a_small_graph_is_not_folded():
    drawing = of_model(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.ones(2, 3))
    assert drawing.folded() == drawing


@pytest.mark.parametrize("extra", [False, True])
def test_folded_graphs_go_into_every_format(extra, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    small = blocks(12, extra).folded()
    schema = json.loads(files("cygrad.tools").joinpath("graph.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(small.to_json()), schema)
    assert Graph.from_json(small.to_json()) == small
    for suffix in ("svg", "dot", "mmd", "html", "json"):
        small.save(tmp_path / f"small.{suffix}")
        assert "Sequential × 1" in (tmp_path / f"small.{suffix}").read_text(encoding="utf-8").replace("\\u00d7", "×")


def test_mermaid_has_modules_as_subgraphs():
    text = of_model(Model(1), torch.tensor([[1, 2]])).to_mermaid()
    assert text.startswith("flowchart TD\n") and text.count("subgraph") == text.count("\nend") + text.count("  end")
    assert 'subgraph m1["embed: Embedding"]' in text or '["embed: Embedding"]' in text
    assert len(re.findall(r"^ *n\d+[(\[]", text, re.M)) == len(of_model(Model(1), torch.tensor([[1, 2]])).vertices)


# ---- pages
class Page(HTMLParser):
    """Elements, and the texts of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.inside = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        if self.inside == "script":
            self.scripts[-1] += text


ODD_NAMES = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "@@DATA@@ @@TITLE@@",
    "quotes \" and ' and `${x}`",
    "nul \x00 surrogate \ud800 separator \u2028",
    "日本語 {a|b} ]]> &amp; \\n",
    'a\n---\nb; click n0 href "javascript:alert(1)"',
    "",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_stay_names(name):
    a = torch.ones(2, requires_grad=True)
    drawing = Graph(a * 2, {name: a})
    text = drawing.to_html(title=name)
    text.encode("utf-8")
    page = Page(text)
    assert Counter(tag for tag, _ in page.elements)["script"] == 3
    data = json.loads(page.scripts[0])
    assert len(data["vertices"]) == 4
    mermaid = drawing.to_mermaid()
    mermaid.encode("utf-8")
    assert len(mermaid.splitlines()) == 1 + 4 + 3 + 4  # head, vertices, edges, kinds
    for line in mermaid.splitlines()[1:5]:
        assert line.count('"') == 2


class Odd(nn.Module):
    """Modules and parameters with odd names."""

    def __init__(self):
        super().__init__()
        for name in (*filter(None, ODD_NAMES), "__proto__", "constructor", "a b", "0", "x" * 300):
            if "." not in name:
                self.add_module(name, nn.Linear(2, 2))
                self.register_parameter(f"{name} too", nn.Parameter(torch.ones(2)))

    def forward(self, x):
        for part in self._modules.values():
            x = part(x).relu()
        for p in self._parameters.values():
            x = x * p
        return x


@pytest.mark.parametrize("view", ["forward", "backward"])
@pytest.mark.parametrize("folded", [False, True])
def test_odd_names_of_modules(view, folded):
    drawing = of_model(Odd(), torch.ones(3, 2), view=view, show_saved=True, show_storages=True)
    drawing = drawing.folded() if folded else drawing
    page = Page(drawing.to_html())
    assert Counter(tag for tag, _ in page.elements)["script"] == 3 and json.loads(page.scripts[0])["vertices"]
    svg = ElementTree.fromstring(drawing.to_svg().encode("utf-8"))
    assert not [e for e in svg.iter() if e.tag.endswith("script")]
    for text in (drawing.to_mermaid(), drawing.to_dot()):
        text.encode("utf-8")
        assert all(line.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 0 for line in text.split("\n"))
    assert Graph.from_json(drawing.to_json()) == drawing


def test_a_line_of_the_program_cannot_end_the_page(tmp_path):
    path = tmp_path / "<b>'\" é.py"
    path.write_text("import cygrad as torch\na = torch.ones(2, requires_grad=True)\n"
                    "b = a * 2  # </script><script>alert(1)</script> <!--\n", encoding="utf-8")
    with torch.autograd.trace_lines():
        b = runpy.run_path(str(path))["b"]
    page = Page(Graph(b).to_html())
    assert Counter(tag for tag, _ in page.elements)["script"] == 3
    line = next(v[3]["line"] for v in json.loads(page.scripts[0])["vertices"] if "line" in v[3])
    assert line["source"].endswith("</script> <!--") and line["file"] == str(path)


def test_a_page_asks_for_nothing():
    page = Page(of_model(Model(2), torch.tensor([[1, 2]])).to_html())
    policy = next(attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert not [attrs for _, attrs in page.elements if "src" in attrs]
    assert [attrs["href"] for _, attrs in page.elements if "href" in attrs] == ["data:,"]


def test_notebooks_show_pages():
    drawing = Graph(*mean())
    bundle = drawing._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/svg+xml", "text/html"} and bundle["text/plain"] == repr(drawing)
    assert set(drawing._repr_mimebundle_(include={"text/plain", "text/html"}, exclude={"text/html"})) == {"text/plain"}
    assert bundle["image/svg+xml"] == drawing.to_svg()
    tag, attributes = Page(bundle["text/html"]).elements[0]
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts" and attributes["srcdoc"] == drawing.to_html()


def test_a_large_graph_shows_its_text():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(4000):
        y = y + 1
    drawing = Graph(y)
    assert set(drawing._repr_mimebundle_()) == {"text/plain"}
    assert "AddBackward0 × 4000" in drawing.to_html()


def test_saving_pages(tmp_path):
    root, names = mean()
    graph.save(root, tmp_path / "g.html", names)
    graph.save(root, tmp_path / "g.mmd", names)
    graph.save(root, tmp_path / "g.json", names)
    drawing = Graph(root, names)
    assert (tmp_path / "g.html").read_text(encoding="utf-8") == drawing.to_html()
    assert (tmp_path / "g.mmd").read_text(encoding="utf-8") == drawing.to_mermaid()
    assert Graph.from_json((tmp_path / "g.json").read_text(encoding="utf-8")) == drawing
