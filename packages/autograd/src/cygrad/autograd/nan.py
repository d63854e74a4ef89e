"""Where NaN comes from: `find_nan`."""

import threading
import warnings

from . import _core
from ._core import Tensor, _keep_lines, _line_of, _line_text, _mode_bits, _saved_by, _set_observers

__all__ = ["NanError", "NanReport", "Values", "find_nan"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .nan_report import NanReport, Values

_NAN, _INF = 0x100, 0x200  # MODE_NAN, MODE_INF of mode.pxi


class NanError(RuntimeError):
    """An operation gave NaN or, if they are looked for, infinities.

    Attributes
    ----------
    report : NanReport
    """

    def __init__(self, report):
        super().__init__(str(report))
        self.report = report

    def __reduce__(self):
        return (NanError, (self.report,))


def __getattr__(name):
    if name in ("NanReport", "Values"):
        from . import nan_report

        return getattr(nan_report, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _values(role, t):
    from .nan_report import Values

    t = t.detach()
    if not (t.is_floating_point() or t.is_complex()):
        finite = t.reshape(-1)
        nan = inf = 0
    else:
        parts = t.abs().reshape(-1) if t.is_complex() else t.reshape(-1)
        nan, inf = int((parts != parts).sum()), int(parts.isinf().sum())
        finite = parts[parts.isfinite()]
    low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (None, None)
    return Values(role, t.dtype, tuple(t.shape), low, high, nan, inf)


def _described(tensors, role):
    """(place, Values) of each; places are shown where there are several."""
    several = sum(t is not None for t in tensors) > 1
    return [(i, _values(f"{role} {i}" if several else role, t)) for i, t in enumerate(tensors) if t is not None]


def _operation(name, node_name, call):
    """For users: the row's name if it is public, and the function of cygrad that they called."""
    if node_name and not (hasattr(Tensor, name) or hasattr(_core, name)):
        name = node_name.lower()
    return f"{name} in {call}" if call and call.rpartition(".")[2] != name else name


def _report(phase, name, results, inputs, node, line, inf):
    from .nan_report import NanReport

    made = None if node is None else _line_of(node)
    if phase == "forward":
        name = _operation(*name, line and line[3])
        given, subject = _described(inputs, "input"), name
    else:
        given, subject = _described(inputs, "the gradient that arrived"), f"Function '{name[0]}'"
        given += [(place, _values(f"saved {place}", t)) for place, t in _saved_by(node)]
        name = name[0]
    out = _described(results, "result" if phase == "forward" else "gradient of input")
    word = "nan" if any(v.nan for _, v in out) else "inf"
    bad = [v for _, v in given if v.nan or (word == "inf" and v.inf)]      # NaN made from infinities begins here
    first = next(i for i, v in out if v.nan or (word == "inf" and v.inf))
    if bad:
        sentence = f"{subject} was given {word} values in {bad[0].role}: no operation that was watched made them."
    elif phase == "forward":
        sentence = f"{subject} returned {word} values: it is the first operation that made any."
    else:
        sentence = f"{subject} returned {word} values in its {first}th output."
    lines = [sentence]
    if line:
        lines.append(f"  at {_line_text(line)}")
    if made:
        lines.append(f"  of the forward call at {_line_text(made)}")
    given, out = tuple(v for _, v in given), tuple(v for _, v in out)
    lines += [f"  {v}" for v in (*given, *out)]
    if word == "nan" and not bad and not inf and any(v.inf for v in given):
        lines.append("  An input is infinite; find_nan(inf=True) shows where that began.")
    return NanReport(phase, name, not bad, given, out, line and _line_text(line), made and _line_text(made),
                     "\n".join(lines))


_active = threading.local()


def _found(phase, name, node_name, results, inputs, node, line):
    searches = getattr(_active, "searches", None)
    if searches:
        searches[-1]._take(phase, (name, node_name), results, inputs, node, line)


class find_nan:
    """Finds the first operation, forward or backward, that gives NaN: a context manager.

    It looks at what every operation of this thread gives and tells the operation, the user's line, and shapes, dtypes
    and ranges of its inputs; of a node of the graph also the line of the forward call. If the NaN came in with the
    user's data, it says that. Looking costs about three passes over each result.

    Parameters
    ----------
    inf : bool, default False
        Infinities count too. Masks are often filled with them on purpose.
    action : str
        ``"raise"`` a `NanError` (default), ``"warn"``, or ``"record"`` only. The search ends with the first finding.

    Attributes
    ----------
    report : NanReport or None
        The finding.

    Examples
    --------
    >>> import cygrad as torch
    >>> x = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> with torch.autograd.find_nan(action="record") as search:
    ...     y = x.sqrt() * 0
    ...     y.sum().backward()
    >>> search.report.phase, search.report.operation
    ('backward', 'SqrtBackward0')
    """

    def __init__(self, inf=False, action="raise"):
        if not isinstance(inf, bool):
            raise TypeError(f"find_nan(): argument 'inf' must be bool, not {type(inf).__name__}")
        if action not in ("raise", "warn", "record"):
            raise ValueError(f"find_nan(): argument 'action' must be 'raise', 'warn' or 'record', not {action!r}")
        self.inf = inf
        self.action = action
        self.report = None
        self._before = []

    def __enter__(self):
        if not hasattr(_active, "searches"):
            _active.searches = []
        _active.searches.append(self)
        _keep_lines(1)
        self._before.append(_mode_bits(_NAN | _INF, _NAN | (_INF if self.inf else 0)))
        return self

    def __exit__(self, *exc):
        _mode_bits(_NAN | _INF, self._before.pop())
        _keep_lines(-1)
        _active.searches.pop()

    def _take(self, phase, name, results, inputs, node, line):
        if self.report is not None:
            return
        self.report = _report(phase, name, results, inputs, node, line, self.inf)
        if self.action == "raise":
            raise NanError(self.report)
        if self.action == "warn":
            warnings.warn(str(self.report), RuntimeWarning, stacklevel=4)


_set_observers(nan=_found)
