"""Memory that processes share: unnamed files, of which nothing is left when the last process has let go of them."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import tempfile
from collections.abc import Iterable, Iterator

from cygrad import Tensor, frombuffer, uint8
from cygrad.autograd import _core
from cygrad.storage.interop import Mapping, mapping_of

__all__ = ["move", "shared_mapping", "write_again", "written_file"]

FOLDER = "/dev/shm"


def _unnamed() -> int:
    """Descriptor of a new file without a name."""
    try:
        return os.memfd_create("cygrad", os.MFD_CLOEXEC)
    except AttributeError:
        pass  # not Linux
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EACCES):
            raise
    fd, name = tempfile.mkstemp(prefix="cygrad-", dir=FOLDER if os.path.isdir(FOLDER) else None)
    os.unlink(name)
    return fd


@contextlib.contextmanager
def _asked_for(nbytes: int) -> Iterator[None]:
    """What the system says in the block becomes a RuntimeError that says what was wanted."""
    try:
        yield
    except OSError as error:
        hint = ": raise the limit of open files, `ulimit -n`" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
        raise RuntimeError(
            f"unable to allocate {nbytes} bytes of shared memory: {error.strerror} ({error.errno}){hint}"
        ) from None


@contextlib.contextmanager
def _unnamed_file(nbytes: int) -> Iterator[int]:
    """A new file, closed again if the block fails; RuntimeError says what was wanted."""
    with _asked_for(nbytes):
        fd = _unnamed()
        try:
            yield fd
        except BaseException:
            os.close(fd)
            raise


def _write(fd: int, parts: Iterable[tuple[int, memoryview]]) -> None:
    for at, part in parts:
        done = 0
        while done < len(part):
            done += os.pwrite(fd, part[done:], at + done)


def written_file(parts: Iterable[tuple[int, memoryview]], nbytes: int, room: int = 0) -> int:
    """Return the descriptor of a new file without a name, in memory, that has given bytes at given places.

    It has `nbytes` bytes, or `room` if that is more; what is not written takes up no memory.

    Raises
    ------
    RuntimeError
        If there is no room, or no descriptor, left.
    """
    with _unnamed_file(nbytes) as fd:
        os.ftruncate(fd, max(nbytes, room))
        _write(fd, parts)
        return fd


def write_again(fd: int, parts: Iterable[tuple[int, memoryview]], nbytes: int, room: int = 0) -> None:
    """Write `nbytes` other bytes into such a file, which then has `room` bytes, unless that is 0.

    Raises
    ------
    RuntimeError
        If there is no room left.
    """
    with _asked_for(nbytes):
        if room:
            os.ftruncate(fd, room)
        _write(fd, parts)


def shared_mapping(nbytes: int) -> Mapping:
    """New shared memory that keeps its descriptor, so that it can be handed on.

    Its room is taken at once: otherwise a process that writes to a page for which there is none would be killed.

    Raises
    ------
    RuntimeError
        If there is no room, or no descriptor, left.
    """
    with _unnamed_file(nbytes) as fd:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, nbytes)
        else:
            os.ftruncate(fd, nbytes)
        return Mapping(fd, nbytes, keep=True)


def move(tensor: Tensor) -> bool:
    """Move the memory under a tensor, and under all tensors that share it, into memory that can be handed on.

    Returns
    -------
    bool
        False if something that is no tensor has the memory's address, such as a NumPy array or a slice of the storage,
        or if the memory is a file that has a name, or a device's.
    """
    if tensor.is_cuda:
        return False
    storage = tensor.untyped_storage()
    place = mapping_of(storage)
    if storage.nbytes() == 0 or (place is not None and place[0].fd >= 0):
        return True
    if place is None and storage.is_shared():
        return False
    target = frombuffer(shared_mapping(storage.nbytes()), dtype=uint8).untyped_storage()
    del storage
    return _core.exchange_memory(tensor, target, [tensor]) or _core.exchange_memory(tensor, target, gc.get_objects())
