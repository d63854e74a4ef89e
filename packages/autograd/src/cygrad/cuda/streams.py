"""Streams and events of CUDA devices, as torch.cuda.streams."""

from __future__ import annotations

from typing import Any

from . import _driver, _streams
from ._devices import index_of

__all__ = ["Event", "ExternalStream", "Stream"]


class Stream(_streams.Stream):
    __doc__ = _streams.Stream.__doc__

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """(least, greatest) priority of streams on the current device; the greater one is the smaller number."""
        return _driver.priority_range(index_of())


class ExternalStream(Stream):
    """A stream of another library, by its address.

    Parameters
    ----------
    stream_ptr : int
        It has to live as long as this object.
    device : device, str or int, optional
        Whose it is; default: the current one.
    """

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> ExternalStream:
        return super().__new__(cls, device, stream_ptr=stream_ptr, **kwargs)


class Event(_streams.Event):
    """A place in the work of a stream.

    Parameters
    ----------
    enable_timing : bool
        Whether `elapsed_time` may be asked for.
    blocking, external : bool
        Of no effect: the second one is for graphs, which are not here.
    interprocess : bool
        NotImplementedError: events are not shared between processes.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                external: bool = False) -> Event:
        made = super().__new__(cls, None, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)
        made._place = None               # it goes wherever it is recorded
        return made

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self.cuda_event else "<torch.cuda.Event uninitialized>"
