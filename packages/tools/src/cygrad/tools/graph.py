"""The graph that backward walks: pictures (SVG, DOT, Mermaid), a page to look around in (HTML), and data (JSON).

No graphviz program is needed, and pages open from disk without a network.

Two views of the same record:

- ``"backward"``: nodes as the engine sees them. From the result, arrows follow ``next_functions`` down to
  ``AccumulateGrad`` and the leaves whose ``.grad`` it adds to.
- ``"forward"``: tensors as boxes, operations as ellipses, arrows in the direction in which data flowed. Only what was
  recorded is there: tensors that need no gradient left no trace.

`of_model` runs a model and knows of each operation which module ran it, and in which line of the user's program.
"""

import gc
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import cygrad
from cygrad.tools import _graph_details, _graph_fold, _graph_html, _graph_json, _graph_svg, _graph_text
from cygrad.tools._graph_modules import ModuleCalls

__all__ = ["Edge", "Graph", "ModuleCalls", "Vertex", "of_model", "save", "to_dot", "to_svg"]

_VIEWS = ("backward", "forward")
_LARGEST_SHOWN = 3000  # vertices that a notebook still draws by itself


@contextmanager
def _no_collections():
    """Making many small objects that all stay would have the garbage collector look through them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class Vertex:
    """A box or ellipse of the drawing.

    Attributes
    ----------
    kind : str
        "output", "operation", "accumulate", "parameter", "leaf", "tensor" or "saved"; "module" or "repeat" in what
        :meth:`Graph.folded` made.
    lines : tuple of str
        The label; its first line is the name.
    details : dict
        What else is known, see ``graph.schema.json`` beside this file.
    """

    kind: str
    lines: tuple
    details: dict = field(default_factory=dict, compare=False, hash=False)


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
    show_storages : bool, default False
        Say of each tensor which memory it lies in, how often that was written, and of what it is a view.
    modules : ModuleCalls, optional
        What was noted while a model ran, see :func:`of_model`.

    Attributes
    ----------
    vertices : list of Vertex
    edges : list of Edge
    module_types : dict
        Class names of modules by path, a tuple of names.

    Raises
    ------
    TypeError
        If a root is no tensor, or `modules` something else.
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

    def __init__(self, root, params=None, *, view="backward", show_saved=False, show_storages=False, modules=None):
        if view not in _VIEWS:
            raise ValueError(f"Graph: view is one of {_VIEWS}, not {view!r}")
        if modules is not None and not isinstance(modules, ModuleCalls):
            raise TypeError(f"Graph: modules is what ModuleCalls noted, got a {type(modules).__name__}")
        self.view = view
        self.vertices = []
        self.edges = []
        self.module_types = {} if modules is None else dict(modules.types)
        self._modules = modules
        self._show_storages = show_storages
        self._storages = _graph_details.Storages()
        self._names = _Names(modules.model if params is None and modules is not None else params)
        self._index = {}
        self._keep = []  # what _index knows by id must not die while it does
        roots = _roots(root)
        nodes = _reachable(roots)
        with _no_collections():
            if view == "backward":
                self._backward(roots, nodes)
            else:
                self._forward(roots, nodes)
            if show_saved:
                for node in nodes:
                    self._saved(node)
        del self._names, self._index, self._keep, self._storages, self._modules, self._show_storages

    def __repr__(self):
        return f"<Graph: {self.view} view, {len(self.vertices)} vertices, {len(self.edges)} edges>"

    def _repr_svg_(self):
        """Show the drawing in a notebook; a graph too large for that shows its ``repr``."""
        return self.to_svg() if len(self.vertices) <= _LARGEST_SHOWN else None

    def _repr_html_(self):
        """Show the page in a notebook, in a frame of its own; a graph too large for that shows its ``repr``."""
        return _graph_html.frame(self.to_html()) if len(self.vertices) <= _LARGEST_SHOWN else None

    def _repr_mimebundle_(self, include=None, exclude=None):
        """Offer a notebook text, picture and page; it shows the richest that it can."""
        found = {"text/plain": repr(self), "image/svg+xml": self._repr_svg_(), "text/html": self._repr_html_()}
        return {
            kind: text
            for kind, text in found.items()
            if text is not None and (include is None or kind in include) and kind not in (exclude or ())
        }

    def __eq__(self, other):
        """Whether another graph shows the same, details included."""
        if not isinstance(other, Graph):
            return NotImplemented
        return _graph_json.to_data(self) == _graph_json.to_data(other)

    __hash__ = None

    @_no_collections()
    def to_dot(self):
        """Return the graph in the DOT language of graphviz."""
        return _graph_text.to_dot(self)

    @_no_collections()
    def to_mermaid(self):
        """Return the graph as a Mermaid flowchart, which Markdown of many sites shows; modules are subgraphs."""
        return _graph_text.to_mermaid(self)

    @_no_collections()
    def to_svg(self):
        """Return the graph as an SVG document."""
        counts = Counter(v.kind for v in self.vertices)
        title = f"{self.view} graph of {counts['operation']} operations"
        trunk = "head" if self.view == "backward" else "tail"
        return _graph_svg.draw(self.vertices, self.edges, trunk=trunk, title=title)

    @_no_collections()
    def to_json(self, indent=None):
        """Return the graph as JSON, of the form that ``graph.schema.json`` beside this file describes."""
        return _graph_json.dumps(self, indent)

    @classmethod
    def from_json(cls, text):
        """Return the graph that :meth:`to_json` wrote.

        Raises
        ------
        ValueError
            If it is no JSON, or of another form.
        """
        graph = object.__new__(cls)
        graph.view, graph.vertices, graph.edges, graph.module_types = _graph_json.loads(text, Vertex, Edge)
        return graph

    @_no_collections()
    def folded(self):
        """Return a graph in which modules, and what repeats, are one vertex each, as far as a page shows them closed.

        For pictures of large models: all formats take it.

        Examples
        --------
        >>> y = x = cygrad.ones(2, requires_grad=True)
        >>> for _ in range(100):
        ...     y = y.sin()
        >>> drawing = Graph(y, {"x": x}, view="forward")
        >>> drawing, drawing.folded()
        (<Graph: forward view, 201 vertices, 200 edges>, <Graph: forward view, 4 vertices, 3 edges>)
        """
        graph = object.__new__(type(self))
        graph.view, graph.module_types = self.view, dict(self.module_types)
        graph.vertices, graph.edges = _graph_fold.condense(self, Vertex, Edge)
        return graph

    @_no_collections()
    def to_html(self, title=None):
        """Return a page to look around in, one file that needs no network.

        Modules and repeated parts are folded as boxes that open; a click on anything shows its shapes, dtypes, bytes
        saved for backward, and the user's line.

        Parameters
        ----------
        title : str, optional
            Of the page.
        """
        return _graph_html.page(self, title)

    def save(self, path):
        """Write the graph to a file.

        Parameters
        ----------
        path : str or PathLike
            Its suffix decides: ``.svg``, ``.html``, ``.json``, ``.mmd``, ``.dot`` or ``.gv``.

        Raises
        ------
        ValueError
            If the suffix is another one.
        """
        path = Path(path)
        writers = {
            ".svg": self.to_svg,
            ".dot": self.to_dot,
            ".gv": self.to_dot,
            ".html": self.to_html,
            ".json": self.to_json,
            ".mmd": self.to_mermaid,
        }
        if path.suffix.lower() not in writers:
            kinds = ", ".join(writers)
            raise ValueError(f"Graph.save: the name ends in one of {kinds}, not in {path.suffix!r}: {str(path)!r}")
        path.write_text(writers[path.suffix.lower()](), encoding="utf-8")

    def _vertex(self, key, kind, *lines, details=dict):
        """Return the position of the vertex known as `key`, made if it is new; `details` are asked for then."""
        if key not in self._index:
            self._index[key] = len(self.vertices)
            self.vertices.append(Vertex(kind, tuple(line for line in lines if line), details()))
        return self._index[key]

    def _tensor(self, key, kind, name, tensor, module=None):
        """Return the position of the vertex of a tensor that is there; `module` as details, if it is no parameter's."""
        if key in self._index:
            return self._index[key]
        self._keep.append(tensor)
        details = _graph_details.of_tensor(tensor, self._storages, self._names.of)
        lines = [name, _describe(tensor)]
        if self._show_storages:
            lines.append(f"storage {details['storage']}, version {details['version']}")
            if "view_of" in details:
                lines.append(f"view of {details['view_of']}")
        return self._vertex(key, kind, *lines, details=lambda: details | (module or self._module_of(tensor)))

    def _module_of(self, item):
        """The module that a node belongs to, or a parameter, as details."""
        if self._modules is None:
            return {}
        parameter = isinstance(item, cygrad.Tensor)
        path = self._modules.path_of_parameter(item) if parameter else self._modules.path_of(item)
        return {"module": list(path)} if path else {}

    def _node_details(self, node):
        return _graph_details.of_node(node, self._storages) | self._module_of(node)

    def _link(self, tail, head, number=0, saved=False):
        self.edges.append(Edge(tail, head, str(number) if number else "", saved))

    def _leaf(self, tensor):
        kind = "parameter" if getattr(tensor, "_is_param", False) else "leaf"
        return self._tensor(("tensor", id(tensor)), kind, self._names.of(tensor) or kind, tensor)

    def _output(self, position, root, count):
        name = self._names.of(root) or ("output" if count == 1 else f"output {position}")
        return self._tensor(("output", id(root)), "output", name, root)

    def _operation(self, node):
        if node in self._index:
            return self._index[node]
        kind = "accumulate" if _is_accumulate(node) else "operation"
        if kind == "accumulate":
            return self._vertex(node, kind, node.name(), details=lambda: self._module_of(node.variable))
        return self._vertex(node, kind, node.name(), _outputs_text(node), details=lambda: self._node_details(node))

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
            name = re.sub(r"Backward\d*$", "", node.name())
            here = self._vertex(node, "operation", name, details=lambda node=node: self._node_details(node))
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
            return self._tensor(key, "output", name, root)
        name = self._names.made_by(node, number)
        details = self._made_details(node, number)
        return self._vertex(key, "tensor", name, _output_text(node, number), details=lambda: details)

    def _made_details(self, node, number):
        """What is known of a tensor that lies between: it may be gone."""
        outputs = node._output_meta
        details = _graph_details.output(outputs[number]) if number < len(outputs) else None
        return (details or {}) | self._module_of(node)

    def _saved(self, node):
        """Draw what `node` keeps for backward; a leaf is pointed at where it stands."""
        if _is_accumulate(node):
            return
        here = self._index[node]
        try:
            tensors = getattr(node, "saved_tensors", None) or node._saved_tensors
        except RuntimeError:
            details = self._module_of(node)
            lost = self._vertex(("lost", node), "saved", "freed or changed since", details=lambda: details)
            self._link(*((here, lost) if self.view == "backward" else (lost, here)), saved=True)
            return
        for tensor in tensors:
            if tensor is None:
                continue
            known = self._index.get(("tensor", id(tensor)), self._index.get(("made", tensor.grad_fn, tensor.output_nr)))
            if known is None:
                name, module = self._names.of(tensor) or "saved", self._module_of(node)
                known = self._tensor(("saved", id(tensor)), "saved", name, tensor, module)
            # in the forward view what is kept stands before the operation, unless it is the operation's own result
            if self.view == "backward" or tensor.grad_fn == node:
                self._link(here, known, saved=True)
            else:
                self._link(known, here, saved=True)


