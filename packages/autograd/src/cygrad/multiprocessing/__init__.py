"""`multiprocessing`, whose queues and pipes hand tensors over by sharing their memory, as PyTorch's.

Everything of Python's module is here too. A tensor that is put into a queue is moved, with all tensors over the same
memory, into shared memory; the other process gets a tensor over that memory, so both see what either writes. Memory
whose address something else has, such as a NumPy array, cannot move: its bytes are copied.
"""

import multiprocessing as _multiprocessing
from multiprocessing import *

from cygrad.multiprocessing.reductions import register as _register
from cygrad.multiprocessing.start import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_strategies = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the names that `set_sharing_strategy` takes."""
    return set(_strategies)


def get_sharing_strategy() -> str:
    """Return the name that was set last, "file_descriptor" at first."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept one of PyTorch's names for ways of sharing. Memory is an unnamed file under either of them.

    A descriptor is kept for each shared storage, and none for what a `DataLoader` brings, so nothing needs to be
    switched where PyTorch's "file_system" helps against too many open files.

    Raises
    ------
    AssertionError
        If it is no such name.
    """
    global _strategy
    if new_strategy not in _strategies:
        raise AssertionError(f"sharing strategies are {sorted(_strategies)}, got {new_strategy!r}")
    _strategy = new_strategy


_register()
