"""Names for parts of a program, as torch.cuda.nvtx: they are counted, and no profiler is told of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_local = threading.local()         # .depth: how many ranges this thread has pushed
_numbers = itertools.count(1)


def range_push(msg: str) -> int:
    """Begin a part inside of the one that this thread has begun last; returns how many there are around it."""
    _local.depth = getattr(_local, "depth", 0) + 1
    return _local.depth - 1


def range_pop() -> int:
    """End the part that this thread has begun last; returns how many there are around it, negative if there is none."""
    _local.depth = getattr(_local, "depth", 0) - 1
    depth = _local.depth
    _local.depth = max(depth, 0)
    return depth


def range_start(msg: str) -> int:
    """Begin a part that any thread may end, with the number that this returns."""
    return next(_numbers)


def range_end(range_id: int) -> None:
    """End a part that `range_start` began."""


def mark(msg: str) -> None:
    """Name a moment."""


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A context, or a decorator, that is a part; its name is ``msg.format(*args, **kwargs)``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
