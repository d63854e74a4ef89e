"""Checkpoints: nested Python objects with tensors in one file, in PyTorch's format.

`save` writes what ``torch.load`` reads, and `load` reads what ``torch.save`` wrote, without PyTorch. Loading runs
nothing that the file says, unless it is told to: see `load`.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from cygrad.storage.parts import require

require("autograd")

from cygrad import TypedStorage, UntypedStorage, device, empty
from cygrad.autograd.interop import bytes_of
from cygrad.serialization.archive import Reader, Writer
from cygrad.serialization.legacy import LegacyReader, is_legacy, object_pickle
from cygrad.serialization.names import KNOWN, StorageKind, named
from cygrad.serialization.unpickle import Refused, Unpickler, names_in
from cygrad.serialization.write import Pickler
from cygrad.utils.files import replacing

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]

_safe: dict[tuple[str, str], Any] = {}

MapLocation = Callable[[UntypedStorage, str], Any] | device | str | dict[str, str] | None


# ---- names that a checkpoint may use


def _named(entries: Sequence[Any]) -> dict[tuple[str, str], Any]:
    named = {}
    for entry in entries:
        value, path = entry if isinstance(entry, tuple) else (entry, None)
        if path is None:
            named[value.__module__, value.__qualname__] = value
        else:
            module, _, name = path.rpartition(".")
            named[module, name] = value
    return named


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let checkpoints use classes and functions of yours: `load` makes their objects, and calls them if a file says so.

    Parameters
    ----------
    safe_globals : list
        Classes and functions, or pairs of one and the name, with its module, under which checkpoints have it.
    """
    _safe.update(_named(safe_globals))


def get_safe_globals() -> list[Any]:
    """Return the classes and functions that `add_safe_globals` added."""
    return list(_safe.values())


