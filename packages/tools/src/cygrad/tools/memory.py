"""Who holds the memory: all live tensors by what they are for, what the peak was made of, what stays that should not.

    print(memory.snapshot())                    # now
    print(memory.peak(step))                    # when a function needs most
    with memory.watch() as watch:               # what is still there afterwards
        train_one_epoch()
    print(watch.report())
    with memory.record():                       # from here on, with the line of the program that made each
        model = make_model()

Tensors are found through Python's garbage collector, which knows all of them, and storages without tensors if `record`
was on when they were made. What the allocator keeps for later is in `cygrad.storage.memory_stats`.
"""

import gc
import sys
from dataclasses import dataclass

from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.autograd._core import _birth_place, _kept_by, _line_of, _line_text, _memory_of
from cygrad.storage import Storage, memory_stats
from cygrad.storage.core import note_births, noted_births

__all__ = ["Memory", "Peak", "Snapshot", "peak", "record", "snapshot", "watch"]

ROLES = ("parameter", "buffer", "gradient", "optimizer state", "saved for backward", "passed back", "other")
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
        ``"parameter"``, ``"buffer"``, ``"gradient"``, ``"optimizer state"``, ``"saved for backward"``,
        ``"passed back"`` (made while a backward pass ran and `record` was on) or ``"other"``: the first that is true.
    name : str
        What it is in its module, optimizer or graph; of what is passed back, the node that made it; empty for others.
    tensors : tuple of str
        Dtype and shape of the tensors over it; empty where only a storage object holds it.
    line : str or None
        The line of the program that made it, if `record` was on then; or that computed it, if a graph recorded it and
        `autograd.trace_lines` was on.
    number : int or None
        Its place in the order of making, if `record` was on.
    borrowed : bool
        Whether the bytes belong to something else, such as a NumPy array or a mapped file.
    """

    address: int
    nbytes: int
    role: str
    name: str
    tensors: tuple
    line: str | None
    number: int | None = None
    borrowed: bool = False

    def __str__(self):
        shown = ", ".join(self.tensors[:3]) + (f" and {len(self.tensors) - 3} more" if len(self.tensors) > 3 else "")
        text = f"{_bytes(self.nbytes):>11}  {self.role}{f' {self.name}' if self.name else ''}: {shown or 'no tensor'}"
        text += ", borrowed" * self.borrowed
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

    def by_line(self):
        """Bytes for each line of the program that made some, the most first; under None those whose line is unknown."""
        sums = {}
        for m in self:
            sums[m.line] = sums.get(m.line, 0) + m.nbytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def table(self, row_limit=20):
        """The sums by role, by line where lines are known, and the largest storages, as text."""
        lines = [f"{_bytes(self.total):>11}  in {len(self)} storages"]
        lines += [f"{_bytes(n):>11}  {role}" for role, n in self.by_role().items() if n]
        places = self.by_line()
        if places.keys() - {None}:
            shown = list(places.items())[:row_limit]
            lines += ["", "by the line that made them:"]
            lines += [f"{_bytes(n):>11}  {line or 'made while nobody recorded'}" for line, n in shown]
            if len(places) > row_limit:
                rest = self.total - sum(n for _, n in shown)
                lines.append(f"{_bytes(rest):>11}  in {len(places) - row_limit} other lines")
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
        self.workspace = max(0, peak_bytes - sum(m.nbytes for m in self if not m.borrowed))

    def table(self, row_limit=20):
        """The peak and what it was made of, as text."""
        head = f"{_bytes(self.peak_bytes):>11}  at most, after {self.after}"
        head += f"; {_bytes(self.workspace)} of it inside of operations"
        return f"{head}\n{super().table(row_limit)}"

    __str__ = table


class record:
    """Notes, while active, of every storage that is made the line of the program that made it.

    Snapshots tell these lines as long as the storages live, also after the ``with``. Lines are those of the program,
    not of cygrad: of a parameter, where its module was made; of a gradient, where `backward` was called. Making a
    storage costs about a microsecond more. `peak` and `watch` record by themselves.

    Examples
    --------
    >>> import cygrad as torch
    >>> from cygrad.tools import memory
    >>> with memory.record():
    ...     x = torch.ones(1000)
    >>> made, = [m for m in memory.snapshot() if m.number is not None]
    >>> made.nbytes, made.tensors, made.line is not None
    (4000, ('float32 [1000]',), True)
    """

    def __enter__(self):
        self._since = note_births(1, _birth_place)
        return self

    def __exit__(self, *exc):
        note_births(-1, _birth_place)


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
    births = {id(s): (s, number, *place) for s, number, place in noted_births()}
    over = {(id(s), s.nbytes()): [] for s, *_ in births.values() if not isinstance(s._owner, Storage)}
    for t in tensors:
        over.setdefault(_memory_of(t), []).append(t)
        if t.is_leaf and t.grad is not None and _memory_of(t.grad)[0] not in names:
            _note(names, t.grad, "gradient", "")
    return Snapshot(_memory(key, those, names, births) for key, those in over.items() if key[1])


def _memory(key, tensors, names, births):
    storage, nbytes = key
    own, number, line, node = births.get(storage, (None, None, None, None))
    _, role, name = names.get(storage, (0, "other", "") if node is None else (0, "passed back", node))
    if line is None:
        traced = (_line_of(t.grad_fn) for t in tensors if t.grad_fn is not None)
        line = next((found for found in traced if found is not None), None)
    kinds = sorted({f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for t in tensors})
    borrowed = _is_borrowed(tensors[0]) if tensors else own._owner is not None
    return Memory(storage, nbytes, role, name, tuple(kinds), line and _line_text(line), number, borrowed)


def _is_borrowed(t):
    owner = t.untyped_storage()._owner
    while isinstance(owner, Storage):
        owner = owner._owner
    return owner is not None


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

    It is called twice: once to find the operation after which most bytes are in use, and once to look there, with
    `record` on. Both times it must run the same operations.

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

    with record():
        most, events = _run_watched(look, function, args, kwargs)
    if found is None or count != len(live):
        raise RuntimeError(f"peak(): the function ran {len(live)} operations first and {count} then; it must do "
                           "the same in both calls")
    kind, name = events[place][:2]
    return Peak(found, most, _core._row_name(name) if kind == 0 else name)


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
        self._recorder = record().__enter__()
        return self

    def __exit__(self, *exc):
        self._recorder.__exit__()
        gc.collect()
        since = self._recorder._since
        self.left = Snapshot(m for m in snapshot() if m.number is not None and m.number > since)

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
