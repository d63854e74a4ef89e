"""Checkpoints in the format of PyTorch before 1.6: pickles one after the other, and the storages' bytes behind them."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import IO, Any

from cygrad import TypedStorage, UntypedStorage
from cygrad.autograd.interop import bytes_of
from cygrad.serialization.names import StorageKind, named
from cygrad.serialization.unpickle import Refused, Unpickler

__all__ = ["LegacyReader", "is_legacy", "object_pickle"]

SIGNATURE = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # a number, pickled
VERSION = 1001
COUNT = struct.Struct("<q")
CHUNK = 1 << 22


def is_legacy(file: IO[bytes]) -> bool:
    """Whether a file has this format; it then stands behind the signature."""
    file.seek(0)
    return file.read(len(SIGNATURE)) == SIGNATURE


def _next_pickle(file: IO[bytes]) -> bytes:
    import pickletools

    start = file.tell()
    try:
        for _ in pickletools.genops(file):
            pass
    except Exception as error:  # whatever a hostile pickle makes the steps raise
        raise pickle.UnpicklingError(f"a pickle in the file ends too early or is none ({error})") from error
    end = file.tell()
    file.seek(start)
    return file.read(end - start)


def object_pickle(file: IO[bytes]) -> bytes:
    """The pickle of the object itself, in a file that stands behind the signature."""
    _next_pickle(file)
    _next_pickle(file)
    return _next_pickle(file)


class LegacyReader:
    """The parts of one file.

    Parameters
    ----------
    file : binary file
        Stands behind the signature.
    name : str
        Stands in errors.
    place : callable
        Gives, for a new storage and the device that it was saved on, the storage where it is wanted.
    unpickle : callable
        Makes an object of the bytes of a pickle and a function that gives the storage for a persistent id.
    """

    def __init__(
        self, file: IO[bytes], name: str, place: Callable[[UntypedStorage, str], UntypedStorage], unpickle: Callable
    ) -> None:
        self.file = file
        self.name = name
        self.place = place
        self.unpickle = unpickle
        at = file.tell()
        self.left = file.seek(0, 2) - at  # bytes of which a storage can be made
        file.seek(at)
        self.storages: dict[str, tuple[UntypedStorage, int]] = {}  # and bytes of an element

    def damaged(self, why: str) -> RuntimeError:
        """The error for a file that cannot be trusted."""
        return RuntimeError(f"{self.name}: the file is damaged: {why}")

    def load(self) -> Any:
        """The object."""
        version = self._plain("its version", int)
        if version != VERSION:
            raise self.damaged(f"its version is {version}, {VERSION} is known")
        if self._plain("the machine that wrote it", dict).get("little_endian") is not True:
            raise RuntimeError(f"{self.name}: it was saved on a big-endian machine, which is not supported")
        found = self.unpickle(_next_pickle(self.file), self._find)
        keys = self._plain("the names of its storages", list)
        if sorted(map(str, keys)) != sorted(self.storages):
            raise self.damaged("the storages that it names are not those that it has")
        for key in keys:
            self._fill(*self.storages[key])
        return found

    def _plain(self, what: str, kind: type) -> Any:
        value = Unpickler(_next_pickle(self.file), self._find, {}).load()
        if type(value) is not kind:
            raise self.damaged(f"{what} should be of type {kind.__name__}, but it is {named(value)}")
        return value

    def _find(self, key: tuple) -> Any:
        """What a persistent id stands for: ``("storage", kind, key, device, elements, part)``."""
        if key[:1] == ("module",) and len(key) == 4:
            return key[1]  # a class, with its source, which PyTorch compared
        try:
            return self._storage(*(key if len(key) == 6 else (*key, None)))
        except RuntimeError as error:
            raise Refused(error) from None

    def _storage(self, what: Any, kind: Any, name: Any, location: Any, elements: Any, part: Any) -> Any:
        if what != "storage" or not isinstance(kind, StorageKind):
            raise TypeError(f"{named(what)} is no storage")
        if not (type(name) is str and type(location) is str and type(elements) is int and elements >= 0):
            raise TypeError("a storage has a key and a device, which are text, and a number of elements")
        size = kind.dtype.itemsize if kind.dtype else 1
        if name not in self.storages:
            self.left -= elements * size
            if self.left < 0:
                raise self.damaged(f"storage {named(name)} would be larger than the file: it is truncated")
            storage = self.place(UntypedStorage(elements * size), location)
            if storage.nbytes() != elements * size:
                raise TypeError(f"map_location gave a storage of {storage.nbytes()} bytes for {elements * size}")
            self.storages[name] = storage, size
        storage, known = self.storages[name]
        if (storage.nbytes(), known) != (elements * size, size):
            raise self.damaged(f"storage {named(name)} has two sizes")
        if part is not None:
            storage = _part(storage, part, size)
        return TypedStorage(storage, kind.dtype) if kind.dtype else storage

    def _fill(self, storage: UntypedStorage, size: int) -> None:
        raw = self.file.read(COUNT.size)
        if len(raw) < COUNT.size or COUNT.unpack(raw)[0] * size != storage.nbytes():
            raise self.damaged("a storage in it has another length than its pickle says, or the file is truncated")
        if not storage.nbytes():
            return
        here = storage.cpu()                     # itself, unless it is on a device
        target = bytes_of(here)
        for at in range(0, len(target), CHUNK):
            data = self.file.read(min(CHUNK, len(target) - at))
            target[at : at + len(data)] = data
            if len(data) < min(CHUNK, len(target) - at):
                raise self.damaged("the bytes of a storage end too early: the file is truncated")
        if here is not storage:
            storage.copy_(here)


def _part(storage: UntypedStorage, part: Any, size: int) -> UntypedStorage:
    """A part of a storage, as the oldest files name them: key, first element, number of elements."""
    if not (type(part) is tuple and len(part) == 3 and all(type(value) is int for value in part[1:])):
        raise TypeError("a part of a storage has a key, an offset and a number of elements")
    start, end = part[1] * size, (part[1] + part[2]) * size
    if not 0 <= start <= end <= storage.nbytes():
        raise TypeError("a part of a storage lies outside it")
    return storage[start:end]