def of_model(model, *args, view="forward", show_saved=False, show_storages=False, **kwargs):
    """Run a model, and return the graph of its results, with what each module recorded and the user's lines.

    Parameters
    ----------
    model : Module
        It is called with the further arguments; its results, in nested containers too, are the roots.
    *args, **kwargs
        What the model takes.
    view, show_saved, show_storages
        See :class:`Graph`.

    Raises
    ------
    RuntimeError
        If no result requires gradients.
    """
    calls, result = run(model, args, kwargs)
    return of_result(calls, result, view=view, show_saved=show_saved, show_storages=show_storages)


def run(model, args, kwargs=None):
    """Run a model with everything noted; return a ModuleCalls, and what it returned."""
    with cygrad.enable_grad(), ModuleCalls(model) as calls:
        return calls, model(*args, **(kwargs or {}))


def of_result(calls, result, **options):
    """Return the graph of what `run` returned."""
    roots = [t for t in _tensors(result) if t.requires_grad]
    if not roots:
        raise RuntimeError(f"of_model: {type(calls.model).__name__} returned no tensor that requires gradients")
    return Graph(roots, modules=calls, **options)


def _tensors(value):
    """Yield the tensors in nested containers."""
    if isinstance(value, cygrad.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _tensors(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _tensors(entry)


def to_dot(root, params=None, **options):
    """Return the graph of `root` in the DOT language; takes what :class:`Graph` takes."""
    return Graph(root, params, **options).to_dot()


def to_svg(root, params=None, **options):
    """Return the graph of `root` as an SVG document; takes what :class:`Graph` takes."""
    return Graph(root, params, **options).to_svg()


def save(root, path, params=None, **options):
    """Write the graph of `root` to a file, see :meth:`Graph.save`; takes what :class:`Graph` takes."""
    Graph(root, params, **options).save(path)


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
    outputs = node._output_meta
    more = f" and {len(outputs) - 1} more" if len(outputs) > 1 else ""
    return (_shape_text(*outputs[0]) if outputs else "") + more
