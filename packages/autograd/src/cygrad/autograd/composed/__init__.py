"""Operations that are made of other operations, in Python: their gradients come from the parts.

An operation belongs here if it needs no loop over elements of its own and is no single expression, for which the op
table has ``tensor = "..."``. `composed` declares it once, with all places where users find it.
"""

from functools import wraps

from .. import _core
from .._core import RETURNS, add_methods, deliver, named_results

# place -> name -> function; "function" is cygrad itself, "method" the class Tensor, all others are modules of cygrad
PLACES = {}


def composed(places, name=None, returns=None):
    """Declare an operation.

    Parameters
    ----------
    places : str
        Words, each a place where the operation appears: ``function`` (cygrad), ``method`` (Tensor, whose instance is
        the first argument), or a module of cygrad such as ``linalg``. ``out`` adds the keyword argument `out` (to all
        but the method): a tensor, or a tuple for an operation of several results, that receives the result.
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
        if returns:
            where = words[0]
            kind = public if where in ("function", "method") else f"{where.replace('.', '_')}_{public}"
            RETURNS[kind] = tuple(returns.split())
            function = with_names(function, kind)
        for place in words:
            if place != "out":
                found = PLACES.setdefault(place, {})
                if public in found:
                    raise ValueError(f"{place} has {public!r} already")
                found[public] = with_out(function) if "out" in words and place != "method" else function
        return function

    return declare


def with_names(function, kind):
    """`function` with its tuple as a named one."""

    @wraps(function)
    def call(*args, **kwargs):
        return named_results(kind, function(*args, **kwargs))

    return call


def with_out(function):
    """`function` with the keyword argument `out`."""

    @wraps(function)
    def call(*args, out=None, **kwargs):
        result = function(*args, **kwargs)
        return result if out is None else deliver(result, out)

    return call


def publish(place, namespace):
    """Put the operations of a place, of the op table too, into a module's namespace; returns their names."""
    rows = _core.GENERATED_PLACES.get(place, {})
    found = {public: getattr(_core, name) for public, name in rows.items()} | PLACES.get(place, {})
    for taken in found.keys() & namespace.keys():
        raise ValueError(f"{place} has {taken!r} from elsewhere: declare an operation in one place")
    namespace.update(found)
    return list(found)


# Every module of compositions, each on a line of its own.
from . import sorting

add_methods(PLACES.get("method", {}))
