"""Layered drawing of acyclic graphs: from sizes and edges to coordinates.

The method is that of Sugiyama, Tagawa and Toda (1981): vertices get layers by longest path, an edge over several layers
gets a waypoint in each layer between, layers are ordered by barycentres so that few edges cross, and coordinates follow
from the order. Three things are our own choice:

- Edges with a common end share their waypoints: a weight used by every step of a loop is reached by one trunk instead
  of hundreds of parallel lines, and the waypoints stay few.
- The x coordinates of a layer are the exact least-squares answer to "as near as possible to the neighbours' mean, in
  this order, this far apart": isotonic regression, solved by pooling adjacent violators (Barlow et al., 1972).
- Where waypoints would still be too many, the longest edges run in lanes beside the drawing.

Edges are bent only between layers, where there are no boxes, and pass through a layer only at waypoints, so that no
edge crosses a box.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise

GAP_X = 22.0
GAP_Y = 26.0
WAYPOINT_WIDTH = 8.0
LANE_WIDTH = 9.0
PORT_SPACING = 16.0

_TRIES = 24
_SWEEPS = 24
_WORK = 200_000  # vertex visits that ordering and placing may each spend; fewer sweeps on graphs that are large


@dataclass
class Layout:
    """Where everything goes, in pixels from the top left corner.

    Attributes
    ----------
    centers : list of (float, float)
        Middle of each vertex.
    routes : list of Route
        The way of each edge.
    """

    centers: list
    routes: list
    width: float
    height: float


@dataclass
class Route:
    """The way of an edge, or what of it is not drawn already as part of another edge's way.

    Attributes
    ----------
    points : list of (float, float)
        From the bottom of one layer to the top of another. Between two points it runs straight if their x agree, else
        in a curve that is vertical at both.
    at_tail, at_head : bool
        Whether it really begins at the tail, and ends at the head; if not, it leaves or joins a trunk there.
    """

    points: list
    at_tail: bool = True
    at_head: bool = True


@dataclass
class _Ranked:
    """A graph in which every link joins neighbouring layers; vertices from `real` on are waypoints."""

    real: int
    ranks: list
    down: list  # neighbours in the next layer
    up: list
    ways: list  # per edge its waypoints by layer, in a dict that it shares with the other edges of its trunk
    beside: set = field(default_factory=set)  # edges that run in a lane, without waypoints
    layers: list = field(default_factory=list)
    place: list = field(default_factory=list)  # position in the layer

    def add_waypoint(self, rank):
        self.ranks.append(rank)
        self.down.append([])
        self.up.append([])
        return len(self.ranks) - 1

    def visited(self, k, edge, r):
        """Return the vertex at which edge `k` passes layer `r`."""
        u, v = edge
        return u if r == self.ranks[u] else v if r == self.ranks[v] else self.ways[k][r]


def layout(sizes, edges, *, trunk="head", marks=None):
    """Place the vertices of an acyclic graph in layers, and route its edges from top to bottom.

    Parameters
    ----------
    sizes : list of (float, float)
        Width and height of each vertex.
    edges : list of (int, int)
        Tail and head of each; the same pair may occur several times.
    trunk : {"head", "tail"}
        Which end decides that long edges share a way.
    marks : list, optional
        One for each edge; only edges with equal marks share a way.

    Returns
    -------
    Layout

    Raises
    ------
    ValueError
        If the edges form a cycle.
    """
    if trunk == "head":
        ranks = rank(len(sizes), edges)
    else:  # layers counted from the bottom, so that what is used late stands late
        ranks = rank(len(sizes), [(v, u) for u, v in edges])
        deepest = max(ranks, default=0)
        ranks = [deepest - r for r in ranks]
    end = 1 if trunk == "head" else 0
    owners = [(edge[end], marks[k] if marks else None) for k, edge in enumerate(edges)]
    ranked = _subdivide(ranks, edges, owners, trunk)
    _order(ranked)
    widths = [w for w, _ in sizes] + [WAYPOINT_WIDTH] * (len(ranked.ranks) - len(sizes))
    xs = _place(ranked, widths)
    _straighten(ranked, widths, xs)
    left = min((x - w / 2 for x, w in zip(xs, widths, strict=True)), default=0.0)
    xs = [x - left for x in xs]
    return _route(ranked, edges, sizes, widths, xs, trunk)


def rank(count, edges):
    """Return the layer of each vertex: its distance from the top along the longest path.

    A vertex that more edges leave than enter is then lowered as far as its successors allow, which keeps inputs beside
    what uses them.
    """
    after = [[] for _ in range(count)]
    waiting = [0] * count
    entering = [0] * count
    for u, v in edges:
        after[u].append(v)
        waiting[v] += 1
        entering[v] += 1
    ranks = [0] * count
    order = [v for v in range(count) if waiting[v] == 0]
    for u in order:
        for v in after[u]:
            ranks[v] = max(ranks[v], ranks[u] + 1)
            waiting[v] -= 1
            if waiting[v] == 0:
                order.append(v)
    if len(order) < count:
        raise ValueError(f"a layered drawing needs an acyclic graph, but {count - len(order)} vertices are on cycles")
    for u in reversed(order):
        if len(after[u]) > entering[u]:
            ranks[u] = min(ranks[v] for v in after[u]) - 1
    lowest = min(ranks, default=0)
    return [r - lowest for r in ranks]


def _subdivide(ranks, edges, owners, trunk):
    """Cut edges at every layer that they pass; edges with the same owner are cut at the same waypoints."""
    count = len(ranks)
    ranked = _Ranked(count, list(ranks), [[] for _ in ranks], [[] for _ in ranks], [{} for _ in edges])
    budget = 8 * count + 1000
    trunks = {}
    linked = set()
    # Shorter edges first, so that each adds to the trunk, at its far end, only the layers that it does not reach yet.
    for k in sorted(range(len(edges)), key=lambda k: ranks[edges[k][1]] - ranks[edges[k][0]]):
        u, v = edges[k]
        first, last = ranks[u] + 1, ranks[v] - 1
        ways = trunks.setdefault(owners[k], {}) if first <= last else {}
        missing = max(0, last - first + 1 - len(ways))
        if missing > budget:
            ranked.beside.add(k)
            continue
        budget -= missing
        ranked.ways[k] = ways
        new = range(first, first + missing) if trunk == "head" else range(last - missing + 1, last + 1)
        for r in new:
            ways[r] = ranked.add_waypoint(r)
        for r in range(new.start - 1, new.stop):
            a, b = ranked.visited(k, (u, v), r), ranked.visited(k, (u, v), r + 1)
            if (a, b) not in linked:
                linked.add((a, b))
                ranked.down[a].append(b)
                ranked.up[b].append(a)
    return ranked


def _order(ranked):
    """Order each layer so that few links cross; keep the best of several sweeps."""
    _first_order(ranked)
    tries = max(2, min(_TRIES, _WORK // max(1, len(ranked.ranks))))
    best, fewest = [list(layer) for layer in ranked.layers], _crossings(ranked)
    for k in range(tries):
        if fewest == 0:
            break
        downwards = k % 2 == 0
        layers = ranked.layers if downwards else ranked.layers[::-1]
        for layer in layers[1:]:
            _sort_by_neighbours(ranked, layer, ranked.up if downwards else ranked.down)
        crossings = _crossings(ranked)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in ranked.layers], crossings
    ranked.layers = best
    for layer in best:
        _number(ranked, layer)


def _first_order(ranked):
    """Order layers by a depth-first walk from the top, so that what belongs together starts together."""
    ranked.layers = [[] for _ in range(max(ranked.ranks, default=-1) + 1)]
    ranked.place = [0] * len(ranked.ranks)
    seen = [False] * len(ranked.ranks)
    tops = [v for v in range(len(ranked.ranks)) if not ranked.up[v]]
    for top in sorted(tops, key=lambda v: ranked.ranks[v]):
        stack = [top]
        while stack:
            v = stack.pop()
            if seen[v]:
                continue
            seen[v] = True
            layer = ranked.layers[ranked.ranks[v]]
            ranked.place[v] = len(layer)
            layer.append(v)
            stack.extend(reversed(ranked.down[v]))


def _number(ranked, layer):
    for position, v in enumerate(layer):
        ranked.place[v] = position


def _sort_by_neighbours(ranked, layer, neighbours):
    """Sort a layer by the mean position of neighbours; what has none stays where it is."""
    place = ranked.place
    linked = [v for v in layer if neighbours[v]]
    keys = {v: sum(place[n] for n in neighbours[v]) / len(neighbours[v]) for v in linked}
    ordered = iter(sorted(linked, key=keys.__getitem__))
    layer[:] = [next(ordered) if v in keys else v for v in layer]
    _number(ranked, layer)


def _crossings(ranked):
    """Count crossing links: inversions between the orders of their ends, by a binary indexed tree."""
    total = 0
    for upper, lower in pairwise(ranked.layers):
        if len(upper) < 2 or len(lower) < 2:
            continue
        tree = [0] * (len(lower) + 1)
        inserted = 0
        for u in upper:
            ends = sorted(ranked.place[v] for v in ranked.down[u])
            for end in ends:
                i, not_right = end + 1, 0
                while i > 0:
                    not_right += tree[i]
                    i &= i - 1
                total += inserted - not_right
            for end in ends:
                i = end + 1
                while i <= len(lower):
                    tree[i] += 1
                    i += i & -i
            inserted += len(ends)
    return total


def _place(ranked, widths):
    """Choose x coordinates: pull each layer towards its neighbours above, then below, and so on."""
    xs = [0.0] * len(widths)
    for layer in ranked.layers:
        _settle(layer, [0.0] * len(layer), [1.0] * len(layer), widths, xs)
    sweeps = max(4, min(_SWEEPS, _WORK // max(1, len(widths))))
    for k in range(sweeps):
        last = k >= sweeps - 2
        layers = ranked.layers if k % 2 == 0 else ranked.layers[::-1]
        for layer in layers:
            targets, weights = [], []
            for v in layer:
                near = ranked.up[v] if k % 2 == 0 else ranked.down[v]
                target, weight = _pull(ranked, v, near if near and not last else ranked.up[v] + ranked.down[v], xs)
                targets.append(target)
                weights.append(weight)
            _settle(layer, targets, weights, widths, xs)
    return xs


def _pull(ranked, v, neighbours, xs):
    """Return where the neighbours want `v`, and how strongly; waypoints insist, so that long edges run straight."""
    if not neighbours:
        return xs[v], 0.1
    total = weight = 0.0
    for n in neighbours:
        stiffness = 1.0 + 3.0 * (n >= ranked.real) + 3.0 * (v >= ranked.real)
        total += stiffness * xs[n]
        weight += stiffness
    return total / weight, weight


def _settle(layer, targets, weights, widths, xs):
    """Set `xs` of a layer to the nearest positions to `targets`, in weighted squares, that keep order and distance."""
    blocks = []  # [weighted sum, weight, number of vertices], means increasing
    offsets = []
    offset = 0.0
    for i, v in enumerate(layer):
        if i:
            offset += (widths[layer[i - 1]] + widths[v]) / 2 + GAP_X
        offsets.append(offset)
        block = [(targets[i] - offset) * weights[i], weights[i], 1]
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            total, weight, number = blocks.pop()
            block = [block[0] + total, block[1] + weight, block[2] + number]
        blocks.append(block)
    i = 0
    for total, weight, number in blocks:
        for _ in range(number):
            xs[layer[i]] = total / weight + offsets[i]
            i += 1


def _straighten(ranked, widths, xs):
    """Move vertices sideways within their room, so that long edges and single files run straight."""
    chains = sorted(_chains(ranked), key=len, reverse=True)
    for _ in range(2):
        for chain in chains:
            start = 0
            lo, hi = _room(ranked, chain[0], widths, xs)
            for k in range(1, len(chain) + 1):
                if k < len(chain):
                    next_lo, next_hi = _room(ranked, chain[k], widths, xs)
                    if max(lo, next_lo) <= min(hi, next_hi):
                        lo, hi = max(lo, next_lo), min(hi, next_hi)
                        continue
                _align(chain[start:k], lo, hi, xs)
                if k < len(chain):
                    start, lo, hi = k, next_lo, next_hi


def _align(vertices, lo, hi, xs):
    wanted = sorted(xs[v] for v in vertices)[len(vertices) // 2]
    for v in vertices:
        xs[v] = min(max(wanted, lo), hi)


def _room(ranked, v, widths, xs):
    """Return how far `v` can move to either side before it touches what stands beside it."""
    layer, place = ranked.layers[ranked.ranks[v]], ranked.place[v]
    lo, hi = -float("inf"), float("inf")
    if place > 0:
        left = layer[place - 1]
        lo = xs[left] + (widths[left] + widths[v]) / 2 + GAP_X
    if place < len(layer) - 1:
        right = layer[place + 1]
        hi = xs[right] - (widths[right] + widths[v]) / 2 - GAP_X
    return min(lo, xs[v]), max(hi, xs[v])


def _chains(ranked):
    """Split the graph into paths that should run straight, each vertex in one of them.

    A waypoint continues the one above it, and a vertex its middle neighbour if that agrees.
    """
    below = {}
    for u, lower in enumerate(ranked.down):
        for v in lower:
            if u >= ranked.real and v >= ranked.real:
                below[u] = v
    taken = set(below.values())
    for u, lower in enumerate(ranked.down):
        v = _middle(ranked, lower)
        if v is not None and u not in below and v not in taken and _middle(ranked, ranked.up[v]) == u:
            below[u] = v
            taken.add(v)
    for u in range(len(ranked.ranks)):
        if u not in taken and u in below:
            chain = [u]
            while chain[-1] in below:
                chain.append(below[chain[-1]])
            yield chain


def _middle(ranked, vertices):
    if len(vertices) % 2 == 0:
        return None
    return sorted(vertices, key=ranked.place.__getitem__)[len(vertices) // 2]


def _route(ranked, edges, sizes, widths, xs, trunk):
    """Choose y coordinates and turn paths into points."""
    tops, bottoms = _bands(ranked, sizes, xs)
    centers = [(xs[v], (tops[r] + bottoms[r]) / 2) for v, r in enumerate(ranked.ranks[: ranked.real])]
    exits, entries = _ports(ranked, edges, widths, xs)
    lanes, lane_count = _lanes(ranked, edges)
    right = max((x + w / 2 for x, w in zip(xs, widths, strict=True)), default=0.0)
    routes = []
    drawn = {}
    for k, (u, v) in enumerate(edges):
        start, end = (exits[k], bottoms[ranked.ranks[u]]), (entries[k], tops[ranked.ranks[v]])
        if k in ranked.beside:
            x = right + GAP_X + LANE_WIDTH * lanes[k]
            way = [(x, tops[ranked.ranks[u] + 1]), (x, bottoms[ranked.ranks[v] - 1])]
            routes.append(Route([start, *way, end]))
            continue
        ways = ranked.ways[k]
        layers, at_tail, at_head = _undrawn(ways, ranked.ranks[u] + 1, ranked.ranks[v] - 1, drawn, trunk)
        points = [start] if at_tail else [(xs[ways[layers[0]]], bottoms[layers[0]])]
        for r in layers:
            if at_tail or r > layers[0]:
                points.append((xs[ways[r]], tops[r]))
                if at_head or r < layers[-1]:
                    points.append((xs[ways[r]], bottoms[r]))
        routes.append(Route([*points, end] if at_head else points, at_tail, at_head))
    width = right + (GAP_X + LANE_WIDTH * lane_count if lane_count else 0.0)
    return Layout(centers, routes, width, bottoms[-1] if bottoms else 0.0)


def _undrawn(ways, first, last, drawn, trunk):
    """Return the layers from `first` to `last` in which a trunk is still to be drawn, and note them as drawn.

    Where part of it is drawn already, one layer of that is included: there the edge joins or leaves it.

    Returns
    -------
    range, bool, bool
        The layers; whether the edge begins at its tail; whether it ends at its head.
    """
    far = drawn.get(id(ways)) if first <= last else None
    if first <= last:
        reach = first if trunk == "head" else last
        drawn[id(ways)] = reach if far is None else min(far, reach) if trunk == "head" else max(far, reach)
    if far is None:
        return range(first, last + 1), True, True
    if trunk == "head":
        return range(first, max(first, far) + 1), True, False
    return range(min(last, far), last + 1), False, True


def _bands(ranked, sizes, xs):
    """Return top and bottom of each layer; layers that are joined by slanting links stand further apart."""
    tops, bottoms = [], []
    y = 0.0
    for layer in ranked.layers:
        tops.append(y)
        y += max((sizes[v][1] for v in layer if v < ranked.real), default=0.0)
        bottoms.append(y)
        slant = max((abs(xs[u] - xs[v]) for u in layer for v in ranked.down[u]), default=0.0)
        y += GAP_Y + min(70.0, 0.14 * slant)
    return tops, bottoms


def _ports(ranked, edges, widths, xs):
    """Spread the places where edges leave and enter a vertex, in the order of where they go."""
    leaving, entering = defaultdict(list), defaultdict(list)
    ends = {}
    for k, (u, v) in enumerate(edges):
        if k in ranked.beside:
            leaving[u].append((float("inf"), k))
            entering[v].append((float("inf"), k))
            continue
        after = ranked.visited(k, (u, v), ranked.ranks[u] + 1)
        before = ranked.visited(k, (u, v), ranked.ranks[v] - 1)
        ends[k] = after, before
        leaving[u].append((xs[after], after if after >= ranked.real else k - len(edges), k))
        entering[v].append((xs[before], before if before >= ranked.real else k - len(edges), k))
    exits, entries = _spread(leaving, widths, xs), _spread(entering, widths, xs)
    for k, (after, before) in ends.items():  # a slight slant looks like a mistake: make it straight
        u, v = edges[k]
        below = entries[k] if after == v else xs[after]
        above = exits[k] if before == u else xs[before]
        if abs(exits[k] - below) < PORT_SPACING / 2 and abs(below - xs[u]) < 0.4 * widths[u]:
            exits[k] = below
        elif abs(entries[k] - above) < PORT_SPACING / 2 and abs(above - xs[v]) < 0.4 * widths[v]:
            entries[k] = above
    return exits, entries


def _spread(groups, widths, xs):
    """Give each edge of a vertex a port; edges that come through the same waypoint share one."""
    ports = {}
    for v, group in groups.items():
        group.sort(key=lambda item: item[:-1])
        slots = []
        for item in group:
            if not slots or len(item) == 2 or slots[-1][0] != item[1]:
                slots.append((item[1] if len(item) == 3 else None, []))
            slots[-1][1].append(item[-1])
        step = min(PORT_SPACING, 0.7 * widths[v] / max(1, len(slots)))
        for position, (_, members) in enumerate(slots):
            for k in members:
                ports[k] = xs[v] + (position - (len(slots) - 1) / 2) * step
    return ports


def _lanes(ranked, edges):
    """Give edges that run beside the drawing lanes in which they do not meet."""
    spans = sorted((ranked.ranks[u], ranked.ranks[v], k) for k, (u, v) in enumerate(edges) if k in ranked.beside)
    free = []  # heap of (layer at which it becomes free, lane)
    lanes = {}
    for start, end, k in spans:
        lanes[k] = heappop(free)[1] if free and free[0][0] <= start else len(free)
        heappush(free, (end, lanes[k]))
    return lanes, len(free)
