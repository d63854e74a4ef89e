"""Shared memory that carries one batch after another.

Pages of a new file are found, cleared and mapped one by one, which takes longer than copying a batch into pages that
are there. So a sender writes into a file again when the receiver has let go of all that was in it. The receiver counts
that by the buffer that it hands out: tensors and arrays over it hold it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable

from cygrad.multiprocessing.memory import write_again, written_file
from cygrad.storage.interop import Mapping, Part

__all__ = ["LIMIT", "NONE", "Received", "Sent"]

NONE = -1  # in place of a block's number: a file for one message
SMALL = 1 << 15  # bytes of a message up to here: a file for each costs no more than telling when it is free
SPARE = 16  # a block is longer than its message by this part, for later ones that are a little longer
LIMIT = 16  # blocks of a sender, each a descriptor. Receivers that keep more batches get them in files of their own

_receiving: weakref.WeakSet[Received] = weakref.WeakSet()


def _keep_for_children() -> None:
    """A forked process has the batches of its parent, which therefore may not be overwritten."""
    for received in list(_receiving):
        received.retire()


os.register_at_fork(after_in_parent=_keep_for_children)


class Sent:
    """The blocks of a sender."""

    def __init__(self) -> None:
        self.files: dict[int, int] = {}  # number of a block -> its descriptor
        self.rooms: dict[int, int] = {}  # number -> how much of it the receiver has mapped
        self.free: list[int] = []
        self.made = 0

    def write(self, parts: Iterable[tuple[int, memoryview]], nbytes: int) -> tuple[int, int]:
        """Put bytes into a block.

        Returns
        -------
        int
            Its number, or NONE.
        int
            The descriptor that the receiver needs, which is the caller's to close if there is no number; -1: none.
        """
        room = nbytes + nbytes // SPARE
        if nbytes > SMALL and self.free:
            fits = [number for number in self.free if self.rooms[number] >= nbytes]
            number = min(fits, key=self.rooms.__getitem__) if fits else max(self.free, key=self.rooms.__getitem__)
            write_again(self.files[number], parts, nbytes, 0 if fits else room)
            self.free.remove(number)
            if fits:
                return number, -1
        elif nbytes > SMALL and len(self.files) < LIMIT:
            self.made += 1
            number = self.made
            self.files[number] = written_file(parts, nbytes, room)
        else:
            return NONE, written_file(parts, nbytes)
        self.rooms[number] = room
        return number, self.files[number]

    def take_back(self, numbers: Iterable[int]) -> None:
        """Blocks with these numbers are free; those whose number is inverted (``~number``) never will be."""
        for number in numbers:
            if number >= 0:
                self.free.append(number)
            else:
                del self.rooms[~number]
                os.close(self.files.pop(~number))

    def close(self) -> None:
        """Close the files."""
        for fd in self.files.values():
            os.close(fd)
        self.files.clear()
        self.rooms.clear()
        self.free.clear()


class Received:
    """The blocks of a sender, as its receiver sees them."""

    def __init__(self) -> None:
        self.mappings: dict[int, Mapping] = {}
        self.lent: dict[int, weakref.ref[Part]] = {}
        self.back: list[int] = []  # what the sender is told next
        self.retired: set[int] = set()
        _receiving.add(self)

    def lend(self, number: int, fd: int, nbytes: int) -> Part:
        """The bytes that have come in a block; `fd`, if any, is its file, and stays the caller's."""
        try:
            if fd >= 0:
                self.mappings[number] = Mapping(fd, os.fstat(fd).st_size)
            part = Part(self.mappings[number], nbytes)
        except BaseException:
            self.decline(number, fd)
            raise
        back = self.back
        self.lent[number] = weakref.ref(part, lambda _: back.append(number))
        return part

    def decline(self, number: int, fd: int) -> None:
        """Bytes that have come are not wanted."""
        if fd >= 0:
            self.retired.add(number)  # it is not mapped, or not all of it
        self.back.append(number)

    def retire(self) -> None:
        """Blocks that are in use now are not used again."""
        self.retired.update(number for number, part in self.lent.items() if part() is not None)

    def take(self) -> list[int]:
        """What `Sent.take_back` wants to know."""
        numbers = []
        while self.back:
            number = self.back.pop()
            self.lent.pop(number, None)
            if number in self.retired:
                self.retired.remove(number)
                self.mappings.pop(number, None)
                number = ~number
            numbers.append(number)
        return numbers
