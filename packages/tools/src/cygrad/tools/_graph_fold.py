"""Boxes that a page folds a graph into: modules, equal modules in a row, and stretches of operations that repeat.

A box lies inside another one or at the top. No box is made around which a cycle would run, so that a folded graph is
drawn in layers like any other.
"""

from collections import Counter, defaultdict

__all__ = ["condense", "fold"]

_FEWEST = 3  # equal parts that become "× n"
_SHORTEST_RUN = 8  # vertices of a stretch that is worth folding
_LONGEST_PERIOD = 8
_ALL = 30  # vertices of a graph that is small enough to be shown as a whole, as in _page.js
_MOST = 45  # vertices and boxes up to which modules are opened


class _Boxes:
    """The boxes so far: `parents` of each, -1 at the top; `of` the innermost box of each vertex."""

    def __init__(self, count):
        self.titles, self.notes, self.kinds, self.parents = [], [], [], []
        self.of = [-1] * count

    def add(self, kind, title, note, parent):
        self.kinds.append(kind)
        self.titles.append(title)
        self.notes.append(note)
        self.parents.append(parent)
        return len(self.parents) - 1


def fold(graph):
    """Return the boxes of a graph.

    Returns
    -------
    list of dict
        ``kind`` ("module", "repeat" or "run"), ``title``, ``note`` and ``parent`` (-1 at the top).
    list of int
        The innermost box of each vertex, or -1.
    """
    boxes = _Boxes(len(graph.vertices))
    _modules(graph, boxes)
    _repeats(graph, boxes)
    _runs(graph, boxes)
    rows = zip(boxes.kinds, boxes.titles, boxes.notes, boxes.parents, strict=True)
    return [dict(zip(("kind", "title", "note", "parent"), row, strict=True)) for row in rows], boxes.of


def _modules(graph, boxes):
    """A box for each module that was called and made a vertex."""
    known = {}
    for k, vertex in enumerate(graph.vertices):
        path = tuple(vertex.details.get("module", ()))
        for depth in range(1, len(path) + 1):
            part = path[:depth]
            if part not in known:
                known[part] = boxes.add("module", part[-1], graph.module_types.get(part, ""), known.get(part[:-1], -1))
        boxes.of[k] = known.get(path, -1)


def _repeats(graph, boxes):
    """A box around sibling modules in a row that are alike: blocks of a transformer, steps of a cell."""
    shapes, starts = _signatures(graph, boxes)
    siblings = defaultdict(list)
    for box, parent in enumerate(boxes.parents):
        if starts[box] is not None:
            siblings[parent].append(box)
    for parent, group in siblings.items():
        group.sort(key=starts.__getitem__)
        first = 0
        for k in range(1, len(group) + 1):
            if k < len(group) and shapes[group[k]] == shapes[group[first]]:
                continue
            alike = group[first:k]
            first = k
            if len(alike) >= _FEWEST and not _makes_cycle(graph, boxes, set(alike)):
                titles = f"{boxes.titles[alike[0]]} … {boxes.titles[alike[-1]]}"
                around = boxes.add("repeat", f"{boxes.notes[alike[0]] or titles} × {len(alike)}", titles, parent)
                for box in alike:
                    boxes.parents[box] = around


def _signatures(graph, boxes):
    """What each box contains, as something that compares equal for equal contents; and where its operations begin."""
    contents = [Counter() for _ in boxes.parents]
    starts = [None] * len(boxes.parents)
    for k, vertex in enumerate(graph.vertices):
        if vertex.kind == "tensor":  # its operation tells of it; the last module's result is no tensor, but the output
            continue
        # names of parameters differ between equal modules, their shapes do not
        label = vertex.lines[:1] if vertex.kind == "operation" else ()
        outputs = vertex.details.get("outputs", vertex.details.get("shape"))
        entry = (vertex.kind, label, repr(outputs))
        box = boxes.of[k]
        while box >= 0:
            contents[box][entry] += 1
            number = vertex.details.get("sequence")
            if number is not None and (starts[box] is None or number < starts[box]):
                starts[box] = number
            box = boxes.parents[box]
    shapes = [(boxes.notes[b], boxes.kinds[b], frozenset(contents[b].items())) for b in range(len(boxes.parents))]
    return shapes, starts


def _makes_cycle(graph, boxes, joined):
    """Whether some way leads out of the boxes that are to be joined, and back in."""
    inside = [_is_in(boxes, box, joined) for box in range(len(boxes.parents))]
    member = [box >= 0 and inside[box] for box in boxes.of]
    after = defaultdict(list)
    for edge in graph.edges:
        if not edge.saved:
            after[edge.tail].append(edge.head)
    waiting = [v for k in range(len(member)) if member[k] for v in after[k] if not member[v]]
    seen = set(waiting)
    for k in waiting:
        for v in after[k]:
            if member[v]:
                return True
            if v not in seen:
                seen.add(v)
                waiting.append(v)
    return False


def _is_in(boxes, box, joined):
    while box >= 0:
        if box in joined:
            return True
        box = boxes.parents[box]
    return False


