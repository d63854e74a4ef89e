"""What modules of one's own are written with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    """A function that makes n equal entries of one thing, and a tuple of what is several already."""

    def parse(x: Any) -> tuple:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")

_SMALLEST = 1000  # bytes that a layer takes at least, as Python objects


def _check_room(layers: int) -> None:
    """Refuse at once so many layers that the machine's memory cannot hold them: it would run out hours later."""
    if layers > 10_000 and layers * _SMALLEST > _memory():
        raise RuntimeError(
            f"{layers} layers take at least {layers * _SMALLEST / 1e9:.3g} GB as Python objects alone; this machine "
            f"has {_memory() / 1e9:.3g} GB of memory"
        )


def _memory() -> int:
    """Bytes of the machine's memory; where the system does not say, as many as a process can address."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 47


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix away from the names of a state, in place, where they have it.

    For states of models that were wrapped by another, such as PyTorch's ``DataParallel``, whose names begin with
    ``"module."``.

    Parameters
    ----------
    state_dict : dict
        As `Module.state_dict` returns it; its metadata are renamed as well.
    prefix : str
        With the dot at its end.
    """
    for names in (state_dict, getattr(state_dict, "_metadata", {})):
        for name in list(names):
            if name and name.startswith(prefix):
                names[name[len(prefix) :]] = names.pop(name)
            elif names is not state_dict and name and name == prefix.removesuffix("."):
                names[""] = names.pop(name)
