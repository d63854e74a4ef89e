"""Graphs as JSON, and back; ``graph.schema.json`` beside this file describes the form."""

import json

from cygrad.tools._graph_svg import KINDS

__all__ = ["dumps", "loads", "to_data"]

FORMAT = "cygrad.graph"
VERSION = 1
_VIEWS = ("backward", "forward")


def to_data(graph):
    """Return a graph as dictionaries and lists."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "view": graph.view,
        "modules": [{"path": list(path), "type": kind} for path, kind in graph.module_types.items()],
        "vertices": [
            {"id": k, "kind": v.kind, "lines": list(v.lines), "details": v.details}
            for k, v in enumerate(graph.vertices)
        ],
        "edges": [{"tail": e.tail, "head": e.head, "label": e.label, "saved": e.saved} for e in graph.edges],
    }


def dumps(graph, indent=None):
    """Return a graph as text. Names are kept as they are, lone surrogates included, as escapes."""
    return json.dumps(to_data(graph), indent=indent)


def loads(text, vertex, edge):
    """Return view, vertices, edges and module types of a text; ValueError if it is of another form."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"Graph.from_json: no JSON: {error}") from error
    _check(isinstance(data, dict) and data.get("format") == FORMAT, f'an object with "format": "{FORMAT}"', data)
    _check(data.get("version") == VERSION, f'"version": {VERSION}', data.get("version"))
    _check(data.get("view") in _VIEWS, f'"view": one of {_VIEWS}', data.get("view"))
    for key in ("modules", "vertices", "edges"):
        _check(isinstance(data.get(key), list), f'"{key}": a list', data.get(key))
    vertices = [_vertex(k, entry, vertex) for k, entry in enumerate(data["vertices"])]
    edges = [_edge(k, entry, edge, len(vertices)) for k, entry in enumerate(data["edges"])]
    types = {}
    for k, entry in enumerate(data["modules"]):
        fits = isinstance(entry, dict) and _are_texts(entry.get("path")) and isinstance(entry.get("type"), str)
        _check(fits, f"modules[{k}] with a path, a list of strings, and a type, a string", entry)
        types[tuple(entry["path"])] = entry["type"]
    return data["view"], vertices, edges, types


def _vertex(k, entry, vertex):
    fits = isinstance(entry, dict) and entry.get("id") == k and entry.get("kind") in KINDS
    _check(fits, f"vertices[{k}] with id {k} and a kind of {tuple(KINDS)}", entry)
    _check(_are_texts(entry.get("lines")), f"vertices[{k}] with lines, a list of strings", entry)
    details = entry.get("details")
    fits = isinstance(details, dict) and _are_texts(details.get("module", []))
    _check(fits, f"vertices[{k}] with details, an object, whose module is a list of strings", entry)
    return vertex(entry["kind"], tuple(entry["lines"]), details)


def _edge(k, entry, edge, count):
    fits = isinstance(entry, dict) and all(
        type(entry.get(end)) is int and 0 <= entry[end] < count for end in ("tail", "head")
    )
    _check(fits, f"edges[{k}] with tail and head, numbers of vertices below {count}", entry)
    fits = isinstance(entry.get("label"), str) and isinstance(entry.get("saved"), bool)
    _check(fits, f"edges[{k}] with a label, a string, and saved, true or false", entry)
    return edge(entry["tail"], entry["head"], entry["label"], entry["saved"])


def _are_texts(value):
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _check(fits, wanted, got):
    if not fits:
        text = repr(got)
        raise ValueError(f"Graph.from_json: wanted {wanted}, got {text if len(text) <= 200 else text[:200] + '…'}")
