"""How `multiprocessing` hands tensors to other processes: by the descriptor of the memory that they lie in."""

from __future__ import annotations

import os
from multiprocessing import reduction
from typing import Any
from weakref import WeakValueDictionary

from cygrad import Tensor, UntypedStorage, frombuffer, uint8
from cygrad.multiprocessing.memory import move
from cygrad.storage.interop import Mapping, mapping_of

__all__ = ["check_leaf", "register"]

# Memory that came before is not mapped anew: its file, by device and number, and place -> its storage.
_arrived: WeakValueDictionary[tuple, UntypedStorage] = WeakValueDictionary()


def check_leaf(tensor: Tensor) -> None:
    """RuntimeError for a tensor that a graph of this process made."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            f"a tensor that {tensor.grad_fn.name()} made requires a gradient, and its graph cannot cross to another "
            "process: hand over detach() of it"
        )


def _reduced(tensor: Tensor) -> Any:
    check_leaf(tensor)
    move(tensor)
    return tensor.__reduce_ex__(2)


def _reduced_storage(storage: UntypedStorage) -> Any:
    place = mapping_of(storage)
    if place is None or place[0].fd < 0:
        return storage.__reduce__()  # a copy: nobody could move it
    mapping, offset = place
    return _opened, (reduction.DupFd(mapping.fd), mapping.nbytes, offset, storage.nbytes())


def _opened(handle: Any, size: int, offset: int, nbytes: int) -> UntypedStorage:
    fd = handle.detach()
    status = os.fstat(fd)
    key = status.st_dev, status.st_ino, offset, nbytes
    storage = _arrived.get(key)
    if storage is not None:
        os.close(fd)
        return storage
    try:
        mapping = Mapping(fd, size, keep=True)
    except OSError as error:
        os.close(fd)
        raise RuntimeError(str(error)) from None
    storage = _arrived[key] = frombuffer(mapping, dtype=uint8, count=nbytes, offset=offset).untyped_storage()
    return storage


def register() -> None:
    """Have the picklers of `multiprocessing` do so from now on."""
    reduction.ForkingPickler.register(Tensor, _reduced)
    reduction.ForkingPickler.register(UntypedStorage, _reduced_storage)
