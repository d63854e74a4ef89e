"""Named tuples that operations with several results return; they print as PyTorch's do."""

from collections import namedtuple

__all__ = ["max", "min"]


def _named(name, fields):
    class Result(namedtuple(name, fields)):
        __slots__ = ()

        def __repr__(self):
            parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
            return f"torch.return_types.{name}(\n{parts})"

    Result.__name__ = Result.__qualname__ = name
    Result.__module__ = __name__
    return Result


max = _named("max", ("values", "indices"))
min = _named("min", ("values", "indices"))
