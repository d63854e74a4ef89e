"""Which element of which view lies where in a storage: as text for the terminal, as SVG for a notebook or a file.

A tensor holds no numbers, only the way to find them: element ``(i, j)`` of a matrix is slot ``offset + i * stride[0] +
j * stride[1]`` of the storage. The picture draws that for several tensors at once, so that shared memory is seen.
"""

import ast
import linecache
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

import cygrad
from cygrad.tools import _storage_svg
from cygrad.tools._svg import shorten

__all__ = ["StoragePicture", "StorageRow", "TensorRow", "show_storage"]

_LINE = 80
_LONGEST = 24  # characters of a name that is taken from the call


@dataclass
class TensorRow:
    """A tensor in the picture.

    Attributes
    ----------
    name, caption : str
        What it is called; shape, stride and offset in words.
    shape, stride : tuple of int
    offset : int
    cells : dict of int to str
        For each visible slot that the tensor reaches, the index of the element that lies there. ``*`` stands for every
        index of an expanded dimension, ``+2`` for two further elements in the same slot.
    """

    name: str
    caption: str
    shape: tuple
    stride: tuple
    offset: int
    cells: dict


@dataclass
class StorageRow:
    """A storage in the picture, with the tensors that look into it.

    Attributes
    ----------
    caption : str
    size : int
        Number of slots.
    values : dict of int to str
        The numbers in the visible slots, in order.
    tensors : list of TensorRow
    """

    caption: str
    size: int
    values: dict
    tensors: list


class StoragePicture:
    """What :func:`show_storage` returns: prints as text, shows itself in a notebook, can be saved as SVG.

    Attributes
    ----------
    storages : list of StorageRow
        In the order in which the tensors first reached them.
    """

    def __init__(self, storages):
        self.storages = storages

    def __repr__(self):
        return self.to_text()

    def _repr_svg_(self):
        return self.to_svg()

    def to_text(self):
        """Return the picture as lines of at most 80 characters, as far as a single slot allows that."""
        return "\n\n".join("\n".join(_text(storage)) for storage in self.storages)

    def to_svg(self):
        """Return the picture as an SVG document: the storage as a strip, each tensor as the grid that it looks like."""
        return _storage_svg.draw(self.storages)

    def save(self, path):
        """Write the picture to a file whose name ends in ``.svg`` or ``.txt``; ValueError if in another way."""
        path = Path(path)
        writers = {".svg": self.to_svg, ".txt": lambda: self.to_text() + "\n"}
        if path.suffix.lower() not in writers:
            raise ValueError(f"StoragePicture.save: the name ends in .svg or .txt, not {path.suffix!r}: {str(path)!r}")
        path.write_text(writers[path.suffix.lower()](), encoding="utf-8")


def show_storage(*tensors, names=None, limit=200):
    """Draw where the elements of tensors lie in the storages they share.

    Parameters
    ----------
    *tensors : Tensor
        Views of one storage, usually; for several storages, several pictures come one below the other.
    names : sequence of str, optional
        What to call them. If not given, what is written in the call, such as ``t.t()``, where its source can be read,
        else ``tensor 0``, ``tensor 1`` and so on.
    limit : int, default 200
        Most slots of a storage that are drawn; of a larger one, its beginning and its end.

    Returns
    -------
    StoragePicture

    Raises
    ------
    TypeError
        If something else than a tensor is given.
    ValueError
        If there is no tensor, or not one name for each.

    Examples
    --------
    >>> t = cygrad.arange(6).view(2, 3)
    >>> show_storage(t, t.t(), names=["t", "t.t()"])
    storage of 6 int64, 48 bytes
      t: shape (2, 3), stride (3, 1), offset 0, contiguous
      t.t(): shape (3, 2), stride (1, 3), offset 0
    <BLANKLINE>
      slot    0   1   2   3   4   5
      value   0   1   2   3   4   5
      t     0,0 0,1 0,2 1,0 1,1 1,2
      t.t() 0,0 1,0 2,0 0,1 1,1 2,1
    """
    if not tensors:
        raise ValueError("show_storage: at least one tensor is needed")
    if names is None:
        names = _written(len(tensors), sys._getframe(1))
    else:
        names = [str(name) for name in islice(names, len(tensors) + 1)]  # there may be endlessly many
    if len(names) != len(tensors):
        given = f"{len(names)} names" if len(names) < len(tensors) else "more names"
        raise ValueError(f"show_storage: {given} given for {len(tensors)} tensors")
    if limit < 2:
        raise ValueError(f"show_storage: limit is at least 2 slots, not {limit}")
    storages = {}
    for k, (name, tensor) in enumerate(zip(names, tensors, strict=True)):
        if not isinstance(tensor, cygrad.Tensor):
            raise TypeError(f"show_storage: argument {k} is a {type(tensor).__name__}, not a tensor")
        key = (tensor.untyped_storage().data_ptr(), str(tensor.dtype))
        if key not in storages:
            storages[key] = _storage_row(tensor, limit)
        storages[key].tensors.append(_tensor_row(name, tensor, storages[key].values))
    return StoragePicture(list(storages.values()))