def clear_safe_globals() -> None:
    """Take back all that `add_safe_globals` added."""
    _safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """`add_safe_globals` for the length of a block."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike | IO[bytes]) -> list[str]:
    """Return the names in a checkpoint that `load` would refuse. Nothing of it is run."""
    with _opened(f) as (file, name):
        try:
            data = object_pickle(file) if is_legacy(file) else _reader(file, name).read("data.pkl")
            names = names_in(data)
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(str(error) if str(error).startswith(name) else f"{name}: {error}") from error
    return [".".join(name) for name in names if name not in KNOWN and name not in _safe]


# ---- writing


def save(
    obj: object,
    f: str | os.PathLike | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object to a file that `load`, and PyTorch's, reads.

    Tensors that share memory share it again when they are loaded; of a view, all the memory of its base is written.

    Parameters
    ----------
    obj : object
        Dictionaries, lists, numbers, text, tensors and so on; other objects as pickle does it, which `load` refuses
        unless they are declared safe.
    f : path or binary file
        A file at a path is replaced at the end: it is either whole or as it was before.
    pickle_module : module
        Only Python's own pickle.
    pickle_protocol : int, default 2
        From 2; PyTorch reads 2 with ``weights_only=True``.

    Raises
    ------
    RuntimeError
        If the folder does not exist, or tensors of different dtypes share memory.
    OSError
        If the file cannot be written.
    """
    if not _use_new_zipfile_serialization:
        raise RuntimeError("the format of PyTorch before 1.6 is not supported: _use_new_zipfile_serialization=False")
    if pickle_module is not pickle:
        raise RuntimeError(f"save() pickles with Python's own pickle, got pickle_module={pickle_module!r}")
    if not isinstance(pickle_protocol, int) or not 2 <= pickle_protocol <= pickle.HIGHEST_PROTOCOL:
        raise ValueError(f"pickle_protocol must be from 2 to {pickle.HIGHEST_PROTOCOL}, got {pickle_protocol!r}")
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
            raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
        with replacing(path, "a checkpoint") as part, open(part, "wb") as file:
            _write(obj, file, os.path.splitext(os.path.basename(path))[0] or "archive", pickle_protocol)
    elif hasattr(f, "write"):
        _write(obj, f, "archive", pickle_protocol)
    else:
        raise TypeError(f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {f!r}")


def _write(obj: object, file: IO[bytes], folder: str, protocol: int) -> None:
    buffer = io.BytesIO()
    pickler = Pickler(buffer, protocol)
    pickler.dump(obj)
    with Writer(file, folder) as archive:
        archive.write("data.pkl", buffer.getvalue())
        archive.write("byteorder", b"little")
        for number, storage in enumerate(pickler.storages):
            archive.write(f"data/{number}", bytes_of(storage) if storage.nbytes() else b"")
        archive.write("version", b"3\n")


# ---- reading


def load(
    f: str | os.PathLike | IO[bytes],
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read an object that `save`, or PyTorch's, wrote.

    Nothing that is in the file is run: it may hold containers, numbers, text and tensors, and objects of the classes
    that `add_safe_globals` was given. Its pickle is read by a machine that knows nothing else.

    Parameters
    ----------
    f : path or binary file
        The file must be able to seek.
    map_location : str, device, dict or callable, optional
        Where tensors that were saved on another device go: a device; a dictionary from saved to wanted devices; or
        a function of storage and saved device.
    pickle_module : module, optional
        Only Python's own pickle.
    weights_only : bool, optional
        False reads objects of any class by Python's pickle, **which runs whatever the file says**: only for files of
        your own. Classes of PyTorch are looked up here by the same name.
    mmap : bool, optional
        True maps the file at a path instead of reading it: what is not used is not read, nor are checksums verified.

    Returns
    -------
    object

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    UnpicklingError
        If it is no checkpoint, or names something that is not allowed; the message names file and reason.
    RuntimeError
        If it is damaged, or tensors were saved on another device and `map_location` does not say where they go.
    """
    if pickle_module not in (None, pickle):
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if pickle_load_args.keys() - {"encoding"} or pickle_load_args.get("encoding", "utf-8") != "utf-8":
        raise TypeError(f"load() got unexpected keyword arguments {sorted(pickle_load_args)}")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a string or path to use mmap=True: only files on disk are mapped")
    def unpickle(data: bytes, find: Callable[[tuple], Any]) -> Any:
        if weights_only is False:
            return _AnyUnpickler(io.BytesIO(data), find).load()
        return Unpickler(data, find, _safe).load()

    with _opened(f) as (file, name):
        place = _Placer(name, map_location)
        try:
            if is_legacy(file):
                if mmap:
                    raise RuntimeError(f"{name}: it has the format of PyTorch before 1.6, which cannot be mapped")
                return LegacyReader(file, name, place, unpickle).load()
            reader = _reader(file, name)
            if mmap:
                reader.map_file()
            return unpickle(reader.read("data.pkl"), _Storages(reader, place).find)
        except Refused as error:
            raise error.reason from None
        except pickle.UnpicklingError as error:
            if str(error).startswith(name):
                raise
            what = "" if weights_only is False else "Weights only load failed. "
            raise pickle.UnpicklingError(f"{what}{name}: {error}") from error.__cause__


@contextlib.contextmanager
def _opened(f: str | os.PathLike | IO[bytes]) -> Iterator[tuple[IO[bytes], str]]:
    """The file, and its name for errors."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file, os.fspath(f)
        return
    for method in ("read", "seek", "tell"):
        if not hasattr(f, method):
            raise AttributeError(
                f"a checkpoint is read from a path or a binary file that can seek; {type(f).__name__} has no "
                f"'{method}': put its contents into an io.BytesIO"
            )
    yield f, str(getattr(f, "name", f"<{type(f).__name__}>"))


def _reader(file: IO[bytes], name: str) -> Reader:
    try:
        reader = Reader(file, name)
    except ValueError as error:
        raise pickle.UnpicklingError(str(error)) from None
    if "data.pkl" not in reader:
        if "constants.pkl" in reader:
            raise RuntimeError(f"{name}: it is a TorchScript archive, a program: save the model's state_dict()")
        raise reader.damaged("it has no record 'data.pkl'")
    if "byteorder" in reader and reader.read("byteorder") != b"little":
        raise RuntimeError(f"{name}: it was saved on a big-endian machine, which is not supported")
    return reader


class _Placer:
    """Brings storages to the devices where they are wanted."""

    def __init__(self, name: str, map_location: MapLocation) -> None:
        self.name = name
        self.map_location = map_location

    def __call__(self, storage: UntypedStorage, location: str) -> UntypedStorage:
        where = self.map_location
        if isinstance(where, dict):
            location = where.get(location, location)
        elif callable(where) and not isinstance(where, device):
            answer = where(storage, location)
            if isinstance(answer, TypedStorage):
                answer = answer.untyped()
            if answer is not None and not isinstance(answer, UntypedStorage):
                raise Refused(TypeError(f"map_location must return a storage or None, got {type(answer).__name__}"))
            if answer is not None:
                return answer
        elif where is not None:
            location = str(where)
        if location.partition(":")[0] == "cpu":
            return storage
        try:
            place = empty(0, device=location).device
        except RuntimeError:
            raise Refused(
                RuntimeError(
                    f"{self.name}: Attempting to deserialize object on device {location!r}, which is not available "
                    "here. To bring its tensors to the CPU, load it with map_location='cpu'"
                )
            ) from None
        return storage.to(place)


class _Storages:
    """The storages of a checkpoint, read when they are first named."""

    def __init__(self, reader: Reader, place: _Placer) -> None:
        self.reader = reader
        self.place = place
        self.read: dict[str, UntypedStorage] = {}

    def find(self, key: tuple) -> UntypedStorage | TypedStorage:
        """The storage of a persistent id ``("storage", kind, record, device, elements)``."""
        try:
            return self._find(*key)
        except RuntimeError as error:
            raise Refused(error) from None

    def _find(self, what: str, kind: Any, record: str, location: str, elements: int) -> UntypedStorage | TypedStorage:
        if what != "storage" or not isinstance(kind, StorageKind):
            raise TypeError(f"{named(what)} is no storage")
        if not (type(record) is str and type(location) is str and type(elements) is int):
            raise TypeError("a storage has a record and a device, which are text, and a number of elements")
        size = elements * (kind.dtype.itemsize if kind.dtype else 1)
        if record not in self.read:
            length = self.reader.length(f"data/{record}")
            if size != length:
                raise self.reader.damaged(f"storage {record} should have {size} bytes, its record has {length}")
            self.read[record] = self.place(self.reader.storage(f"data/{record}"), location)
        storage = self.read[record]
        if size != storage.nbytes():
            raise self.reader.damaged(f"storage {record} has two sizes, {storage.nbytes()} and {size} bytes")
        return TypedStorage(storage, kind.dtype) if kind.dtype else storage


class _AnyUnpickler(pickle.Unpickler):
    """Python's own, for files that the user trusts: PyTorch's classes are looked up here by the same name."""

    def __init__(self, file: IO[bytes], find_storage: Callable[[tuple], Any]) -> None:
        super().__init__(file)
        self.find_storage = find_storage

    def find_class(self, module: str, name: str) -> Any:
        """The object that a checkpoint names."""
        if (module, name) in _safe:
            return _safe[module, name]
        if module.partition(".")[0] == "torch":
            if (module, name) in KNOWN:
                return KNOWN[module, name]
            module = "cygrad" + module.removeprefix("torch")
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        """The storage that a persistent id names."""
        return self.find_storage(pid)
