"""Files that are replaced at once: nobody ever sees half of one, also when the program is killed while it writes."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(filename: str | os.PathLike, what: str) -> Iterator[str]:
    """Give the path of an empty file beside a file, which takes its place at the end of the block.

    After an error, or if the program dies, the old file is as it was. A link is followed: the file that it names is
    replaced.

    Parameters
    ----------
    filename : path
        The file to be replaced, or made.
    what : str
        What the file is, for errors.

    Raises
    ------
    FileNotFoundError
        If its folder does not exist.
    IsADirectoryError
        If it is a folder.
    OSError
        If it cannot be written.
    """
    target = os.path.realpath(filename)
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, f"the folder of {what} does not exist", os.fspath(filename))
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, f"{what} cannot replace a folder", os.fspath(filename))
    part = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            mode = os.fstat(file.fileno()).st_mode  # what the umask gives; some libraries write private files
        yield part
        os.chmod(part, mode)
        _sync(part)
        os.replace(part, target)
        _sync(folder)
    except OSError as error:
        if error.errno is not None and error.filename in (None, part):
            error.filename = os.fspath(filename)
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


def _sync(path: str) -> None:
    """Have the system put a file, or the names in a folder, onto the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
