"""Graphs as a page to look around in: data, styles and program in one file, which asks for nothing from outside."""

import json
from importlib.resources import files

from cygrad.tools._graph_fold import fold
from cygrad.tools._graph_svg import KINDS
from cygrad.tools._svg import clean, escape

__all__ = ["frame", "page"]


def page(graph, title=None):
    """Return a graph as an HTML document."""
    operations = sum(v.kind == "operation" for v in graph.vertices)
    title = f"{graph.view} graph of {operations} operations" if title is None else str(title)
    boxes, of = fold(graph)
    data = {
        "view": graph.view,
        "kinds": {name: [k.shape, k.meaning, k.fill, k.stroke, k.dashed] for name, k in KINDS.items()},
        "boxes": boxes,
        "vertices": [
            [vertex.kind, list(vertex.lines), of[k], vertex.details] for k, vertex in enumerate(graph.vertices)
        ],
        "edges": [[e.tail, e.head, e.label, int(e.saved)] for e in graph.edges],
    }
    parts = {
        "TITLE": escape(title),
        "STYLE": _read("_page.css"),
        "DATA": _embedded(data),
        "LAYOUT": _read("_page_layout.js"),
        "PROGRAM": _read("_page.js"),
    }
    pieces = _read("_page.html").split("@@")  # every second one names a part; what is put in is not looked at again
    return "".join(parts[piece] if k % 2 else piece for k, piece in enumerate(pieces))


def _embedded(data):
    """JSON that no name in it can end: browsers look for tags and comments in scripts of any type."""
    text = clean(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028")


def frame(document, height=520):
    """Return a document in a frame of its own, for notebooks: it can reach neither their page nor the network."""
    return (
        f'<iframe srcdoc="{escape(document)}" sandbox="allow-scripts" width="100%" height="{height}" '
        'style="border:1px solid #d1d5db;border-radius:6px" loading="lazy"></iframe>'
    )


def _read(name):
    return files("cygrad.tools").joinpath(name).read_text(encoding="utf-8")
