"""Graphs as text for other programs: DOT and Mermaid."""

from cygrad.tools import _graph_svg
from cygrad.tools._svg import clean

__all__ = ["to_dot", "to_mermaid"]


def to_dot(graph):
    """Return a graph in the DOT language."""
    lines = ["digraph {", '  node [fontname="Helvetica", fontsize=11, style=filled];', "  edge [fontsize=9];"]
    for k, vertex in enumerate(graph.vertices):
        kind = _graph_svg.KINDS[vertex.kind]
        style = ', style="filled,dashed"' if kind.dashed else ""
        label = "\\n".join(_quoted(line) for line in vertex.lines)
        lines.append(
            f'  n{k} [label="{label}", shape={kind.shape}, fillcolor="{kind.fill}", color="{kind.stroke}"{style}];'
        )
    for edge in graph.edges:
        options = [f'label="{_quoted(edge.label)}"'] * bool(edge.label) + ["style=dashed"] * edge.saved
        attributes = f" [{', '.join(options)}]" if options else ""
        lines.append(f"  n{edge.tail} -> n{edge.head}{attributes};")
    return "\n".join([*lines, "}", ""])


def _quoted(text):
    """Escape for a quoted string of DOT."""
    return clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")


def to_mermaid(graph):
    """Return a graph as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    lines += _subgraphs(graph)
    for edge in graph.edges:
        arrow = "-.->" if edge.saved else "-->"
        label = f'|"{_entities(edge.label)}"|' if edge.label else ""
        lines.append(f"  n{edge.tail} {arrow}{label} n{edge.head}")
    present = {vertex.kind for vertex in graph.vertices}
    for name, kind in _graph_svg.KINDS.items():
        if name in present:
            dash = ",stroke-dasharray:4 3" if kind.dashed else ""
            lines.append(f"  classDef {name} fill:{kind.fill},stroke:{kind.stroke},color:#111827{dash}")
    return "\n".join([*lines, ""])


def _subgraphs(graph):
    """Yield the vertices, inside the modules that they belong to."""
    members = {(): []}
    for k, vertex in enumerate(graph.vertices):
        path = tuple(vertex.details.get("module", ()))
        for depth in range(1, len(path) + 1):
            members.setdefault(path[:depth], [])
        members[path].append(k)
    numbers = {path: number for number, path in enumerate(members)}
    inner = {path: [] for path in members}
    for path in members:
        if path:
            inner[path[:-1]].append(path)
    waiting = [((), False)]
    while waiting:
        path, done = waiting.pop()
        indent = "  " * (len(path) + 1)
        if done:
            yield "  " * len(path) + "end"
            continue
        if path:
            kind = graph.module_types.get(path)
            title = path[-1] + (f": {kind}" if kind else "")
            yield f'{"  " * len(path)}subgraph m{numbers[path]}["{_entities(title)}"]'
            waiting.append((path, True))
        for k in members[path]:
            yield indent + _node(k, graph.vertices[k])
        waiting += [(p, False) for p in reversed(inner[path])]


def _node(k, vertex):
    text = "<br/>".join(_entities(line) for line in vertex.lines)
    left, right = ("([", "])") if _graph_svg.KINDS[vertex.kind].shape == "ellipse" else ("[", "]")
    return f'n{k}{left}"{text}"{right}:::{vertex.kind}'


# Mermaid has its own entities, and reads Markdown and HTML in labels.
_SPECIAL = {c: f"#{ord(c)};" for c in "#&<>\"'`*_~\\[](){}|"}
_ENTITIES = str.maketrans(_SPECIAL | dict.fromkeys("\n\r\t\x85\u2028\u2029", " "))


def _entities(text):
    return clean(text).translate(_ENTITIES) or "#8203;"
