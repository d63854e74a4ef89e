"""Streams and events of whatever accelerator there is, as torch.Stream and torch.Event: it is CUDA or none."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, NoReturn

from cygrad.storage.core import device as _device

from ..autograd._core import watch_streams
from ._devices import EventBase, StreamBase, device, extension, index_of

_CUDA = 1                          # number of the kind of device, as PyTorch counts them
_local = threading.local()         # .chosen: by device the stream that this thread chose, which lives as long as that
                                   # .entered: the contexts of the streams that are entered, the innermost last


class Stream(StreamBase):  # type: ignore[misc,valid-type]
    """Work of a device that is done in order, beside that of other streams. A context whose work goes there.

    Parameters
    ----------
    device : device, str or int, optional
        Default: the current one.
    priority : int
        Smaller numbers go first.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if {"stream_id", "device_index", "device_type"} == kwargs.keys():
            if kwargs["device_type"] != _CUDA:
                raise RuntimeError(f"Stream(): device_type is {_CUDA}, CUDA, not {kwargs['device_type']}")
            device, address = kwargs["device_index"], kwargs["stream_id"]
        elif kwargs.keys() <= {"stream_ptr"}:
            address = kwargs.get("stream_ptr")
        else:
            raise TypeError("Stream() takes stream_ptr, or all of stream_id, device_index and device_type; got "
                            f"{', '.join(kwargs)}")
        return super().__new__(cls, index_of(device), priority, address)

    @property
    def device(self) -> _device:
        """Whose work it is."""
        return _device("cuda", self.device_index)

    @property
    def device_type(self) -> int:
        """1: CUDA."""
        return _CUDA

    @property
    def stream_id(self) -> int:
        """Its address, which ``Stream(stream_id=, device_index=, device_type=)`` makes a stream of again."""
        return self.cuda_stream

    @property
    def native_handle(self) -> int:
        """Its address, for other libraries."""
        return self.cuda_stream

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version of this protocol, address): what CuPy and cuda.core ask for."""
        return 0, self.cuda_stream

    def is_capturing(self) -> bool:
        """Whether its work is written down for a graph: no, there are no graphs here."""
        return False

    def record_event(self, event: Event | None = None) -> Event:
        """Put an event, by default a new one, behind all that the stream was given so far."""
        if event is None:
            from .streams import Event

            event = Event()
        event.record(self)
        return event

    def wait_stream(self, stream: Stream) -> None:
        """Let what it is given from now on wait for all that another stream was given so far."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        context = StreamContext(self)
        context.__enter__()
        vars(_local).setdefault("entered", []).append(context)
        return self

    def __exit__(self, *_: object) -> None:
        _local.entered.pop().__exit__()


class Event(EventBase):  # type: ignore[misc,valid-type]
    """A place in the work of a stream.

    Parameters
    ----------
    device : device, str or int, optional
        To whose current stream `record` goes where none is named; default: that which is current then.
    enable_timing : bool
        Whether `elapsed_time` may be asked for.
    blocking : bool
        Of no effect.
    interprocess : bool
        NotImplementedError: events are not shared between processes.
    """

    _place: int | None = None

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False,
                interprocess: bool = False) -> Event:
        made = super().__new__(cls, enable_timing, blocking, interprocess)
        made._place = index_of() if device is None else index_of(device)
        return made

    @property
    def device(self) -> _device | None:
        """Of which device it is; None before that is known."""
        index = self.device_index if self.device_index >= 0 else self._place
        return None if index is None else _device("cuda", index)

    @property
    def event_id(self) -> int:
        """Its address; 0 before it is recorded."""
        return self.cuda_event

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_event)

    def record(self, stream: Stream | None = None) -> None:
        """Put it behind all that a stream, by default the current one, was given so far."""
        self.record_on(current_stream(self._place) if stream is None else stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let what a stream, by default the current one, is given from now on wait for it."""
        (current_stream(self._place) if stream is None else stream).wait_event(self)

    def ipc_handle(self) -> NoReturn:
        """NotImplementedError: events are not shared between processes."""
        raise NotImplementedError("Event.ipc_handle(): events of several processes are not supported")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: Any) -> NoReturn:
        """NotImplementedError: events are not shared between processes."""
        raise NotImplementedError("Event.from_ipc_handle(): events of several processes are not supported")

    def __repr__(self) -> str:
        return f"torch.Event device_type=cuda, device_index={self.device.index}, event_id={self.event_id:#x}"


def choose(stream: Stream, alive: Stream | None) -> tuple[Stream, Stream | None]:
    """Choose a stream for this thread, and keep another alive meanwhile; returns both as they were before."""
    index = stream.device_index
    streams = vars(_local).setdefault("chosen", {})
    before = current_stream(index), streams.get(index)
    if stream.cuda_stream:
        watch_streams(extension.stream_address, current_stream, default_stream, extension.choose_stream)
    extension.choose_stream(stream)
    streams[index] = alive
    return before


def current_stream(device: Any = None) -> Stream:
    """The stream to which this thread's work on a device goes."""
    from .streams import Stream

    index = index_of(device)
    return Stream(index, stream_ptr=extension.stream_address(index))


def default_stream(device: Any = None) -> Stream:
    """The stream that is used where none is chosen."""
    from .streams import Stream

    return Stream(index_of(device), stream_ptr=0)


def set_stream(stream: Stream | None) -> None:
    """Choose a stream for this thread's work on its device, which becomes the current one; None changes nothing."""
    if stream is not None:
        choose(stream, stream)
        extension.choose(stream.device_index)


class StreamContext:
    """A context in which this thread's work goes to a stream, whose device is current; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.entered: list[tuple[device, tuple[Stream, Stream | None]]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            place = device(self.stream.device_index)
            place.__enter__()
            self.entered.append((place, choose(self.stream, self.stream)))

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            place, before = self.entered.pop()
            choose(*before)
            place.__exit__()


def stream(stream: Stream | None) -> StreamContext:
    """A context in which this thread's work goes to a stream."""
    return StreamContext(stream)
