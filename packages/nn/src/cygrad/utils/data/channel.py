"""Messages between a loader and its workers: the bytes of tensors and arrays travel in shared memory.

A message is one packet on a socket: a header, the pickle if it is short, and the descriptor of an unnamed file with
everything else, unless it came with an earlier message (`blocks`). Nothing has a name, so nothing is left over whoever
is killed when; and the one who gets a message maps the file and closes the descriptor, so batches that are kept use up
no descriptors.

Of a tensor, only the part of its storage travels that it shows. Tensors whose memory overlaps do so afterwards too.
"""

from __future__ import annotations

import array
import errno
import io
import os
import pickle
import select
import socket
import struct
import threading
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cygrad.multiprocessing  # noqa: F401  tensors of a dataset that is handed to a new process are shared too
from cygrad import Tensor, UntypedStorage, dtype, frombuffer, uint8
from cygrad.autograd._core import rebuild
from cygrad.autograd.interop import bytes_of
from cygrad.multiprocessing.reductions import check_leaf
from cygrad.storage.interop import Mapping
from cygrad.utils.data.blocks import LIMIT, NONE, Received, Sent

__all__ = ["Channel", "Message"]

HEADER = struct.Struct("<QQQqQqqq")  # bytes of: file, table of its parts, pickle; block; how many are free; the tag
FREE = struct.Struct("<q")  # after the header: blocks of the receiver that it may use again
INLINE = 1800  # table and pickle up to here travel in the packet: a packet is sent whole or not at all
ALIGNMENT = 64
GRAIN = 16  # the largest element: parts keep their address modulo this


class _Pickler(ForkingPickler):
    """Collects tensors, and the buffers of arrays, instead of pickling their bytes."""

    def __init__(self, file: io.BytesIO) -> None:
        self.buffers: list[pickle.PickleBuffer] = []
        self.tensors: list[Tensor] = []
        # A method of its own would make a cycle, and batches would live until the garbage is collected.
        super().__init__(file, 5, True, self.buffers.append)

    def reducer_override(self, obj: Any) -> Any:
        """How an object is pickled."""
        if isinstance(obj, UntypedStorage):
            if obj.nbytes() == 0 or obj.device.type != "cpu":
                return obj.__reduce__()
            return _storage, (pickle.PickleBuffer(bytes_of(obj)),)
        if not isinstance(obj, Tensor):
            return NotImplemented
        check_leaf(obj)
        if type(obj) is not Tensor or obj.is_cuda or getattr(obj, "__dict__", None):
            return obj.__reduce_ex__(5)
        self.tensors.append(obj)
        return _arrived, (len(self.tensors) - 1,)


def _storage(buffer: Any) -> UntypedStorage:
    return frombuffer(buffer, dtype=uint8).untyped_storage()


_now = threading.local()  # .tensors: those of the message that this thread is reading


def _arrived(number: int) -> Tensor:
    return _now.tensors[number]


