"""The zip archives of checkpoints: records, uncompressed, in one folder, each beginning at a multiple of 64 bytes."""

from __future__ import annotations

import io
import mmap
import os
import struct
import zipfile
import zlib
from typing import IO, Any

from cygrad import UntypedStorage, frombuffer, uint8
from cygrad.autograd.interop import bytes_of

__all__ = ["Reader", "Writer"]

ALIGNMENT = 64  # bytes; vector loads of mapped storages are aligned
CHUNK = 1 << 22
LOCAL_HEADER = struct.Struct("<4s5H3L2H")
ZIP_SIGNATURE = b"PK\x03\x04"
PADDING = b"FB"  # id of the extra field that PyTorch fills with padding


class Reader:
    """A checkpoint's records.

    Everything that the file says about itself is checked: a record lies inside the file, is not compressed, overlaps no
    other, and has the checksum that is written down.

    Parameters
    ----------
    file : binary file
        Can seek.
    name : str
        Stands in errors.

    Raises
    ------
    EOFError
        If the file is empty.
    ValueError
        If it has another format.
    RuntimeError
        If it is a damaged archive.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file = file
        self.name = name
        self.map: mmap.mmap | None = None
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if not self.size:
            raise EOFError(f"{name}: the file is empty")
        if file.read(len(ZIP_SIGNATURE)) != ZIP_SIGNATURE:
            raise ValueError(f"{name}: {self._other_format()}")
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                self.end = archive.start_dir
        except Exception as error:  # a hostile directory makes zipfile raise many kinds of errors
            raise self.damaged(f"its table of contents cannot be read ({error})") from error
        self.entries = self._named(entries)

    def _other_format(self) -> str:
        self.file.seek(257)
        if self.file.read(5) == b"ustar":
            return (
                "it has the format of PyTorch before 0.1.10, a tar archive, which is not supported: load it with "
                "PyTorch and save it again"
            )
        return "it is no zip archive, which checkpoints are"

    def damaged(self, why: str) -> RuntimeError:
        """The error for an archive that cannot be trusted."""
        return RuntimeError(f"{self.name}: failed reading zip archive: {why}")

    def _named(self, entries: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
        """The entries by name inside the archive's one folder."""
        roots = {entry.filename.partition("/")[0] for entry in entries}
        if len(roots) != 1:
            raise self.damaged(f"its records lie in {len(roots)} folders, one is wanted")
        named: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            record = entry.filename.partition("/")[2]
            if record in named:
                raise self.damaged(f"it has two records {record!r}")
            if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
                raise self.damaged(f"its record {record!r} is compressed, which no checkpoint's are")
            if entry.flag_bits & 1:
                raise self.damaged(f"its record {record!r} is encrypted")
            named[record] = entry
        spans = sorted((entry.header_offset, entry.header_offset + entry.file_size, n) for n, entry in named.items())
        if spans[0][0] < 0:
            raise self.damaged("its table of contents names places before the file")
        self.limits: dict[str, int] = {}  # where the next record begins
        for (_, end, record), (start, _, _) in zip(spans, [*spans[1:], (self.end, 0, "")], strict=True):
            self.limits[record] = start
            if end > start:
                raise self.damaged(f"its record {record!r} is longer than the place that it has: the file is truncated")
        return named

    def __contains__(self, record: str) -> bool:
        return record in self.entries

    def length(self, record: str) -> int:
        """Bytes of a record."""
        return self._entry(record).file_size

    def _entry(self, record: str) -> zipfile.ZipInfo:
        try:
            return self.entries[record]
        except KeyError:
            raise self.damaged(f"it has no record {record!r}") from None

    def _start(self, record: str) -> int:
        """Where in the file a record's bytes begin."""
        entry = self._entry(record)
        self.file.seek(entry.header_offset)
        header = self.file.read(LOCAL_HEADER.size)
        if len(header) < LOCAL_HEADER.size or header[:4] != ZIP_SIGNATURE:
            raise self.damaged(f"the header of its record {record!r} is missing")
        *_, name_length, extra_length = LOCAL_HEADER.unpack(header)
        name = self.file.read(name_length)
        if name.decode("utf-8", "replace") != entry.orig_filename:
            raise self.damaged(f"the header of its record {record!r} has another name")
        start = entry.header_offset + LOCAL_HEADER.size + name_length + extra_length
        # How long a header is stands in the header alone, which the table of contents knows nothing of.
        if start + entry.file_size > self.limits[record]:
            raise self.damaged(f"its record {record!r} reaches into the next one, or beyond the last")
        return start

    def read(self, record: str) -> bytes:
        """A record's bytes."""
        buffer = bytearray(self.length(record))
        self._fill(record, memoryview(buffer))
        return bytes(buffer)

    def storage(self, record: str) -> UntypedStorage:
        """A new storage with a record's bytes, or one over the mapped file."""
        if self.map is not None and self.length(record) and self._start(record) % ALIGNMENT == 0:
            start = self._start(record)
            return frombuffer(self.map, dtype=uint8, count=self.length(record), offset=start).untyped_storage()
        storage = UntypedStorage(self.length(record))
        if self.length(record):
            self._fill(record, bytes_of(storage))
        return storage

    def _fill(self, record: str, target: memoryview) -> None:
        self.file.seek(self._start(record))
        checksum = 0
        for at in range(0, len(target), CHUNK):
            part = target[at : at + CHUNK]
            done = 0
            while done < len(part):
                count = self._read_into(part[done:])
                if count == 0:
                    break
                done += count
            if done != len(part):
                raise self.damaged(f"its record {record!r} ends too early: the file is truncated")
            checksum = zlib.crc32(part, checksum)
        if checksum != self._entry(record).CRC:
            raise self.damaged(f"its record {record!r} has another checksum than the one written down: it is corrupted")

    def _read_into(self, part: memoryview) -> int:
        if hasattr(self.file, "readinto"):
            return self.file.readinto(part) or 0
        data = self.file.read(len(part))
        part[: len(data)] = data
        return len(data)

    def map_file(self) -> None:
        """Have storages lie in the file's pages: read when they are used, and copied when they are written."""
        self.map = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)


