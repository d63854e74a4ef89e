"""Drawing a laid-out graph as SVG: boxes and ellipses, edges with arrowheads, a legend."""

from math import sqrt

from cygrad.tools._graph_layout import layout
from cygrad.tools._svg import FONT, escape, number, shorten, text_width

TITLE = 13
DETAIL = 11
MARGIN = 18
_ARROW = 7
_LONGEST = 44  # characters of a line of a label; the whole text is in the tooltip


class Kind:
    """How vertices of one kind look, and what the legend says of them.

    Parameters
    ----------
    shape : {"box", "ellipse"}
    meaning : str
        For the legend.
    fill, stroke : str
        Colours.
    dashed : bool
    """

    def __init__(self, shape, meaning, fill, stroke, dashed=False):
        self.shape = shape
        self.meaning = meaning
        self.fill = fill
        self.stroke = stroke
        self.dashed = dashed


# Hues are told apart with every common kind of colour blindness, and shapes say the same in black and white.
KINDS = {
    "output": Kind("box", "output", "#dcf2e3", "#1b7f4b"),
    "operation": Kind("ellipse", "operation", "#f4f5f7", "#5b6472"),
    "accumulate": Kind("ellipse", "AccumulateGrad: adds to .grad", "#fff1d6", "#b7791f"),
    "parameter": Kind("box", "parameter", "#dbe9fb", "#2563a8"),
    "leaf": Kind("box", "leaf tensor", "#e6f4f6", "#2b8a99"),
    "tensor": Kind("box", "intermediate tensor", "#ffffff", "#9aa3af"),
    "saved": Kind("box", "saved for backward", "#f6effb", "#8b5fb0", dashed=True),
    "module": Kind("box", "module", "#eef0f4", "#475569"),
    "repeat": Kind("box", "what comes again and again", "#fdf3e7", "#b45309"),
}
_EDGE = "#717a87"


def draw(vertices, edges, *, trunk, title):
    """Return a graph as the text of an SVG document.

    Parameters
    ----------
    vertices : list of Vertex
        With `kind` and `lines`, the first of which is the title.
    edges : list of Edge
        With `tail`, `head`, `label` and `saved`.
    trunk : {"head", "tail"}
        See :func:`layout`.
    title : str
        What the document as a whole shows, for screen readers.
    """
    sizes = [_size(v) for v in vertices]
    plan = layout(sizes, [(e.tail, e.head) for e in edges], trunk=trunk, marks=[(e.label, e.saved) for e in edges])
    legend, legend_width, legend_height = _legend(vertices, max(plan.width, 520))
    width = max(plan.width, legend_width)
    shift = (width - plan.width) / 2 + MARGIN
    parts = []
    for edge, route in zip(edges, plan.routes, strict=True):
        parts.append(_edge(edge, route, vertices, sizes, plan.centers))
    for vertex, size, center in zip(vertices, sizes, plan.centers, strict=True):
        parts.append(_vertex(vertex, size, center))
    return _document(parts, legend, width + 2 * MARGIN, plan.height, legend_height, shift, title)


def _document(parts, legend, width, height, legend_height, shift, title):
    total = height + 3 * MARGIN + legend_height
    size = f'width="{number(width)}" height="{number(total)}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {number(width)} {number(total)}" '
            f'font-family="{FONT}" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect {size} rx="8" fill="#ffffff"/>',
            f'<g transform="translate({number(shift)} {MARGIN})">',
            *parts,
            "</g>",
            f'<g transform="translate({MARGIN} {number(height + 2 * MARGIN)})">',
            *legend,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _size(vertex):
    lines = [shorten(line, _LONGEST) for line in vertex.lines]
    text = max(text_width(line, DETAIL if i else TITLE) for i, line in enumerate(lines))
    height = 12 + 16 * len(lines) - 2
    if KINDS[vertex.kind].shape == "ellipse":
        # the box of text must lie inside the curve
        return text * 1.12 + 26, height + 8
    return text + 20, height + 2