def _written(count, frame):
    """Return the source text of the arguments of the call that `frame` is making."""
    unknown = [f"tensor {k}" for k in range(count)]
    first, last, start, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    lines = [] if first is None else [linecache.getline(frame.f_code.co_filename, n) for n in range(first, last + 1)]
    if not lines or start is None:
        return unknown
    encoded = [line.encode() for line in lines]  # columns count bytes
    encoded[-1] = encoded[-1][:end]
    text = encoded[0][start:].decode(errors="replace") + "".join(line.decode(errors="replace") for line in encoded[1:])
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return unknown
    if not isinstance(call, ast.Call) or len(call.args) != count or any(isinstance(a, ast.Starred) for a in call.args):
        return unknown
    return [shorten(ast.unparse(argument), _LONGEST) for argument in call.args]


def _storage_row(tensor, limit):
    """Read the visible slots of the storage that `tensor` looks into."""
    storage = tensor.storage()
    size = len(storage)
    if size <= limit:
        visible = range(size)
    else:
        visible = [*range((limit + 1) // 2), *range(size - limit // 2, size)]
    values = {slot: _value(storage[slot]) for slot in visible}
    kind = str(tensor.dtype).removeprefix("torch.")
    return StorageRow(f"storage of {size} {kind}, {storage.nbytes()} bytes", size, values, [])


def _value(x):
    text = f"{x:.4g}" if isinstance(x, float) else str(x)
    return text + "." if isinstance(x, float) and text.lstrip("-").isdigit() else text


def _tensor_row(name, tensor, visible):
    shape, stride, offset = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
    caption = f"shape {shape}, stride {stride}, offset {offset}" + (", contiguous" if tensor.is_contiguous() else "")
    return TensorRow(name, caption, shape, stride, offset, _cells(shape, stride, offset, visible))


def _cells(shape, stride, offset, visible):
    """Write for each visible slot the index of the element there."""
    if 0 in shape:
        return {}
    repeated = [st == 0 and n > 1 for n, st in zip(shape, stride, strict=True)]
    distinct = tuple(1 if r else n for r, n in zip(repeated, shape, strict=True))
    slots = np.full(distinct, offset, dtype=np.int64)
    for d, (n, st) in enumerate(zip(distinct, stride, strict=True)):
        slots += st * np.arange(n).reshape([-1 if k == d else 1 for k in range(len(distinct))])
    flat = slots.ravel()
    first, count = {}, {}
    for position in np.flatnonzero(np.isin(flat, list(visible))):
        slot = int(flat[position])
        first.setdefault(slot, position)
        count[slot] = count.get(slot, 0) + 1
    cells = {}
    for slot, position in first.items():
        index = np.unravel_index(position, distinct)
        text = ",".join("*" if r else str(int(k)) for r, k in zip(repeated, index, strict=True)) or "()"
        cells[slot] = text + (f"+{count[slot] - 1}" if count[slot] > 1 else "")
    return cells


def _text(storage):
    """Yield the lines of one storage: captions, then slots in columns, folded like staves of music."""
    yield storage.caption
    for row in storage.tensors:
        yield f"  {row.name}: {row.caption}"
    rows = [("slot", {slot: str(slot) for slot in storage.values}), ("value", storage.values)]
    rows += [(row.name, row.cells) for row in storage.tensors]
    label = max(len(name) for name, _ in rows)
    width = max((len(text) for _, cells in rows for text in cells.values()), default=1)
    slots = list(storage.values)
    per_line = max(1, (_LINE - 2 - label) // (width + 1))
    for start in range(0, len(slots), per_line):
        yield ""
        columns = slots[start : start + per_line]
        if start and columns[0] != slots[start - 1] + 1:
            yield "  ..."
        for name, cells in rows:
            texts = []
            for k, slot in enumerate(columns):
                gap = k and slot != columns[k - 1] + 1
                texts.append(("|" if gap else " ") + cells.get(slot, ".").rjust(width))
            yield f"  {name.ljust(label)}{''.join(texts)}".rstrip()
