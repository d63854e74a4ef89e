"""What a graph keeps for its backward pass: `saved_tensors`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ._core import Tensor, _kept_by, _line_of, _line_text, _memory_of

__all__ = ["Saved", "SavedTensors", "saved_tensors"]


@dataclass(frozen=True)
class Saved:
    """One value that one node keeps. It holds no tensor: looking at a graph keeps nothing alive.

    Attributes
    ----------
    node : str
        Name of the node; `number` is its place in the order of creation.
    name : str
        What the operation calls the value: ``self``, ``other``, ``result``; a number, or ``ctx.NAME``, in a Function.
    shape, dtype : tuple, dtype or None
        None where a hook packed it into something else than a tensor.
    nbytes : int or None
        Of its elements; None where that cannot be known.
    storage_nbytes : int or None
        Of the memory that it keeps alive, which may be more: a view keeps all of its storage.
    counted : bool
        Whether the total has this memory from here, and not from an entry before.
    owner : str or None
        Name of the leaf whose memory this is, ``"a leaf"`` for one without a name: no memory beside the parameters'.
    packed : bool
        Whether `saved_tensors_hooks` packed it.
    line : str or None
        Where the program made the node, if lines were kept (`autograd.trace_lines`).
    """

    node: str
    number: int
    name: str
    shape: tuple | None
    dtype: object
    nbytes: int | None
    storage_nbytes: int | None
    counted: bool
    owner: str | None
    packed: bool
    line: str | None


class SavedTensors(Sequence):
    """All that a graph keeps, the newest node first; prints as a table.

    Attributes
    ----------
    total : int
        Bytes of all storages that are kept, each counted once.
    leaves : int
        Those of them that are leaves' (parameters'), which are there without the graph too.
    extra : int
        The others: what the graph costs.
    unknown : int
        Number of values whose size cannot be known, because a hook packed them.
    """

    def __init__(self, entries):
        self._entries = tuple(entries)
        if not all(isinstance(e, Saved) for e in self._entries):
            raise TypeError("SavedTensors is made from Saved entries: graph.saved_tensors(loss) makes them")
        counted = [e for e in self._entries if e.counted]
        self.total = sum(e.storage_nbytes for e in counted)
        self.leaves = sum(e.storage_nbytes for e in counted if e.owner is not None)
        self.extra = self.total - self.leaves
        self.unknown = sum(e.storage_nbytes is None for e in self._entries)

    def __getitem__(self, i):
        return SavedTensors(self._entries[i]) if isinstance(i, slice) else self._entries[i]

    def __len__(self):
        return len(self._entries)

    def by_node(self):
        """Bytes that each node is the first to keep, by (name, number); 0 where others keep the same memory."""
        sums = {}
        for e in self._entries:
            key = (e.node, e.number)
            sums[key] = sums.get(key, 0) + (e.storage_nbytes if e.counted else 0)
        return sums

    def __str__(self):
        rows = [("node", "saved", "dtype", "shape", "bytes", "")]
        for e in self._entries:
            dtype = "" if e.dtype is None else str(e.dtype).removeprefix("torch.")
            shape = "" if e.shape is None else str(list(e.shape))
            rows.append((e.node, e.name, dtype, shape, "?" if e.nbytes is None else f"{e.nbytes:,}", self._note(e)))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = []
        for row in rows:
            cells = [c.rjust(w) if i == 4 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=False))]
            lines.append("  ".join([*cells, row[5]]).rstrip())
        lines.append(f"{self.total:,} bytes in all, {self.leaves:,} of them leaves'; "
                     f"{self.extra:,} kept for backward alone")
        if self.unknown:
            lines.append(f"{self.unknown} packed values of unknown size")
        return "\n".join(lines)

    __repr__ = __str__

    @staticmethod
    def _note(e):
        notes = [e.owner] if e.owner is not None else []
        if e.packed:
            notes.append("packed")
        if not e.counted and e.storage_nbytes is not None and e.owner is None:
            notes.append("counted above")
        elif e.storage_nbytes is not None and e.nbytes is not None and e.storage_nbytes > e.nbytes:
            notes.append(f"of a storage of {e.storage_nbytes:,}")
        if e.line is not None:
            notes.append(e.line)
        return ", ".join(notes)


def _nodes(roots):
    """Every operation that the roots reach, the newest first, and the leaves."""
    seen, leaves, waiting = {}, [], list(roots)
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        if node.name() == "AccumulateGrad":
            leaves.append(node.variable)
            continue
        seen[id(node)] = node
        waiting += [n for n, _ in node.next_functions if n is not None]
    return sorted(seen.values(), key=lambda n: n._sequence_nr(), reverse=True), leaves


def _tensors_in(value):
    """Tensors in what a hook packed."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [t for v in value for t in _tensors_in(v)]


def _size(value):
    """(shape, dtype, bytes, [(storage, its bytes)]) of a saved value; a packed one may be anything."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype, value.numel() * value.itemsize, [_memory_of(value)]
    if isinstance(value, (bytes, bytearray)):
        return None, None, len(value), [(id(value), len(value))]
    tensors = _tensors_in(value)
    if not tensors:
        return None, None, None, None
    return None, None, sum(t.numel() * t.itemsize for t in tensors), list(dict(map(_memory_of, tensors)).items())


def saved_tensors(outputs, named_parameters=()):
    """Everything that the graph behind `outputs` keeps for its backward pass.

    Parameters
    ----------
    outputs : Tensor or iterable of Tensor
        Roots, such as the loss.
    named_parameters : iterable of (str, Tensor)
        Names for the leaves, for example ``model.named_parameters()``.

    Returns
    -------
    SavedTensors
        Storages that several nodes keep, or that belong to a leaf, are counted once.

    Raises
    ------
    TypeError
        Something in `outputs` is no tensor.
    RuntimeError
        An output is not part of a graph.

    Examples
    --------
    >>> import cygrad as torch
    >>> w = torch.ones(4, requires_grad=True)
    >>> loss = (w.exp() * w).sum()
    >>> kept = torch.autograd.graph.saved_tensors(loss, [("w", w)])
    >>> kept.total, kept.leaves, kept.extra
    (32, 16, 16)
    """
    roots = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    for i, t in enumerate(roots):
        if not isinstance(t, Tensor):
            raise TypeError(f"saved_tensors(): outputs[{i}] must be a Tensor, not {type(t).__name__}")
        if not t.requires_grad:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
    nodes, leaves = _nodes([t.grad_fn for t in roots if t.grad_fn is not None])
    names = {_memory_of(t)[0]: "a leaf" for t in leaves if t.requires_grad}
    names |= {_memory_of(t)[0]: name for name, t in named_parameters if isinstance(t, Tensor) and t.numel()}
    entries, counted = [], set()
    for node in nodes:
        line = _line_of(node)
        for name, value, packed in _kept_by(node):
            shape, dtype, nbytes, storages = _size(value)
            fresh = [(s, n) for s, n in storages or () if s not in counted]
            counted.update(s for s, _ in fresh)
            owner = names.get(storages[0][0]) if storages else None
            of_storage = None if storages is None else sum(n for _, n in fresh or storages)
            entries.append(Saved(node.name(), node._sequence_nr(), name, shape, dtype, nbytes, of_storage, bool(fresh),
                                 owner, packed, line and _line_text(line)))
    return SavedTensors(entries)
