"""Named tuples that operations with several results return; they print as PyTorch's do."""

from collections import namedtuple

from .autograd._core import RETURNS


def _named(name, fields):
    class Result(namedtuple(name, fields)):
        __slots__ = ()

        def __repr__(self):
            parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
            return f"torch.return_types.{name}(\n{parts})"

    Result.__name__ = Result.__qualname__ = name
    Result.__module__ = __name__
    return Result


def __getattr__(name):
    if name not in RETURNS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _named(name, RETURNS[name])     # when first asked for, since making one takes long
    return made
