"""Sums of a profile's events, and their table."""

from dataclasses import dataclass

COLUMNS = {
    "self": "self_seconds",
    "self_cpu_time_total": "self_seconds",
    "total": "total_seconds",
    "cpu_time_total": "total_seconds",
    "calls": "calls",
    "count": "calls",
    "bytes": "bytes",
    "flops": "flops",
    "memory": "grown_bytes",
    "self_cpu_memory_usage": "grown_bytes",
    "name": "name",
}


@dataclass
class Row:
    """The sums of all events of one key: seconds, calls, bytes of operands and results, multiplications and additions.

    `grown_bytes` are the bytes by which memory grew there, if the profile looked at memory.

    `total_seconds` counts an event that runs inside another one of the same key once; `phase` is ``"forward"``,
    ``"backward"`` or ``"both"``.
    """

    name: str
    shapes: tuple = None
    phase: str = None
    calls: int = 0
    self_seconds: float = 0.0
    total_seconds: float = 0.0
    forward_seconds: float = 0.0
    backward_seconds: float = 0.0
    bytes: int = 0
    flops: int = 0
    kernel_seconds: float = 0.0
    grown_bytes: int = 0

    @property
    def gb_per_s(self):
        """Bytes moved in a second of the operations themselves, in units of 10^9."""
        return self.bytes / self.kernel_seconds / 1e9 if self.kernel_seconds else 0.0

    @property
    def gflop_per_s(self):
        """Multiplications and additions in a second of the operations themselves, in units of 10^9."""
        return self.flops / self.kernel_seconds / 1e9 if self.kernel_seconds else 0.0


class Averages(list):
    """A list of `Row`, the largest self time first, that prints itself as a table."""

    def __init__(self, profile, title, key, kinds):
        self.title, self.seconds, self.peak_bytes = title, profile.seconds, profile.peak_bytes
        self.memory = profile.profile_memory
        rows = {}
        for event in profile.events:
            if event.kind in kinds:
                name, shapes = key(event)
                _add(rows.setdefault((name, shapes), Row(name, shapes)), event, key)
        super().__init__(sorted(rows.values(), key=lambda row: -row.self_seconds))

    def table(self, sort_by="self", row_limit=100, header=None, limits=False):
        """The rows as text.

        Parameters
        ----------
        sort_by : str
            ``"self"``, ``"total"``, ``"calls"``, ``"bytes"``, ``"flops"``, ``"memory"`` or ``"name"``; PyTorch's
            ``"self_cpu_time_total"``, ``"cpu_time_total"`` and ``"count"`` mean the first three,
            ``"self_cpu_memory_usage"`` means ``"memory"``.
        row_limit : int
            The most rows; -1 for all.
        header : str, optional
            A first line.
        limits : bool
            Measure what the machine reaches, and show the rows' rates as shares of it.

        Raises
        ------
        ValueError
            `sort_by` is another word.
        """
        if sort_by not in COLUMNS:
            raise ValueError(f"table(): sort_by is one of {', '.join(map(repr, COLUMNS))}, not {sort_by!r}")
        column = COLUMNS[sort_by]
        rows = sorted(self, key=lambda row: getattr(row, column), reverse=column != "name")
        rows = rows if row_limit < 0 else rows[:row_limit]
        best = None
        if limits:
            from .profiler import machine_limits

            best = machine_limits()
        return "\n".join([*([header] if header else []), *_lines(self, rows, best)])

    def to_json(self):
        """The rows as dictionaries, for programs."""
        return [{**row.__dict__, "gb_per_s": row.gb_per_s, "gflop_per_s": row.gflop_per_s} for row in self]

    def __str__(self):
        return self.table()


class ByModule(Averages):
    """Rows of modules: their paths say which is inside which."""

    def __init__(self, profile, fold=False):
        names = _folded({e.module for e in profile.events if e.module}) if fold else {}
        super().__init__(profile, "module",
                         lambda e: (names.get(e.module, e.module) or "(outside of modules)", None),
                         ("op", "node", "region"))
        calls = {}
        for event in profile.events:
            if event.region == "module":
                name = names.get(event.name, event.name)
                calls[name] = calls.get(name, 0) + 1
        for row in self:
            row.calls = calls.get(row.name, 0)
            inside = [r for r in self if r is row or r.name.startswith(row.name + ".")]
            row.total_seconds = sum(r.self_seconds for r in inside)


