"""The layered layout: nothing overlaps, no edge crosses a box, nothing recurses."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cygrad.tools._graph_layout import layout, rank

SIZE = (60.0, 30.0)


@st.composite
def graphs(draw):
    """An acyclic graph with boxes of many sizes; parallel edges occur."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 40))
    sizes = [(rng.uniform(10, 150), rng.uniform(10, 60)) for _ in range(count)]
    edges = [(i, rng.randrange(i + 1, count)) for i in range(count - 1) for _ in range(rng.randrange(0, 4))]
    return sizes, edges


def points_on(route):
    """Walk along a route in small steps, curves as they are drawn."""
    for (x0, y0), (x1, y1) in pairwise(route.points):
        middle = (y0 + y1) / 2
        for k in range(21):
            t = k / 20
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield a * x0 + b * x0 + c * x1 + d * x1, a * y0 + b * middle + c * middle + d * y1


@settings(max_examples=200)
@given(graphs(), st.sampled_from(["head", "tail"]))
def test_boxes_stand_apart_and_edges_go_around_them(graph, trunk):
    sizes, edges = graph
    plan = layout(sizes, edges, trunk=trunk)
    boxes = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(plan.centers, sizes, strict=True)]
    for k, (left, top, right, bottom) in enumerate(boxes):
        assert left >= -1e-6 and right <= plan.width + 1e-6 and top >= -1e-6 and bottom <= plan.height + 1e-6
        for other in boxes[:k]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
    for (u, v), route in zip(edges, plan.routes, strict=True):
        for x, y in points_on(route):
            for k, (left, top, right, bottom) in enumerate(boxes):
                inside = left + 0.5 < x < right - 0.5 and top + 0.5 < y < bottom - 0.5
                assert not inside or k in (u, v)


@settings(max_examples=100)
@given(graphs(), st.sampled_from(["head", "tail"]))
def test_edges_go_down(graph, trunk):
    sizes, edges = graph
    plan = layout(sizes, edges, trunk=trunk)
    for (u, v), route in zip(edges, plan.routes, strict=True):
        assert plan.centers[u][1] < plan.centers[v][1]
        ys = [y for _, y in route.points]
        assert ys == sorted(ys)


@settings(max_examples=50)
@given(graphs(), st.sampled_from(["head", "tail"]))
def test_a_route_is_whole_or_meets_a_trunk_of_the_same_end(graph, trunk):
    sizes, edges = graph
    routes = layout(sizes, edges, trunk=trunk).routes
    for k, route in enumerate(routes):
        if route.at_tail and route.at_head:
            continue
        end = 1 if trunk == "head" else 0
        meeting = route.points[-1 if trunk == "head" else 0]
        others = [r for j, r in enumerate(routes) if j != k and edges[j][end] == edges[k][end]]
        assert any(meeting in r.points for r in others)


def test_layers_follow_the_longest_path():
    assert rank(4, [(0, 1), (1, 2), (0, 2), (2, 3)]) == [0, 1, 2, 3]


def test_an_input_stands_beside_what_uses_it():
    # 4 feeds only the last step of 0 -> 1 -> 2 -> 3
    assert rank(5, [(0, 1), (1, 2), (2, 3), (4, 3)]) == [0, 1, 2, 3, 2]


def test_a_chain_is_straight():
    plan = layout([SIZE, (90.0, 30.0), SIZE], [(0, 1), (1, 2)])
    assert len({x for x, _ in plan.centers}) == 1
    assert all(len({x for x, _ in route.points}) == 1 for route in plan.routes)


def test_children_stand_symmetrically_below_their_parent():
    plan = layout([SIZE] * 3, [(0, 1), (0, 2)])
    xs = [x for x, _ in plan.centers]
    assert xs[0] == pytest.approx((xs[1] + xs[2]) / 2)


def test_two_crossed_pairs_are_uncrossed():
    plan = layout([SIZE] * 4, [(0, 3), (1, 2), (0, 3), (1, 2)])
    xs = [x for x, _ in plan.centers]
    assert (xs[0] < xs[1]) == (xs[3] < xs[2])


def test_marks_keep_edges_apart():
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (1, 3)]
    shared = layout([SIZE] * 4, edges).routes
    apart = layout([SIZE] * 4, edges, marks=[0, 1, 2, 3, 4]).routes
    assert not shared[3].at_head or not shared[4].at_head
    assert apart[3].at_head and apart[4].at_head


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="2 vertices are on cycles"):
        layout([SIZE] * 3, [(0, 1), (1, 2), (2, 1)])


def test_nothing_at_all():
    plan = layout([], [])
    assert (plan.centers, plan.routes, plan.width, plan.height) == ([], [], 0.0, 0.0)


@pytest.mark.parametrize("trunk", ["head", "tail"])
def test_a_long_chain_does_not_recurse(trunk):
    plan = layout([SIZE] * 100_000, [(k, k + 1) for k in range(99_999)], trunk=trunk)
    assert len(plan.centers) == 100_000


def test_very_many_long_edges_run_beside_the_drawing():
    count = 120
    edges = [(i, j) for i in range(count) for j in range(i + 1, count)]
    plan = layout([SIZE] * count, edges, marks=list(range(len(edges))))
    right = max(x + SIZE[0] / 2 for x, _ in plan.centers)
    beside = [route for route in plan.routes if any(x > right for x, _ in route.points)]
    assert beside
    assert all(x <= plan.width for route in plan.routes for x, _ in route.points)