def _runs(graph, boxes):
    """A box around a stretch, without branches, in which the same few operations come again and again."""
    numbers = {}  # label -> what stands for it: numbers compare faster
    for chain in _chains(graph, boxes):
        shown = [(graph.vertices[k].kind, graph.vertices[k].lines) for k in chain]
        labels = [numbers.setdefault(label, len(numbers)) for label in shown]
        start = 0
        while start < len(chain):
            period, count = _best_period(labels, start)
            if count < _FEWEST or period * count < _SHORTEST_RUN:
                start += 1
                continue
            members = chain[start : start + period * count]
            names = [shown[start + i][1][0] for i in range(period)]
            box = boxes.add("run", f"{' → '.join(names)} × {count}", "", boxes.of[members[0]])
            for k in members:
                boxes.of[k] = box
            start += period * count


def _best_period(labels, start):
    """The period of the longest repetition that starts here, and how often it comes."""
    best = (1, 1)
    for period in range(1, min(_LONGEST_PERIOD, len(labels) - start) + 1):
        if best[0] * best[1] == len(labels) - start:
            break
        end = start + period
        while end < len(labels) and labels[end] == labels[end - period]:
            end += 1
        count = (end - start) // period
        if period * count > best[0] * best[1]:
            best = (period, count)
    return best


def _chains(graph, boxes):
    """Stretches of vertices in one box, each with one way in and one way out."""
    count = len(graph.vertices)
    entering, leaving, after = [0] * count, [0] * count, [-1] * count
    for edge in graph.edges:
        entering[edge.head] += 1
        leaving[edge.tail] += 1
        after[edge.tail] = edge.head
    kinds = ("operation", "tensor")
    fits = [entering[k] == leaving[k] == 1 and vertex.kind in kinds for k, vertex in enumerate(graph.vertices)]
    follows = [fits[k] and after[k] >= 0 and fits[after[k]] and boxes.of[k] == boxes.of[after[k]] for k in range(count)]
    heads = set(range(count)) - {after[k] for k in range(count) if follows[k]}
    for k in sorted(heads):
        if fits[k]:
            chain = [k]
            while follows[chain[-1]]:
                chain.append(after[chain[-1]])
            if len(chain) >= _SHORTEST_RUN:
                yield chain


def condense(graph, vertex_type, edge_type):
    """Return vertices and edges of a graph in which modules and what repeats are one vertex each, as a page begins."""
    boxes, of = fold(graph)
    shown = _shown(boxes, of)
    at, vertices = {}, []
    operations = Counter(shown[box] for box, v in zip(of, graph.vertices, strict=True) if v.kind == "operation")
    for k, vertex in enumerate(graph.vertices):
        box = shown[of[k]]
        key = ("vertex", k) if box < 0 else ("box", box)
        if key not in at:
            at[key] = len(vertices)
            vertices.append(vertex if box < 0 else _closed(boxes, box, operations[box], vertex_type))
        at["vertex", k] = at[key]
    edges = {}
    for edge in graph.edges:
        tail, head = at["vertex", edge.tail], at["vertex", edge.head]
        if tail != head:
            edges.setdefault((tail, head, edge.saved), set()).add(edge.label)
    return vertices, [
        edge_type(tail, head, labels.pop() if len(labels) == 1 else "", saved)
        for (tail, head, saved), labels in edges.items()
    ]


def _shown(boxes, of):
    """The outermost closed box around each box, -1 if it and all around it are open; for -1 too."""
    inside, members = defaultdict(list), Counter(of)
    for box, entry in enumerate(boxes):
        inside[entry["parent"]].append(box)
    small = len(of) <= _ALL and all(entry["kind"] == "module" for entry in boxes)
    visible, waiting, opened = members[-1] + len(inside[-1]), list(inside[-1]), set()
    for box in waiting:
        more = len(inside[box]) + members[box] - 1
        if boxes[box]["kind"] == "module" and (small or (inside[box] and visible + more <= _MOST)):
            opened.add(box)
            visible += more
            waiting += inside[box]
    shown = {-1: -1}
    stack = list(inside[-1])
    while stack:
        box = stack.pop()
        around = shown[boxes[box]["parent"]]
        shown[box] = around if around >= 0 else -1 if box in opened else box
        stack += inside[box]
    return shown


def _closed(boxes, box, operations, vertex_type):
    entry = boxes[box]
    path, above = [], entry["parent"]
    while above >= 0:
        if boxes[above]["kind"] == "module":
            path.insert(0, boxes[above]["title"])
        above = boxes[above]["parent"]
    module = entry["kind"] == "module"
    title = ".".join([*path, entry["title"]]) if module else entry["title"]
    count = f"{operations} operation{'' if operations == 1 else 's'}" if operations else ""
    note = entry["note"] if module or not entry["note"] else ".".join([*path, entry["note"]])
    lines = tuple(line for line in (title, note, count) if line)
    place = [*path, entry["title"]] if module else path
    return vertex_type("module" if module else "repeat", lines, {"module": place} if place else {})
