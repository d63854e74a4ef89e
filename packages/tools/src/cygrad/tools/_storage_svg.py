"""Drawing storages and the tensors that look into them as SVG."""

from cygrad.tools._svg import FONT, MONO, escape, number, shorten, text_width

_CELL_HEIGHT = 26
_MARGIN = 18
_GAP = 18
_LINE_WIDTH = 1000  # of the strip
_MOST_ROWS, _MOST_COLUMNS, _MOST_BLOCKS = 12, 16, 6  # of a grid; the rest is said in words
_RAMP = [(0xCF, 0xE0, 0xF7), (0xD3, 0xF0, 0xDF), (0xFB, 0xF1, 0xC6), (0xFB, 0xD9, 0xC3), (0xEF, 0xCF, 0xE3)]


def draw(storages):
    """Return the picture of a list of StorageRow as an SVG document.

    A slot has the same colour wherever it shows up: in the strip that is the storage, in the rows below that say which
    element lies there, and in the grids.
    """
    parts, y, width = [], 0.0, 0.0
    for storage in storages:
        drawing = _Drawing(storage)
        drawing.strip(y)
        drawing.grids()
        parts += drawing.parts
        y = drawing.y + 24
        width = max(width, drawing.width)
    size = f'width="{number(width + 2 * _MARGIN)}" height="{number(y + 2 * _MARGIN - 24)}"'
    box = f'viewBox="0 0 {number(width + 2 * _MARGIN)} {number(y + 2 * _MARGIN - 24)}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} font-family="{FONT}" role="img">',
            f"<title>{escape('; '.join(s.caption for s in storages))}</title>",
            f'<rect {size} rx="8" fill="#ffffff"/>',
            f'<g transform="translate({_MARGIN} {_MARGIN})">',
            *parts,
            "</g>",
            "</svg>",
            "",
        ]
    )