class _Layout:
    """Where the parts of a message lie in its file."""

    def __init__(self) -> None:
        self.size = 0
        self.parts: list[tuple[int, memoryview]] = []

    def add(self, data: memoryview, lead: int = 0) -> tuple[int, int]:
        """Put bytes into the file; return where they are, with so many bytes before them, and the length of all."""
        at = -(-self.size // ALIGNMENT) * ALIGNMENT
        self.parts.append((at + lead, data))
        self.size = at + lead + len(data)
        return at, lead + len(data)

    def add_tensors(self, tensors: list[Tensor]) -> tuple[list, list]:
        """Put what tensors show into the file.

        Returns
        -------
        list
            Place and length of what become storages.
        list
            For each tensor: the number of its storage (-1: none), offset, shape, strides, dtype, requires_grad.
        """
        storages = [tensor.untyped_storage() for tensor in tensors]
        spans = sorted(
            (id(storage), *_span(tensor), number)
            for number, (storage, tensor) in enumerate(zip(storages, tensors, strict=True))
            if tensor.numel()
        )
        runs: list[list] = []  # storage, first and last byte, tensors in between
        for storage, start, end, number in spans:
            if runs and runs[-1][0] == storage and start < runs[-1][2]:
                runs[-1][2] = max(runs[-1][2], end)
                runs[-1][3].append(number)
            else:
                runs.append([storage, start, end, [number]])
        made, table = [], [(-1, 0, *_described(tensor)) for tensor in tensors]
        for _, start, end, numbers in runs:
            storage = storages[numbers[0]]
            data = bytes_of(storage)[start - storage.data_ptr() : end - storage.data_ptr()]
            begin = start - start % GRAIN
            made.append(self.add(data, start - begin))
            for number in numbers:
                tensor = tensors[number]
                offset = (tensor.data_ptr() - begin) // tensor.element_size()
                table[number] = (len(made) - 1, offset, *_described(tensor))
        return made, table


def _span(tensor: Tensor) -> tuple[int, int]:
    """Addresses of the first byte of a tensor and of the first one after it."""
    start = tensor.data_ptr()
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (steps + 1) * tensor.element_size()


def _described(tensor: Tensor) -> tuple[tuple, tuple, dtype, bool]:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad


def _encode(tag: tuple[int, int, int], obj: Any, sent: Sent, received: Received) -> tuple[bytes, int, bool]:
    """The packet for an object, the descriptor that goes with it, or -1, and whether the sender then closes that.

    Raises
    ------
    RuntimeError
        If shared memory is used up, or a tensor belongs to a graph.
    Exception
        Whatever pickling the object raises.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(obj)
    layout = _Layout()
    storages, tensors = layout.add_tensors(pickler.tensors)
    buffers = [layout.add(buffer.raw()) for buffer in pickler.buffers]
    table = pickle.dumps((storages, tensors, buffers), 5) if storages or tensors or buffers else b""
    body = file.getbuffer()
    short = len(table) + len(body) <= INLINE
    if not short:
        layout.parts += [(layout.size, memoryview(table)), (layout.size + len(table), body)]
        layout.size += len(table) + len(body)
    block, fd = sent.write(layout.parts, layout.size) if layout.size else (NONE, -1)
    free = received.take()  # last: where there is an error, the next message tells it
    header = HEADER.pack(layout.size, len(table), len(body), block, len(free), *tag) + b"".join(map(FREE.pack, free))
    return header + table + body if short else header, fd, fd >= 0 and block == NONE


def _decode(packet: bytes, view: memoryview) -> Any:
    """The object that a packet and the bytes in its file hold."""
    size, table_length, length, _, free, *_ = HEADER.unpack_from(packet)
    text = memoryview(packet)[HEADER.size + free * FREE.size :]
    if not text:
        text = view[size - table_length - length :]
    storages, tensors, buffers = pickle.loads(text[:table_length]) if table_length else ((), (), ())
    made = [_storage(view[at : at + nbytes]) for at, nbytes in storages]
    before = getattr(_now, "tensors", None)
    _now.tensors = [
        rebuild(Tensor, made[number] if number >= 0 else UntypedStorage(0), kind, shape, stride, offset, needs, None)
        for number, offset, shape, stride, kind, needs in tensors
    ]
    try:
        return pickle.loads(text[table_length:], buffers=[view[at : at + nbytes] for at, nbytes in buffers])
    finally:
        _now.tensors = before


class Message:
    """One that has come.

    Attributes
    ----------
    tag : tuple of int
        What it is about.
    """

    def __init__(self, packet: bytes, fd: int, channel: Channel) -> None:
        self.size, _, _, self.block, _, *tag = HEADER.unpack_from(packet)
        self.tag: tuple[int, int, int] = tuple(tag)
        self.packet = packet
        self.fd = fd
        self.channel: Channel | None = channel  # until the content is taken

    def content(self) -> Any:
        """The object in it, which can be had once; whatever unpickling it raises."""
        (fd, self.fd), (channel, self.channel) = (self.fd, -1), (self.channel, None)
        if channel is None:
            raise RuntimeError("the content of this message has been taken")
        view = memoryview(b"")
        try:
            if self.block != NONE:
                view = memoryview(channel.received.lend(self.block, fd, self.size))
            elif self.size:
                view = memoryview(Mapping(fd, self.size))
        finally:
            if fd >= 0:
                os.close(fd)
        return _decode(self.packet, view)

    def __del__(self) -> None:
        if self.channel is not None and self.block != NONE:
            self.channel.received.decline(self.block, self.fd)
        if self.fd >= 0:
            os.close(self.fd)


class Channel:
    """One end of the connection between a loader and a worker.

    Parameters
    ----------
    sock : socket
        Keeps packets apart.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.waiting: list[tuple[bytes, int, bool]] = []  # what `_encode` made, for which the socket had no room
        self.sent = Sent()
        self.received = Received()

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two ends."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(here), cls(there)

    def send(self, tag: tuple[int, int, int], obj: Any) -> None:
        """Send an object, waiting for room; BrokenPipeError if nobody is there to read it."""
        packet, fd, alone = _encode(tag, obj, self.sent, self.received)
        try:
            while True:
                try:
                    return self._send(packet, fd, 0)
                except OSError as error:
                    if error.errno != errno.ETOOMANYREFS:
                        raise
                time.sleep(0.001)  # until some of the descriptors that are on their way have been received
        finally:
            if alone:
                os.close(fd)

    def post(self, tag: tuple[int, int, int], obj: Any) -> None:
        """Send an object without waiting: where there is no room, `flush` sends it later."""
        self.waiting.append(_encode(tag, obj, self.sent, self.received))
        self.flush()

    def flush(self) -> None:
        """Send what `post` could not, as far as there is room. If nobody is there to read it, it is dropped."""
        while self.waiting:
            packet, fd, alone = self.waiting[0]
            try:
                self._send(packet, fd, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.ENOBUFS, errno.ETOOMANYREFS):
                    return
                if not isinstance(error, (BrokenPipeError, ConnectionResetError)):
                    raise
            del self.waiting[0]
            if alone:
                os.close(fd)

    def _send(self, packet: bytes, fd: int, flags: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
        self.sock.sendmsg([packet], rights, flags | socket.MSG_NOSIGNAL)

    def readable(self, timeout: float) -> bool:
        """Whether something, or the end, arrives within so many seconds."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def receive(self) -> Message:
        """The next message, without waiting.

        Raises
        ------
        BlockingIOError
            If there is none.
        EOFError
            If the other end is closed.
        RuntimeError
            If this process may not have more descriptors.
        """
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            packet, fds, answer, _ = socket.recv_fds(self.sock, HEADER.size + LIMIT * FREE.size + INLINE, 1, flags)
        except ConnectionResetError:
            raise EOFError from None
        if not packet:
            raise EOFError
        size, _, _, block, free, *_ = HEADER.unpack_from(packet)
        self.sent.take_back(number for (number,) in FREE.iter_unpack(packet[HEADER.size :][: free * FREE.size]))
        if answer & socket.MSG_CTRUNC or (size and block == NONE and not fds):
            raise RuntimeError("Too many open files: a batch could not be received; raise the limit, `ulimit -n`")
        return Message(packet, fds[0] if fds else -1, self)

    def close(self) -> None:
        """Close this end, and forget what was not sent."""
        self.sock.close()
        for _, fd, alone in self.waiting:
            if alone:
                os.close(fd)
        self.waiting.clear()
        self.sent.close()
