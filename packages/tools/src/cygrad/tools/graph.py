"""The graph that backward walks, as DOT text or as an SVG picture; no graphviz program is needed.

Two views of the same record:

- ``"backward"``: nodes as the engine sees them. From the result, arrows follow ``next_functions`` down to
  ``AccumulateGrad`` and the leaves whose ``.grad`` it adds to.
- ``"forward"``: tensors as boxes, operations as ellipses, arrows in the direction in which data flowed. Only what was
  recorded is there: tensors that need no gradient left no trace.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import cygrad
from cygrad.tools import _graph_svg
from cygrad.tools._svg import clean

__all__ = ["Edge", "Graph", "Vertex", "save", "to_dot", "to_svg"]

_VIEWS = ("backward", "forward")
_LARGEST_SHOWN = 3000  # vertices that a notebook still draws by itself


@dataclass(frozen=True)
class Vertex:
    """A box or ellipse of the drawing.

    Attributes
    ----------
    kind : str
        "output", "operation", "accumulate", "parameter", "leaf", "tensor" or "saved".
    lines : tuple of str
        The label; its first line is the name.
    """

    kind: str
    lines: tuple


@dataclass(frozen=True)
class Edge:
    """An arrow of the drawing.

    Attributes
    ----------
    tail, head : int
        Positions in the graph's list of vertices.
    label : str
        Which output of the operation it concerns, where that is not the first.
    saved : bool
        Whether it leads to a saved tensor instead of to another operation.
    """

    tail: int
    head: int
    label: str = ""
    saved: bool = False


class Graph:
    """A snapshot of what was recorded for one or more tensors.

    Parameters
    ----------
    root : Tensor, or sequence of Tensor
        Results to start from; each must require gradients.
    params : Mapping of str to Tensor, iterable of (str, Tensor), or Module, optional
        Names for tensors in the drawing: leaves, results, and in the forward view what lies between.
    view : {"backward", "forward"}
        Which way to look at it; see the module.
    show_saved : bool, default False
        Also draw what each operation saved for backward.

    Attributes
    ----------
    vertices : list of Vertex
    edges : list of Edge

    Raises
    ------
    TypeError
        If a root is no tensor.
    RuntimeError
        If a root was not recorded.
    ValueError
        If `view` is unknown or there is no root.

    Examples
    --------
    >>> a = cygrad.tensor([2., 3.], requires_grad=True)
    >>> Graph((a * 3).mean(), {"a": a})
    <Graph: backward view, 5 vertices, 4 edges>
    """

    def __init__(self, root, params=None, *, view="backward", show_saved=False):
        if view not in _VIEWS:
            raise ValueError(f"Graph: view is one of {_VIEWS}, not {view!r}")
        self.view = view
        self.vertices = []
        self.edges = []
        self._names = _Names(params)
        self._index = {}
        self._keep = []  # what _index knows by id must not die while it does
        roots = _roots(root)
        nodes = _reachable(roots)
        if view == "backward":
            self._backward(roots, nodes)
        else:
            self._forward(roots, nodes)
        if show_saved:
            for node in nodes:
                self._saved(node)
        del self._names, self._index, self._keep

    def __repr__(self):
        return f"<Graph: {self.view} view, {len(self.vertices)} vertices, {len(self.edges)} edges>"

    def _repr_svg_(self):
        """Show the drawing in a notebook; a graph too large for that shows its ``repr``."""
        return self.to_svg() if len(self.vertices) <= _LARGEST_SHOWN else None

    def to_dot(self):
        """Return the graph in the DOT language of graphviz."""
        lines = ["digraph {", '  node [fontname="Helvetica", fontsize=11, style=filled];', "  edge [fontsize=9];"]
        for k, vertex in enumerate(self.vertices):
            kind = _graph_svg.KINDS[vertex.kind]
            style = ', style="filled,dashed"' if kind.dashed else ""
            label = "\\n".join(_quote(line) for line in vertex.lines)
            lines.append(
                f'  n{k} [label="{label}", shape={kind.shape}, fillcolor="{kind.fill}", color="{kind.stroke}"{style}];'
            )
        for edge in self.edges:
            options = [f'label="{_quote(edge.label)}"'] * bool(edge.label) + ["style=dashed"] * edge.saved
            attributes = f" [{', '.join(options)}]" if options else ""
            lines.append(f"  n{edge.tail} -> n{edge.head}{attributes};")
        return "\n".join([*lines, "}", ""])

    def to_svg(self):
        """Return the graph as an SVG document."""
        counts = Counter(v.kind for v in self.vertices)
        title = f"{self.view} graph of {counts['operation']} operations"
        trunk = "head" if self.view == "backward" else "tail"
        return _graph_svg.draw(self.vertices, self.edges, trunk=trunk, title=title)

    def save(self, path):
        """Write the graph to a file.

        Parameters
        ----------
        path : str or PathLike
            Its suffix decides: ``.svg``, or ``.dot`` or ``.gv``.

        Raises
        ------
        ValueError
            If the suffix is another one.
        """
        path = Path(path)
        writers = {".svg": self.to_svg, ".dot": self.to_dot, ".gv": self.to_dot}
        if path.suffix.lower() not in writers:
            raise ValueError(f"Graph.save: the name ends in .svg, .dot or .gv, not in {path.suffix!r}: {str(path)!r}")
        path.write_text(writers[path.suffix.lower()](), encoding="utf-8")

    def _vertex(self, key, kind, *lines):
        """Return the position of the vertex known as `key`, made if it is new."""
        if key not in self._index:
            self._index[key] = len(self.vertices)
            self.vertices.append(Vertex(kind, tuple(line for line in lines if line)))
        return self._index[key]

    def _link(self, tail, head, number=0, saved=False):
        self.edges.append(Edge(tail, head, str(number) if number else "", saved))

    def _leaf(self, tensor):
        kind = "parameter" if getattr(tensor, "_is_param", False) else "leaf"
        self._keep.append(tensor)
        return self._vertex(("tensor", id(tensor)), kind, self._names.of(tensor) or kind, _describe(tensor))

    def _output(self, position, root, count):
        name = self._names.of(root) or ("output" if count == 1 else f"output {position}")
        return self._vertex(("output", id(root)), "output", name, _describe(root))

    def _operation(self, node):
        kind = "accumulate" if _is_accumulate(node) else "operation"
        detail = "" if kind == "accumulate" else _outputs_text(node)
        return self._vertex(node, kind, node.name(), detail)

    def _backward(self, roots, nodes):
        for position, root in enumerate(roots):
            if root.grad_fn is None:
                self._leaf(root)
            else:
                self._link(self._output(position, root, len(roots)), self._operation(root.grad_fn), root.output_nr)
        for node in nodes:
            here = self._operation(node)
            if _is_accumulate(node):
                self._link(here, self._leaf(node.variable))
            for after, number in node.next_functions:
                if after is not None:
                    self._link(here, self._operation(after), number)

    def _forward(self, roots, nodes):
        results = {}
        for position, root in enumerate(roots):
            if root.grad_fn is None:
                self._leaf(root)
            else:
                results[root.grad_fn, root.output_nr] = (position, root)
        for node in nodes:
            if _is_accumulate(node):
                continue
            here = self._vertex(node, "operation", re.sub(r"Backward\d*$", "", node.name()))
            for before, number in node.next_functions:
                if before is None:
                    continue
                if _is_accumulate(before):
                    self._link(self._leaf(before.variable), here)
                else:
                    self._link(self._made(before, number, results, len(roots)), here)
        for node, number in results:
            self._made(node, number, results, len(roots))
        made = [(key, v) for key, v in self._index.items() if isinstance(key, tuple) and key[0] == "made"]
        for (_, node, number), position in made:
            self._link(self._index[node], position, number)

    def _made(self, node, number, results, count):
        """Return the vertex of a tensor that an operation made: a result, or one that lies between."""
        key = ("made", node, number)
        if (node, number) in results:
            position, root = results[node, number]
            name = self._names.of(root) or ("output" if count == 1 else f"output {position}")
            return self._vertex(key, "output", name, _describe(root))
        name = self._names.made_by(node, number)
        return self._vertex(key, "tensor", *((name,) if name else ()), _output_text(node, number))

    def _saved(self, node):
        """Draw what `node` keeps for backward; a leaf is pointed at where it stands."""
        if _is_accumulate(node):
            return
        here = self._index[node]
        try:
            tensors = getattr(node, "saved_tensors", None) or node._saved_tensors
        except RuntimeError:
            lost = self._vertex(("lost", node), "saved", "freed or changed since")
            self._link(*((here, lost) if self.view == "backward" else (lost, here)), saved=True)
            return
        for tensor in tensors:
            if tensor is None:
                continue
            self._keep.append(tensor)
            known = self._index.get(("tensor", id(tensor)), self._index.get(("made", tensor.grad_fn, tensor.output_nr)))
            if known is None:
                name = self._names.of(tensor) or "saved"
                known = self._vertex(("saved", id(tensor)), "saved", name, _describe(tensor))
            # in the forward view what is kept stands before the operation, unless it is the operation's own result
            if self.view == "backward" or tensor.grad_fn == node:
                self._link(here, known, saved=True)
            else:
                self._link(known, here, saved=True)


def to_dot(root, params=None, *, view="backward", show_saved=False):
    """Return the graph of `root` in the DOT language; takes what :class:`Graph` takes."""
    return Graph(root, params, view=view, show_saved=show_saved).to_dot()


def to_svg(root, params=None, *, view="backward", show_saved=False):
    """Return the graph of `root` as an SVG document; takes what :class:`Graph` takes."""
    return Graph(root, params, view=view, show_saved=show_saved).to_svg()


def save(root, path, params=None, *, view="backward", show_saved=False):
    """Write the graph of `root` to a ``.svg`` or ``.dot`` file; takes what :class:`Graph` takes."""
    Graph(root, params, view=view, show_saved=show_saved).save(path)


class _Names:
    """What the user calls tensors."""

    def __init__(self, params):
        self._by_id = {}
        self._by_maker = {}
        self._keep = []
        for name, tensor in self._pairs(params):
            if not isinstance(tensor, cygrad.Tensor):
                raise TypeError(f"Graph: params gives names to tensors, but {name!r} is a {type(tensor).__name__}")
            known = self._by_id.get(id(tensor))
            self._by_id[id(tensor)] = f"{known} = {name}" if known else str(name)  # tied weights have several names
            self._keep.append(tensor)
            if tensor.grad_fn is not None:
                self._by_maker.setdefault((tensor.grad_fn, tensor.output_nr), str(name))

    @staticmethod
    def _pairs(params):
        if params is None:
            return ()
        if isinstance(params, Mapping):
            return params.items()
        if hasattr(params, "named_parameters"):
            return params.named_parameters(remove_duplicate=False)
        return params

    def of(self, tensor):
        return self._by_id.get(id(tensor), "")

    def made_by(self, node, number):
        return self._by_maker.get((node, number), "")


def _roots(root):
    roots = tuple(root) if isinstance(root, (tuple, list)) else (root,)
    if not roots:
        raise ValueError("Graph: an empty sequence was given, at least one tensor is needed")
    for k, t in enumerate(roots):
        if not isinstance(t, cygrad.Tensor):
            raise TypeError(f"Graph: the graph is that of a tensor, but root {k} is a {type(t).__name__}")
        if not t.requires_grad:
            raise RuntimeError(
                f"Graph: root {k}, shape {tuple(t.shape)}, does not require grad and has no grad_fn: nothing was "
                "recorded for it. Was it computed under no_grad, or from tensors that need no gradient?"
            )
    return tuple({id(t): t for t in roots}.values())


def _reachable(roots):
    """List all nodes below the roots, nearest first."""
    nodes = {root.grad_fn: None for root in roots if root.grad_fn is not None}
    queue = list(nodes)
    for node in queue:
        for after, _ in node.next_functions:
            if after is not None and after not in nodes:
                nodes[after] = None
                queue.append(after)
    return queue


def _is_accumulate(node):
    return node.name() == "AccumulateGrad"


def _shape_text(shape, dtype):
    return f"{tuple(shape)} {str(dtype).removeprefix('torch.')}"


def _describe(tensor):
    return _shape_text(tensor.shape, tensor.dtype)


def _output_text(node, number):
    """Describe output `number` of a node, as far as the node knows it."""
    outputs = node._output_meta
    return _shape_text(*outputs[number]) if number < len(outputs) else ""


def _outputs_text(node):
    count = len(node._output_meta)
    more = f" and {count - 1} more" if count > 1 else ""
    return _output_text(node, 0) + more


def _quote(text):
    """Escape for a quoted string of DOT."""
    return clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
