"""Who holds the memory: all live tensors by what they are for, what the peak was made of, what stays that should not.

    print(memory.snapshot())                    # now
    print(memory.peak(step))                    # when a function needs most
    with memory.watch() as watch:               # what is still there afterwards
        train_one_epoch()
    print(watch.report())

Tensors are found through Python's garbage collector, which knows all of them. What has no tensor is not seen: memory
that only a storage object holds, and what the allocator keeps for later (`cygrad.storage.memory_stats`).
"""

import gc
import sys
from dataclasses import dataclass

from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.autograd._core import _kept_by, _line_of, _line_text, _memory_of
from cygrad.storage import memory_stats

__all__ = ["Memory", "Peak", "Snapshot", "peak", "snapshot", "watch"]

ROLES = ("parameter", "buffer", "gradient", "optimizer state", "saved for backward", "other")
_PROFILE = 0x800  # MODE_PROFILE of mode.pxi


@dataclass(frozen=True)
class Memory:
    """One storage. It holds no tensor: looking at memory keeps nothing alive.

    Attributes
    ----------
    address : int
        Of the storage object; told apart by it while it lives.
    nbytes : int
    role : str
        ``"parameter"``, ``"buffer"``, ``"gradient"``, ``"optimizer state"``, ``"saved for backward"`` or ``"other"``:
        the first of these that is true.
    name : str
        What it is in its module, optimizer or graph; empty for others.
    tensors : tuple of str
        Dtype and shape of the tensors over it.
    line : str or None
        The line of the program that computed it, if a graph recorded it and `autograd.trace_lines` was on.
    """

    address: int
    nbytes: int
    role: str
    name: str
    tensors: tuple
    line: str | None

    def __str__(self):
        shown = ", ".join(self.tensors[:3]) + (f" and {len(self.tensors) - 3} more" if len(self.tensors) > 3 else "")
        text = f"{_bytes(self.nbytes):>11}  {self.role}{f' {self.name}' if self.name else ''}: {shown}"
        return f"{text}, made in {self.line}" if self.line else text


class Snapshot(list):
    """Storages that are alive, as a list of `Memory`, the largest first; prints as a table.

    Attributes
    ----------
    total : int
        Bytes of all of them.
    """

    def __init__(self, found):
        super().__init__(sorted(found, key=lambda m: (-m.nbytes, m.role, m.name)))
        self.total = sum(m.nbytes for m in self)

    def by_role(self):
        """Bytes for each role, in the order of `Memory.role`; 0 where there are none."""
        return {role: sum(m.nbytes for m in self if m.role == role) for role in ROLES}

    def table(self, row_limit=20):
        """The sums by role and the largest storages, as text."""
        lines = [f"{_bytes(self.total):>11}  in {len(self)} storages"]
        lines += [f"{_bytes(n):>11}  {role}" for role, n in self.by_role().items() if n]
        if self:
            lines += ["", "the largest:", *map(str, self[:row_limit])]
        if len(self) > row_limit:
            lines.append(f"{_bytes(sum(m.nbytes for m in self[row_limit:])):>11}  in {len(self) - row_limit} others")
        return "\n".join(lines)

    __str__ = table


class Peak(Snapshot):
    """What a function held when it needed most.

    Attributes
    ----------
    peak_bytes : int
        The most bytes in use at any moment, temporaries of operations included.
    workspace : int
        What of them no tensor held: such temporaries.
    after : str
        The operation after which it was.
    """

    def __init__(self, found, peak_bytes, after):
        super().__init__(found)
        self.peak_bytes, self.after = peak_bytes, after
        self.workspace = max(0, peak_bytes - self.total)

    def table(self, row_limit=20):
        """The peak and what it was made of, as text."""
        head = f"{_bytes(self.peak_bytes):>11}  at most, after {self.after}"
        head += f"; {_bytes(self.workspace)} of it inside of operations"
        return f"{head}\n{super().table(row_limit)}"

    __str__ = table


def snapshot():
    """Everything that is alive now, as a `Snapshot`. It looks at every object of the program, which takes a while."""
    tensors, nodes, modules, optimizers = _living()
    names = {}  # storage -> (rank of the role, role, name)
    _name_modules(names, modules)
    _name_optimizers(names, optimizers)
    for node in nodes:
        for field, value, packed in _kept_by(node):
            if not packed:
                _note(names, value, "saved for backward", f"{node.name()}.{field}")
    over = {}
    for t in tensors:
        over.setdefault(_memory_of(t), []).append(t)
        if t.is_leaf and t.grad is not None and _memory_of(t.grad)[0] not in names:
            _note(names, t.grad, "gradient", "")
    return Snapshot(_memory(storage, size, over[storage, size], names) for storage, size in over if size)