class Writer:
    """A checkpoint that is being written.

    Parameters
    ----------
    file : binary file
        It need not be able to seek.
    folder : str
        Name of the folder in which the records lie.
    """

    def __init__(self, file: IO[bytes], folder: str) -> None:
        self.archive = zipfile.ZipFile(_Positioned(file), "w", zipfile.ZIP_STORED)
        self.folder = folder

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            self.archive.close()
        else:
            self.archive.fp = None  # no table of contents: nobody takes what is there for a whole archive

    def write(self, record: str, data: bytes | memoryview) -> None:
        """Add a record."""
        entry = zipfile.ZipInfo(f"{self.folder}/{record}")
        large = len(data) > 0x7FFF_FFFF
        start = self.archive.fp.tell() + LOCAL_HEADER.size + len(entry.filename.encode()) + (20 if large else 0) + 4
        entry.extra = PADDING + struct.pack("<H", -start % ALIGNMENT) + b"Z" * (-start % ALIGNMENT)
        entry.file_size = len(data)
        with self.archive.open(entry, "w", force_zip64=large) as target:
            for at in range(0, len(data), CHUNK):
                target.write(data[at : at + CHUNK])


class _Positioned(io.RawIOBase):
    """Gives what is written to a file, from where that file is now, without seeking in it.

    PyTorch's reader, and ours, want the archive to begin where the file begins; and many things that can be written to
    cannot seek. Checksums and sizes then stand behind each record.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.at = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self.at

    def write(self, data: Any) -> int:
        self.file.write(data)
        self.at += len(data)
        return len(data)

    def flush(self) -> None:
        if hasattr(self.file, "flush"):
            self.file.flush()