def _folded(paths):
    """For each path the one under which modules like it are summed: ``GPT.blocks.*.mlp``.

    Numbered neighbours with the same modules inside them are alike, from three of them on. Those without modules inside
    are not: they may be anything.
    """
    inside = {}
    for path in paths:
        parts = path.split(".")
        for k in range(len(parts)):
            inside.setdefault(tuple(parts[:k]), set()).add(parts[k])
    shapes, found = {}, {(): ()}
    for path in sorted((p for p in inside if p), key=len, reverse=True):
        shapes[path] = frozenset((part, shapes.get((*path, part), frozenset())) for part in inside[path])
    for around in sorted(inside, key=len):
        alike = {}
        for part in inside[around]:
            alike.setdefault(shapes.get((*around, part)) if part.isdigit() else None, []).append(part)
        for shape, parts in alike.items():
            for part in parts:
                found[*around, part] = (*found[around], "*" if shape and len(parts) >= 3 else part)
    return {path: ".".join(found[tuple(path.split("."))]) for path in paths}


def _add(row, event, key):
    row.calls += 1
    row.self_seconds += event.self_duration
    if event.phase == "forward":
        row.forward_seconds += event.self_duration
    else:
        row.backward_seconds += event.self_duration
    row.phase = event.phase if row.phase in (None, event.phase) else "both"
    row.bytes += event.bytes
    row.grown_bytes += event.grown
    row.flops += event.flops
    if event.kind == "op":
        row.kernel_seconds += event.self_duration
    around = event.parent
    while around is not None and key(around) != key(event):
        around = around.parent
    if around is None:
        row.total_seconds += event.duration


def _lines(averages, rows, best):
    wide = max([len(averages.title), 20, *(min(60, len(_label(row))) for row in rows)])
    timed = sum(row.self_seconds for row in averages)
    head = f"{averages.title:<{wide}}{'calls':>8}{'self':>12}{'':>7}{'total':>12}{'forward':>12}{'backward':>12}"
    head += f"{'moved':>11}{'GB/s':>9}{'GFLOP/s':>10}" + f"{'memory':>12}" * averages.memory
    lines = [head, "-" * len(head)]
    for row in rows:
        label = _label(row)
        label = label if len(label) <= wide else label[: wide - 1] + "…"
        share = row.self_seconds / averages.seconds if averages.seconds else 0.0
        lines.append(
            f"{label:<{wide}}{row.calls:>8}{_time(row.self_seconds):>12}{share:>7.1%}{_time(row.total_seconds):>12}"
            f"{_time(row.forward_seconds):>12}{_time(row.backward_seconds):>12}{_bytes(row.bytes):>11}"
            f"{_rate(row.gb_per_s, best and best['GB/s']):>9}{_rate(row.gflop_per_s, best and best['GFLOP/s']):>10}"
            + f"{_change(row.grown_bytes):>12}" * averages.memory
        )
    lines += ["-" * len(head), f"{_time(averages.seconds)} in all, {_time(timed)} of it in the rows; the rest is "
              f"Python. At most {_bytes(averages.peak_bytes)} in tensors."]
    if best:
        lines.append(f"This machine copies {best['GB/s']:.1f} GB/s and multiplies float32 matrices at "
                     f"{best['GFLOP/s']:.0f} GFLOP/s: rates are shares of that.")
    return lines


def _label(row):
    return row.name if row.shapes is None else f"{row.name} {', '.join(str(list(s or ())) for s in row.shapes)}"


def _time(seconds):
    for unit, name in ((1, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3f} {name}"
    return f"{seconds * 1e6:.3f} us" if seconds else "-"


def _bytes(n):
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n} B" if n else "-"


def _change(n):
    return _bytes(n) if n >= 0 else f"-{_bytes(-n)}"


def _rate(value, best):
    if not value:
        return "-"
    return f"{value / best:.0%}" if best else f"{value:.2f}"
