"""Operations that are made of other operations, in Python: their gradients come from the parts.

An operation belongs here if it needs no loop over elements of its own and is no single expression, for which the op
table has ``tensor = "..."``. `composed` declares it once, with all places where users find it.
"""

from collections.abc import Callable
from functools import wraps
from types import FunctionType

from .. import _core
from .._core import RETURNS, Tensor, _autocasts, _uncast_call, add_methods, deliver, named_results, own
from ..autocasting import DEVICE_POLICIES, IN_LINALG_ALONE, POLICIES, autocasts
from ..rows import ALIASES

# place -> name -> function; "function" is cygrad itself, "method" the class Tensor, all others are modules of cygrad
PLACES = {}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    F = TypeVar("F", bound=Callable)


def composed(places: str, name: str | None = None, returns: str | None = None) -> "Callable[[F], F]":
    """Declare an operation.

    Parameters
    ----------
    places : str
        Words, each a place where the operation appears: ``function`` (cygrad), ``method`` (Tensor, whose instance is
        the first argument), or a module of cygrad such as ``linalg``. ``out`` adds the keyword argument `out` (to all
        but the method): a tensor, or a tuple for an operation of several results, that receives the result;
        ``out_same`` the same, if its dtype must be that of the result.
    name : str, optional
        Public name, where the function cannot have it.
    returns : str, optional
        Names of the results, of which the function returns a tuple: users get ``return_types.NAME``.

    Returns
    -------
    callable
        A decorator that returns the function as it was, for calls from other compositions.
    """
    words = places.split()

    def declare(function):
        public = name or function.__name__
        plain = function
        policy = None if words[:1] == ["linalg"] and public in IN_LINALG_ALONE else POLICIES.get(public)
        if policy or public in DEVICE_POLICIES:
            function = autocasts(policy, public)(function)
        if isinstance(function, FunctionType):           # compiled ones check their arguments themselves
            function = with_checks(function, public)
            if public.endswith("_") and not public.endswith("__"):
                function = with_name_of_write(function, public)
        if returns:
            where = words[0]
            kind = public if where in ("function", "method") else f"{where.replace('.', '_')}_{public}"
            RETURNS[kind] = tuple(returns.split())
            function = with_names(function, kind)
        for place in words:
            if place not in ("out", "out_same"):
                found = PLACES.setdefault(place, {})
                if public in found:
                    raise ValueError(f"{place} has {public!r} already")
                takes_out = {"out", "out_same"} & set(words) and place != "method"
                found[public] = with_out(function, "out_same" in words) if takes_out else function
        return plain

    return declare


def by_example(function):
    """`function`, which reads values, once for each example inside vmap; it takes tensors, not lists of them."""
    _core.LOOPED.append(function.__name__)

    @wraps(function)
    def call(*args, **kwargs):
        given = [*args, *kwargs.values()]
        levels = {v for t in given if isinstance(t, Tensor) for v in _core.levels_of(t)}
        if not levels:
            return function(*args, **kwargs)
        level = max(levels, key=lambda v: v.id)
        _core.warn_loop(function.__name__)
        rows = [
            _core.batch_out(t, level, 0) if isinstance(t, Tensor) and level in _core.levels_of(t) else None
            for t in given
        ]

        def example(i):
            values = [t if row is None else row[i] if level.size else row.new_zeros(row.shape[1:])
                      for t, row in zip(given, rows, strict=True)]
            return call(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

        return together([example(i) for i in range(level.size or 1)], level)

    return call


def together(results, level):
    """The examples' results, tensors or tuples of them, as one with batched tensors."""
    if isinstance(results[0], tuple):
        return tuple(together(column, level) for column in zip(*results, strict=True))
    if not level.size:
        return _core.batch_in(results[0].new_empty((0, *results[0].shape)), level, 0)
    if len({r.shape for r in results}) > 1:
        raise RuntimeError("vmap: the results of the examples have different shapes, "
                           f"{sorted({tuple(r.shape) for r in results})} (dynamic shape)")
    return _core.batch_in(_core.stack(results), level, 0)


def with_checks(function, name):
    """`function`, which says what is wrong with its arguments when it fails because one is of another type."""

    @wraps(function)
    def call(*args, **kwargs):
        try:
            return own(function(*args, **kwargs))
        except (AttributeError, TypeError):
            check_arguments(function, name, args, kwargs)
            raise

    return call


def with_name_of_write(function, name):
    """`function`, which writes its first argument in place under its own name."""

    @wraps(function)
    def call(*args, **kwargs):
        before = args[0]._version if args and isinstance(args[0], Tensor) and not args[0].is_inference() else None
        result = _uncast_call(function, args, kwargs) if _autocasts() else function(*args, **kwargs)
        if before is not None and args[0]._version != before:
            _core._name_write(args[0], name)
        return result

    return call


def check_arguments(function, name, args, kwargs):
    """Raise a TypeError that names the first argument whose type is not the annotated one."""
    from inspect import signature

    try:
        known = signature(function)
    except ValueError:                   # compiled: it names its arguments itself
        return
    try:
        given = known.bind_partial(*args, **kwargs).arguments      # missing ones are named by Python's own error
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    for word, value in given.items():
        parameter = known.parameters[word]
        kinds = getattr(parameter.annotation, "__args__", ()) or (parameter.annotation,)
        for v in value if parameter.kind is parameter.VAR_POSITIONAL else (value,):
            if set(kinds) <= _CHECKED and not any(fits(v, k) for k in kinds):
                wanted = " or ".join(k.__name__ for k in kinds if k is not type(None))
                raise TypeError(f"{name}(): argument '{word}' must be {wanted}, not {type(v).__name__}")


_CHECKED = {Tensor, int, float, bool, str, type(None)}


def fits(value, kind):
    if kind is int:
        return hasattr(value, "__index__") and not isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else kind)


def with_names(function, kind):
    """`function` with its tuple as a named one."""

    @wraps(function)
    def call(*args, **kwargs):
        return named_results(kind, function(*args, **kwargs))

    return call


def with_out(function, exact):
    """`function` with the keyword argument `out`."""

    @wraps(function)
    def call(*args, out=None, **kwargs):
        if out is None:
            return function(*args, **kwargs)
        return deliver(_uncast_call(function, args, kwargs), out, exact)

    return call


def publish(place, namespace):
    """Put the operations of a place, of the op table too, into a module's namespace; returns their names."""
    rows = _core.GENERATED_PLACES.get(place, {})
    found = {public: getattr(_core, name) for public, name in rows.items()}
    found |= ALIASES.get(place, {}) | PLACES.get(place, {})
    for taken in found.keys() & namespace.keys():
        raise ValueError(f"{place} has {taken!r} from elsewhere: declare an operation in one place")
    namespace.update(found)
    return list(found)


# Every module of compositions, each on a line of its own; those of cygrad.fft are imported with it.
from . import (
    complex_numbers,
    counts,
    creating,
    differences,
    distance,
    einsum,
    elementwise,
    indexing,
    joining,
    linalg_factor,
    linalg_norms,
    linalg_power,
    linalg_products,
    linalg_qr,
    linalg_solve,
    linalg_spectral,
    lowrank,
    order_statistics,
    other_kinds,
    random,
    reductions,
    sorting,
    stft,
    views,
    windows,
)

add_methods(PLACES.get("method", {}))