def _vertex(vertex, size, center):
    kind = KINDS[vertex.kind]
    (x, y), (w, h) = center, size
    dash = ' stroke-dasharray="4 3"' if kind.dashed else ""
    paint = f'fill="{kind.fill}" stroke="{kind.stroke}" stroke-width="1.3"{dash}'
    if kind.shape == "ellipse":
        shape = f'<ellipse cx="{number(x)}" cy="{number(y)}" rx="{number(w / 2)}" ry="{number(h / 2)}" {paint}/>'
    else:
        corner = f'x="{number(x - w / 2)}" y="{number(y - h / 2)}"'
        shape = f'<rect {corner} width="{number(w)}" height="{number(h)}" rx="5" {paint}/>'
    texts = []
    baseline = y - 8 * len(vertex.lines) + 12.5
    for i, line in enumerate(vertex.lines):
        style = f'font-size="{DETAIL}" fill="#4b5563"' if i else f'font-size="{TITLE}" fill="#111827"'
        texts.append(
            f'<text x="{number(x)}" y="{number(baseline + 16 * i)}" text-anchor="middle" {style}>'
            f"{escape(shorten(line, _LONGEST))}</text>"
        )
    tooltip = escape("\n".join(vertex.lines))
    return f'<g class="{vertex.kind}"><title>{tooltip}</title>{shape}{"".join(texts)}</g>'


def _boundary(vertex, size, center, x, below):
    """Return the y at which a vertical line at `x` leaves the shape."""
    (cx, cy), (w, h) = center, size
    reach = h / 2
    if KINDS[vertex.kind].shape == "ellipse":
        reach *= sqrt(max(0.0, 1 - (2 * (x - cx) / w) ** 2))
    return cy + reach if below else cy - reach


def _edge(edge, route, vertices, sizes, centers):
    points = list(route.points)
    steps = []
    if route.at_tail:
        x = points[0][0]
        points.insert(0, (x, _boundary(vertices[edge.tail], sizes[edge.tail], centers[edge.tail], x, below=True)))
    arrow = ""
    stroke = KINDS["saved"].stroke if edge.saved else _EDGE
    if route.at_head:
        x = points[-1][0]
        tip = _boundary(vertices[edge.head], sizes[edge.head], centers[edge.head], x, below=False)
        points.append((x, tip - _ARROW + 1))
        a, b, c = number(x - 3.5), number(x + 3.5), number(tip - _ARROW)
        arrow = f'<path d="M{a} {c}L{b} {c}L{number(x)} {number(tip)}Z" fill="{stroke}"/>'
    here = points[0]
    steps.append(f"M{number(here[0])} {number(here[1])}")
    for x, y in points[1:]:
        if abs(x - here[0]) < 0.05:
            steps.append(f"V{number(y)}")
        else:
            middle = number((here[1] + y) / 2)
            steps.append(f"C{number(here[0])} {middle} {number(x)} {middle} {number(x)} {number(y)}")
        here = (x, y)
    dash = ' stroke-dasharray="4 3"' if edge.saved else ""
    label = ""
    if edge.label and route.at_head:
        label = (
            f'<text x="{number(here[0] + 6)}" y="{number(here[1] + 1)}" font-size="9" fill="#4b5563">'
            f"{escape(edge.label)}</text>"
        )
    return f'<path d="{"".join(steps)}" fill="none" stroke="{stroke}" stroke-width="1.2"{dash}/>{arrow}{label}'


def _legend(vertices, width):
    """Lay out a swatch for each kind that occurs; return its parts, its width and its height."""
    present = [name for name in KINDS if any(v.kind == name for v in vertices)]
    parts = []
    x = y = widest = 0.0
    for name in present:
        kind = KINDS[name]
        space = 26 + text_width(kind.meaning, DETAIL) + 16
        if x and x + space > width:
            x, y = 0.0, y + 20
        dash = ' stroke-dasharray="3 2"' if kind.dashed else ""
        paint = f'fill="{kind.fill}" stroke="{kind.stroke}"{dash}'
        if kind.shape == "ellipse":
            parts.append(f'<ellipse cx="{number(x + 10)}" cy="{number(y + 7)}" rx="10" ry="6" {paint}/>')
        else:
            parts.append(f'<rect x="{number(x)}" y="{number(y + 1)}" width="20" height="12" rx="3" {paint}/>')
        style = f'font-size="{DETAIL}" fill="#4b5563"'
        parts.append(f'<text x="{number(x + 26)}" y="{number(y + 11)}" {style}>{escape(kind.meaning)}</text>')
        x += space
        widest = max(widest, x)
    return parts, widest, y + 14 if present else 0.0