class _Drawing:
    """One storage, drawn from `y` downwards."""

    def __init__(self, storage):
        self.storage = storage
        self.parts = []
        self.y = self.width = 0.0
        texts = [*storage.values.values(), *map(str, storage.values)]
        texts += [text for row in storage.tensors for text in row.cells.values()]
        self.cell = max(34.0, 10 + max((7.4 * len(text) for text in texts), default=0.0))

    def color(self, slot):
        place = slot / max(1, self.storage.size - 1) * (len(_RAMP) - 1)
        k = min(int(place), len(_RAMP) - 2)
        mixed = (round(a + (b - a) * (place - k)) for a, b in zip(_RAMP[k], _RAMP[k + 1], strict=True))
        return "#" + "".join(f"{c:02x}" for c in mixed)

    def text(self, x, y, text, size=12, fill="#111827", anchor="start", font="", weight=""):
        style = f' font-family="{font}"' if font else ""
        style += f' font-weight="{weight}"' if weight else ""
        self.parts.append(
            f'<text x="{number(x)}" y="{number(y)}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{style}>'
            f"{escape(text)}</text>"
        )
        if anchor == "start":
            self.width = max(self.width, x + text_width(text, size))

    def box(self, x, y, slot, text):
        """Draw one cell; of a slot that is not reached, only a dotted outline."""
        w, h = number(self.cell), _CELL_HEIGHT
        paint = 'fill="none" stroke="#d1d5db" stroke-dasharray="2 3"'
        if text is not None:
            paint = f'fill="{self.color(slot)}" stroke="#8a94a3"'
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{w}" height="{h}" {paint}/>')
        if text is not None:
            self.text(x + self.cell / 2, y + 17, text, anchor="middle", font=MONO)
        self.width = max(self.width, x + self.cell)

    def strip(self, y):
        """Draw the storage, and below each slot what lies there for each tensor."""
        self.text(0, y + 13, self.storage.caption, size=14, weight="bold")
        y += 26
        names = [shorten(row.name, 24) for row in self.storage.tensors]
        left = 12 + max(text_width(name, 12) for name in ["storage", *names])
        slots = list(self.storage.values)
        per_line = max(1, int(_LINE_WIDTH / self.cell))
        for start in range(0, len(slots), per_line):
            columns = slots[start : start + per_line]
            xs = self._columns(left, columns)
            rows = [("storage", self.storage.values), *zip(names, (r.cells for r in self.storage.tensors), strict=True)]
            y += 13
            for x, slot in zip(xs, columns, strict=True):
                self.text(x + self.cell / 2, y - 4, str(slot), size=10, fill="#6b7280", anchor="middle")
                if slot - 1 not in self.storage.values and slot > 0:
                    self.text(x - _GAP / 2, y + 17, "…", anchor="middle")
            for k, (name, cells) in enumerate(rows):
                self.text(0, y + 17, name, weight="" if k else "bold")
                for x, slot in zip(xs, columns, strict=True):
                    self.box(x, y, slot, cells.get(slot))
                y += _CELL_HEIGHT + (8 if k == 0 else 3)
            y += 12
        self.y = y

    def _columns(self, left, columns):
        """Return the x of each slot, with a gap where slots were left out."""
        xs, x = [], left
        for slot in columns:
            if slot > 0 and slot - 1 not in self.storage.values:
                x += _GAP
            xs.append(x)
            x += self.cell
        return xs

    def grids(self):
        """Draw each tensor in its own shape, side by side as far as they fit."""
        x, y, bottom = 0.0, self.y + 6, self.y
        limit = max(self.width, 760.0)
        for row in self.storage.tensors:
            before = len(self.parts), self.width
            right, low = self._grid(row, x, y)
            if x and right > limit:  # does not fit here: once more, in a new line
                del self.parts[before[0] :]
                self.width = before[1]
                x, y = 0.0, bottom + 22
                right, low = self._grid(row, x, y)
            x, bottom = right + 36, max(bottom, low)
        self.y = bottom

    def _grid(self, row, x, y):
        """Draw one tensor; matrices of a higher-dimensional one stand side by side. Return right and bottom edge."""
        self.text(x, y + 12, shorten(row.name, 40), size=13, weight="bold")
        self.text(x, y + 28, row.caption, size=11, fill="#4b5563")
        right = x + max(text_width(row.caption, 11), text_width(shorten(row.name, 40), 13) * 1.1)
        y += 40
        if 0 in row.shape:
            self.text(x, y + 14, "no elements", size=11, fill="#4b5563")
            return right, y + 20
        *lead, rows, columns = (1, 1, *row.shape)[-max(2, len(row.shape)) :]
        *lead_strides, down, across = (0, 0, *row.stride)[-max(2, len(row.shape)) :]
        blocks = list(_indices(lead, _MOST_BLOCKS))
        bottom = y
        for index in blocks:
            start = row.offset + sum(i * st for i, st in zip(index, lead_strides, strict=True))
            top = y
            if index:
                self.text(x, y + 9, f"[{', '.join(map(str, index))}]", size=10, fill="#6b7280")
                top += 14
            for i in range(min(rows, _MOST_ROWS)):
                for j in range(min(columns, _MOST_COLUMNS)):
                    slot = start + i * down + j * across
                    value = self.storage.values.get(slot, "…")
                    self.box(x + j * self.cell, top + i * _CELL_HEIGHT, slot, value)
            bottom = top + min(rows, _MOST_ROWS) * _CELL_HEIGHT
            x += min(columns, _MOST_COLUMNS) * self.cell + 12
        note = _left_out(lead, rows, columns)
        if note:
            self.text(x - 12 - min(columns, _MOST_COLUMNS) * self.cell, bottom + 14, note, size=11, fill="#4b5563")
            bottom += 18
        return max(right, x - 12), bottom


def _indices(shape, most):
    """Yield the first `most` index tuples of `shape` in row-major order."""
    index = [0] * len(shape)
    for _ in range(most):
        yield tuple(index)
        for d in range(len(shape) - 1, -1, -1):
            index[d] += 1
            if index[d] < shape[d]:
                break
            index[d] = 0
        else:
            return


def _left_out(lead, rows, columns):
    """Say how large a tensor really is, if not all of it is drawn."""
    blocks = 1
    for n in lead:
        blocks *= n
    notes = []
    if blocks > _MOST_BLOCKS:
        notes.append(f"{_MOST_BLOCKS} of {blocks} matrices")
    if rows > _MOST_ROWS:
        notes.append(f"{_MOST_ROWS} of {rows} rows")
    if columns > _MOST_COLUMNS:
        notes.append(f"{_MOST_COLUMNS} of {columns} columns")
    return ", ".join(notes)
