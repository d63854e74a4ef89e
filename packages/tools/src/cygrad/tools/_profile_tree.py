"""From what the engine wrote down to events that know what ran in what, in which module, and in which direction."""

from dataclasses import dataclass, field

from cygrad.autograd import _core

KINDS = ("op", "node", "region")


@dataclass(eq=False)
class Event:
    """Something that ran.

    Attributes
    ----------
    kind : str
        ``"op"``, an operation; ``"node"``, the backward of a node of the graph; or ``"region"``, the call of a module,
        the step of an optimizer or what `record_function` names.
    name : str
    start, duration : float
        In seconds, from the beginning of the profile.
    self_duration : float
        Without the parts that are events themselves.
    phase : str
        ``"forward"`` or ``"backward"``.
    module : str or None
        The path of the module that ran it, or whose operation it is the backward of.
    bytes : int
        Of an operation: bytes of operands and result.
    flops : int
        Of products and convolutions: multiplications and additions.
    shapes : tuple or None
        Of an operation: the shapes of its operands.
    live_bytes : int or None
        Bytes of tensors in use afterwards, if the profile asked for them.
    grown : int
        By how much these are more than after the event that ended before: what it made and left, less what was freed.
    thread : int
    children : list of Event
    """

    kind: str
    name: str
    start: float
    duration: float
    thread: int
    bytes: int = 0
    flops: int = 0
    shapes: tuple = None
    live_bytes: int = None
    grown: int = 0
    region: str = None
    self_duration: float = 0.0
    phase: str = "forward"
    module: str = None
    parent: "Event" = field(default=None, repr=False)
    children: list = field(default_factory=list, repr=False)


def build(raw, origin, live=None):
    """All events, in the order in which they began; `live` bytes were in use before."""
    grown = []
    for entry in raw:  # in the order in which they ended
        grown.append(0 if entry[8] is None or live is None else entry[8] - live)
        live = live if entry[8] is None else entry[8]
    order = sorted(range(len(raw)), key=lambda k: (raw[k][2], -raw[k][3]))
    made_by = {}  # node -> module whose operation made it; nodes' addresses are used again, so in the order of time
    stacks, events = {}, []
    for k in order:
        kind, name, began, ended, thread, node, moved, shapes, live = raw[k]
        start, duration = (began - origin) / 1e9, (ended - began) / 1e9
        event = Event(KINDS[kind], name, start, duration, thread, live_bytes=live, grown=grown[k])
        if kind == 0:
            _fill_op(event, name, moved, shapes)
        elif kind == 2:
            event.region, event.name = name
        stack = stacks.setdefault(thread, [])
        while stack and stack[-1][1] < ended:
            stack.pop()
        if stack:
            event.parent = stack[-1][0]
            event.parent.children.append(event)
        _place(event, node, made_by)
        if kind == 0 and node and event.phase == "forward":
            made_by[node] = event.module
        stack.append((event, ended))
        events.append(event)
    for event in events:
        event.self_duration = max(0.0, event.duration - sum(child.duration for child in event.children))
    return events


def _fill_op(event, op, moved, shapes):
    event.name = _core._row_name(op)
    event.bytes = moved
    given, result = shapes
    event.shapes = tuple(None if s is None else tuple(s) for s in given)
    event.flops = _flops(event.name, event.shapes, tuple(result))


def _place(event, node, made_by):
    """Module and direction: from the region it runs in, or from the operation that made the node."""
    around = event.parent
    if event.kind == "node":
        event.phase = "backward"
        event.module = made_by.get(node)
    elif event.kind == "region" and event.region == "module":
        event.module = event.name
        event.phase = around.phase if around else "forward"
    elif around is not None:
        event.module, event.phase = around.module, around.phase


def _count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def _flops(name, shapes, result):
    """Multiplications and additions of a product; other operations are limited by memory, and count as 0."""
    if name in ("mm", "bmm"):
        return 2 * _count(result) * shapes[0][-1]
    if name == "addmm":
        return 2 * _count(result) * shapes[1][-1]
    if name in ("mv", "dot"):
        return 2 * _count(shapes[0])
    if name == "convolution":
        return 2 * _count(result) * _count(shapes[1][1:])
    if name == "convolution_input":
        return 2 * _count(shapes[0]) * _count(shapes[1][1:])
    if name == "convolution_weight":
        return 2 * _count(shapes[0]) * _count(result[1:])
    return 0
