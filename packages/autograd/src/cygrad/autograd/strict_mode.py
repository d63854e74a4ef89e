"""Strict mode: accidents that run silently become errors that explain."""

import threading
import weakref

from ._core import Tensor, _line_text, _mode_bits, _set_observers, _strict_bit, _user_line

__all__ = ["StrictError", "is_strict_enabled", "refuse", "set_strict", "strict", "used_since"]

_STRICT = 0x400  # MODE_STRICT of mode.pxi
KINDS = ("broadcast", "narrowing", "no_gradient", "unused", "shared_state")


class StrictError(RuntimeError):
    """An accident that strict mode refuses.

    Attributes
    ----------
    kind : str
        The word that `strict.allow` takes to let it pass.
    """

    def __init__(self, kind, message):
        super().__init__(f"{message} [strict mode; autograd.strict.allow({kind!r}) lets this pass]")
        self.kind = kind
        self._message = message

    def __reduce__(self):
        return (StrictError, (self.kind, self._message))


class _State(threading.local):
    def __init__(self):
        self.allowed = []  # tuples of kinds
        self.watched = []  # lists of (name, weak reference) of the parameters given to strict()
        self.used = {}  # id of a leaf -> (weak reference, line of its first use)


_state = _State()


def is_strict_enabled():
    """Whether strict mode is on in this thread."""
    return _strict_bit()


def refuse(kind, message):
    """Raise `StrictError`, unless this kind of accident is allowed here. To be called in strict mode."""
    if not any(kind in kinds for kinds in _state.allowed):
        raise StrictError(kind, message)


def used_since(parameter):
    """Where an operation first used a leaf since `forget_uses`: a line, "" for an unknown one; None if none did."""
    found = _state.used.get(id(parameter))
    if found is None or found[0]() is not parameter:
        return None
    return found[1]


def forget_uses(parameters):
    for p in parameters:
        _state.used.pop(id(p), None)


def _note_used(leaf):
    key = id(leaf)
    found = _state.used.get(key)
    if found is None or found[0]() is not leaf:
        line = _user_line()
        used = _state.used
        gone = weakref.ref(leaf, lambda ref: used.pop(key) if key in used and used[key][0] is ref else None)
        used[key] = (gone, _line_text(line) if line else "")


def describe_missing(name, parameter):
    """Why a parameter that requires grad has none: (kind, sentence)."""
    line = used_since(parameter)
    shape = list(parameter.shape)
    if line is None:
        return "unused", f"{name}, of shape {shape}, was used by no operation"
    at = f", first at {line}" if line else ""
    return "no_gradient", (f"{name}, of shape {shape}, was used{at}, but no path of the graph leads to it from what "
                           "backward() was called on: detach(), .data, no_grad() or an integer dtype cuts it off")


def refuse_missing(missing, where):
    """`missing`: (name, parameter) of those without a gradient."""
    by_kind = {}
    for name, p in missing:
        kind, sentence = describe_missing(name, p)
        by_kind.setdefault(kind, []).append(sentence)
    for kind, sentences in by_kind.items():
        more = f"; and {len(sentences) - 5} more" if len(sentences) > 5 else ""
        refuse(kind, f"{where}: {len(sentences)} of the parameters that require grad got none. "
                     f"{'; '.join(sentences[:5])}{more}. Set requires_grad_(False), or leave them out.")


def _after_backward():
    """A pass has accumulated: the parameters given to strict() must have gradients."""
    for watched in _state.watched:
        alive = [(name, ref()) for name, ref in watched]
        missing = [(name, p) for name, p in alive if p is not None and p.requires_grad and p.grad is None]
        if missing:
            refuse_missing(missing, "backward()")


def set_strict(mode):
    """Switch strict mode on or off for this thread; see `strict`."""
    if not isinstance(mode, bool):
        raise TypeError(f"set_strict(): argument 'mode' must be bool, not {type(mode).__name__}")
    _mode_bits(_STRICT, _STRICT if mode else 0)


def _named(parameters):
    if hasattr(parameters, "named_parameters"):
        parameters = parameters.named_parameters()
    found = []
    for i, entry in enumerate(parameters):
        name, p = entry if isinstance(entry, tuple) else (f"parameter {i}", entry)
        if not isinstance(p, Tensor):
            raise TypeError(f"strict(): parameters must be Tensors or (name, Tensor) pairs, got {type(p).__name__}")
        found.append((name, weakref.ref(p)))
    return found


class _Allow:
    """Lets kinds of accidents pass inside."""

    def __init__(self, kinds):
        self._kinds = kinds

    def __enter__(self):
        _state.allowed.append(self._kinds)

    def __exit__(self, *exc):
        _state.allowed.remove(self._kinds)


class strict:
    """Strict mode, inside ``with strict():`` and for this thread: silent accidents raise `StrictError`.

    ============== ==================================================================================================
    broadcast      Two operands that are both expanded, as (N,) and (N, 1) are to (N, N), and a loss of an input and a
                   target of different shapes
    narrowing      A tensor's values written into a tensor of a narrower dtype: by ``copy_``, an assignment, an
                   in-place operation or ``out=``; or ``x.to(other)`` that narrows
    no_gradient    An optimizer's ``step`` while a parameter that operations used has no gradient, since no path of
                   the graph leads to it
    unused         The same, for a parameter that no operation used
    shared_state   An optimizer's ``step`` would change a state that another object holds too
    ============== ==================================================================================================

    Parameters
    ----------
    parameters : Module or iterable, optional
        Tensors or (name, tensor) pairs that must have a gradient after each ``backward()``; an optimizer's are looked
        at when it steps.

    Examples
    --------
    >>> import cygrad as torch
    >>> prediction, target = torch.zeros(4, 1), torch.ones(4)
    >>> with torch.autograd.strict():
    ...     (prediction - target).square().mean()      # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    StrictError: sub: operands of shapes [4, 1] and [4] are expanded both, to [4, 4]. ...
    >>> with torch.autograd.strict(), torch.autograd.strict.allow("broadcast"):
    ...     (prediction - target).square().mean()
    tensor(1.)
    """

    def __init__(self, parameters=None):
        self._watched = None if parameters is None else _named(parameters)
        self._before = []

    def __enter__(self):
        self._before.append(_mode_bits(_STRICT, _STRICT))
        if self._watched is not None:
            _state.watched.append(self._watched)
        return self

    def __exit__(self, *exc):
        _mode_bits(_STRICT, self._before.pop())
        if self._watched is not None:
            _state.watched.remove(self._watched)

    @staticmethod
    def allow(*kinds):
        """Let these kinds of accidents pass inside ``with strict.allow(...):``; see `strict` for their names."""
        for kind in kinds:
            if kind not in KINDS:
                raise ValueError(f"strict.allow(): unknown kind {kind!r}, wanted some of {', '.join(KINDS)}")
        return _Allow(kinds)


_set_observers(used=_note_used, refuse=refuse, done=_after_backward)