def _memory(storage, nbytes, tensors, names):
    _, role, name = names.get(storage, (0, "other", ""))
    made = [line for t in tensors if t.grad_fn is not None and (line := _line_of(t.grad_fn)) is not None]
    kinds = sorted({f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for t in tensors})
    return Memory(storage, nbytes, role, name, tuple(kinds), _line_text(made[0]) if made else None)


def _living():
    """Tensors, nodes, modules, optimizers. Asking an object for its class can run code of others; its type cannot."""
    module = getattr(sys.modules.get("cygrad.nn"), "Module", ())
    optimizer = getattr(sys.modules.get("cygrad.optim"), "Optimizer", ())
    kinds = (Tensor, _core.Node, module, optimizer)
    found = tuple([] for _ in kinds)
    for thing in gc.get_objects():
        for kind, those in zip(kinds, found, strict=True):
            if kind and issubclass(type(thing), kind):
                those.append(thing)
    return found


def _note(names, t, role, name):
    """Of several roles of one storage the first counts, and of several names the shortest."""
    if isinstance(t, Tensor):
        storage, new = _memory_of(t)[0], (ROLES.index(role), role, name)
        old = names.get(storage)
        if old is None or (new[0], len(name), name) < (old[0], len(old[2]), old[2]):
            names[storage] = new


def _name_modules(names, modules):
    inside = {id(part) for m in modules for part in m.children()}
    roots = [m for m in modules if id(m) not in inside] or modules
    for m in (*roots, *modules):                 # a module that contains itself has no root
        before = f"{type(m).__name__}."
        for role, listed in (("parameter", m.named_parameters()), ("buffer", m.named_buffers())):
            for name, t in listed:
                first = _memory_of(t)[0] not in names
                if m in roots or first:
                    _note(names, t, role, before + name)
                    if role == "parameter" and t.grad is not None:
                        _note(names, t.grad, "gradient", before + name)


def _name_optimizers(names, optimizers):
    for o in optimizers:
        for state in o.state.values():
            if isinstance(state, dict):
                for key, value in state.items():
                    _note(names, value, "optimizer state", f"{type(o).__name__}.{key}")


def peak(function, *args, **kwargs):
    """What ``function(*args, **kwargs)`` holds when it needs most.

    It is called twice: once to find the operation after which most bytes are in use, and once to look there. Both times
    it must run the same operations.

    Parameters
    ----------
    function : callable

    Returns
    -------
    Peak

    Raises
    ------
    RuntimeError
        It ran no operation, or other ones in the second call.
    """
    live = []
    _run_watched(lambda: live.append(memory_stats()["live_bytes"]), function, args, kwargs)
    if not live:
        raise RuntimeError("peak(): the function ran no operation that could need memory")
    place, count = live.index(max(live)), 0
    found = None

    def look():
        nonlocal count, found
        if count == place:
            found = snapshot()
        count += 1

    most, events = _run_watched(look, function, args, kwargs)
    if found is None or count != len(live):
        raise RuntimeError(f"peak(): the function ran {len(live)} operations first and {count} then; it must do "
                           "the same in both calls")
    operations = [event for event in events if event[0] == 0]
    return Peak(found, most, _core._row_name(operations[place][1]))


def _run_watched(after_each, function, args, kwargs):
    """Call with `after_each` run after each operation; the most bytes in use, and the events."""
    from cygrad.storage import reset_peak

    events = []
    reset_peak()
    before = _core._profile_into(events, after_each)
    mode = _core._mode_bits(_PROFILE, _PROFILE)
    try:
        function(*args, **kwargs)
    finally:
        _core._mode_bits(_PROFILE, mode)
        _core._profile_into(*before)
    return memory_stats()["peak_bytes"], events


class watch:
    """What was made inside a ``with`` and is alive after it, garbage collected: what leaks, if nothing was to be kept.

    Attributes
    ----------
    left : Snapshot
        Those storages, after the ``with``.

    Examples
    --------
    >>> import cygrad as torch
    >>> from cygrad.tools import memory
    >>> history = []
    >>> with memory.watch() as watch:
    ...     x = torch.ones(3, requires_grad=True)
    ...     history.append((x * 2).sum())         # keeps its graph
    >>> len(watch.left)                           # x, its sum, and the 2 by which the gradient multiplies
    3
    """

    def __enter__(self):
        gc.collect()
        # The tensors themselves are held, so that no storage made inside can have the address of one that is gone.
        self._held = _living()[0]
        self._before = {_memory_of(t)[0] for t in self._held}
        return self

    def __exit__(self, *exc):
        gc.collect()
        self.left = Snapshot(m for m in snapshot() if m.address not in self._before)
        del self._held

    def report(self, row_limit=20):
        """What is left, as text."""
        if not self.left:
            return "nothing that was made is left"
        return f"made and still there:\n{self.left.table(row_limit)}"


def _bytes(n):
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n} B"
