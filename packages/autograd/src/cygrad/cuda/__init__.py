"""CUDA devices: which there are, their memory, streams and events.

Where there are none, questions are answered as PyTorch answers them on such a machine, so that programs that ask go on
with the CPU; what needs a device raises RuntimeError with the reason.
"""

from __future__ import annotations

import os
import threading
import warnings
from importlib import import_module
from typing import Any

from cygrad.storage import cuda as _devices
from cygrad.storage.core import device as _device
from cygrad.storage.core import dtypes

from ..autograd._core import Tensor, frombuffer, watch_streams

__all__ = [
    "AcceleratorError",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

_cuda: Any = _devices.extension()

if _cuda is not None:
    OutOfMemoryError, AcceleratorError = _cuda.OutOfMemoryError, _cuda.AcceleratorError
    _StreamBase, _EventBase = _cuda.Stream, _cuda.Event
else:

    class OutOfMemoryError(RuntimeError):
        """A device has not enough memory: what programs catch; the CPU's own is a MemoryError."""

    class AcceleratorError(RuntimeError):
        """A device reports an error."""

    class _Missing:
        """What stands for classes of a build without CUDA."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            _need()

    class _NotBuilt:
        """Stands for the extension: whatever is asked of it says why it is not there."""

        def __getattr__(self, name: str) -> Any:
            _need()

    _StreamBase = _EventBase = _Missing
    _cuda = _NotBuilt()


def _need() -> None:
    """Raise RuntimeError where there is no device."""
    reason = _devices.why_not()
    if reason is not None:
        if reason == getattr(_devices.extension(), "FORKED", None):
            raise RuntimeError(reason)
        raise RuntimeError(f"no CUDA device is available: {reason}")


def _index(device: Any = None, name: str = "device") -> int:
    """Number of a device, which has to be there; None is the current one."""
    _need()
    if device is None:
        return _cuda.chosen()
    if isinstance(device, int) and not isinstance(device, bool):
        if not 0 <= device < device_count():
            last = device_count() - 1
            raise RuntimeError(f"invalid device ordinal: there is no CUDA device {device}, they are 0 to {last}")
        return device
    where = _device(device)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda {name}, but got: {where}")
    return _devices.code_of(where) - 1


# ---- devices


def is_available() -> bool:
    """Whether tensors can be on CUDA devices.

    Of the build that imitates a device on the processor, only where the environment variable CYGRAD_CUDA_HOST says how
    many devices there are to be.
    """
    return _devices.why_not() is None


def device_count() -> int:
    """Number of CUDA devices."""
    return _devices.device_count()


def init() -> None:
    """Does nothing but to raise RuntimeError where there is no device: a device is prepared when it is first used."""
    _need()


def is_initialized() -> bool:
    """Whether CUDA devices are in use by this process."""
    return is_available() and any(_cuda.memory(i)["segments"] for i in range(device_count()))


def current_device() -> int:
    """The device that this thread uses where none is named."""
    return _index()


def set_device(device: Any) -> None:
    """Choose the device that this thread uses where none is named; negative numbers choose none, and leave it."""
    if isinstance(device, int) and device < 0:
        return
    _cuda.choose(_index(device))


class device:
    """A context in which another device is the current one.

    Parameters
    ----------
    device : device, str or int
        None and negative numbers change nothing.
    """

    def __init__(self, device: Any) -> None:
        nothing = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if nothing else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        if self.idx >= 0:
            self.prev_idx = current_device()
            _cuda.choose(self.idx)
        return self

    def __exit__(self, *_: object) -> None:
        if self.idx >= 0:
            _cuda.choose(self.prev_idx)


class device_of(device):
    """A context in which the device of a tensor is the current one; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device.index if obj.is_cuda else None)


class _Properties:
    """What a device is: name, memory and abilities."""

    def __init__(self, index: int) -> None:
        self.name, self.total_memory, self.major, self.minor, *others = _cuda.properties(index)
        self.multi_processor_count, self.warp_size = others

    def __repr__(self) -> str:
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, total_memory="
                f"{self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count})")


def get_device_properties(device: Any = None) -> _Properties:
    """Name, memory and abilities of a device."""
    return _Properties(_index(device))


def get_device_name(device: Any = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Major and minor version of what a device can do."""
    p = get_device_properties(device)
    return p.major, p.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one device reads the memory of another without a copy: cygrad always copies."""
    _index(device), _index(peer_device)
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether devices know bfloat16: all that there are do, for they compute in float32."""
    return is_available()


def synchronize(device: Any = None) -> None:
    """Wait until all work of a device is done."""
    _cuda.synchronize(_index(device))


# ---- memory


def empty_cache() -> None:
    """Give all memory that is kept for reuse back to the devices. `cygrad.empty_cache` gives the CPU's back."""
    if is_available():
        _cuda.empty_cache()


def _number(name: str, device: Any) -> int:
    return _cuda.memory(_index(device))[name] if is_available() else 0


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors on a device, as the allocator rounds them."""
    return _number("allocated", device)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of tensors on a device so far, or since `reset_peak_memory_stats`."""
    return _number("max_allocated", device)


def memory_reserved(device: Any = None) -> int:
    """Bytes that this process holds of a device: those of tensors, and those that are kept for reuse."""
    return _number("reserved", device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that this process held of a device so far, or since `reset_peak_memory_stats`."""
    return _number("max_reserved", device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the largest numbers begin again from what is in use now."""
    if is_available():
        _cuda.reset_peak(_index(device))


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"`torch.cuda.{name}` is deprecated: use `torch.cuda.{instead}`", FutureWarning, stacklevel=3)


def memory_cached(device: Any = None) -> int:
    """Deprecated: `memory_reserved`."""
    _deprecated("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Deprecated: `max_memory_reserved`."""
    _deprecated("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: Any = None) -> None:
    """Deprecated: `reset_peak_memory_stats`, which it calls."""
    _deprecated("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Deprecated: `reset_peak_memory_stats`, which it calls."""
    _deprecated("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, all) bytes of a device, as the driver counts them, whoever uses the rest."""
    return _cuda.free_bytes(_index(device))


def memory_stats(device: Any = None) -> dict[str, int]:
    """Numbers of the allocator of a device, under PyTorch's names for them."""
    if not is_available():
        return {}
    m = _cuda.memory(_index(device))
    return {
        "allocated_bytes.all.current": m["allocated"], "allocated_bytes.all.peak": m["max_allocated"],
        "reserved_bytes.all.current": m["reserved"], "reserved_bytes.all.peak": m["max_reserved"],
        "segment.all.current": m["segments"], "num_alloc_retries": m["retries"], "num_ooms": m["ooms"],
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The numbers of `memory_stats` as text, a line each."""
    return "\n".join(f"{name:<32} {value:>20,}" for name, value in memory_stats(device).items())


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process reserve no more than a part of a device's memory.

    Raises
    ------
    ValueError
        `fraction` is not between 0 and 1.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = _index(device)
    _cuda.limit(index, int(fraction * _cuda.properties(index)[1]))


def ipc_collect() -> None:
    """Does nothing: memory of devices is not shared between processes."""


# ---- streams


class Stream(_StreamBase):  # type: ignore[misc,valid-type]
    """Work of a device that is done in order, beside that of other streams.

    Parameters
    ----------
    device : device, str or int, optional
        Default: the current one.
    priority : int
        Smaller numbers go first.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if set(kwargs) - {"stream_ptr"}:
            raise TypeError(f"Stream() has no argument {', '.join(kwargs)}")
        return super().__new__(cls, _index(device), priority, kwargs.get("stream_ptr"))

    @property
    def device(self) -> _device:
        """Whose work it is."""
        return _device("cuda", self.device_index)

    def record_event(self, event: Event | None = None) -> Event:
        """Put an event, by default a new one, behind all that the stream was given so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_stream(self, stream: Stream) -> None:
        """Let what it is given from now on wait for all that another stream was given so far."""
        self.wait_event(stream.record_event())


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


def is_current_stream_capturing() -> bool:
    """Whether the current stream's work is written down for a graph: no, there are no graphs here."""
    return False


class Event(_EventBase):  # type: ignore[misc,valid-type]
    """A place in the work of a stream.

    Parameters
    ----------
    enable_timing : bool
        Whether `elapsed_time` may be asked for.
    """

    def record(self, stream: Stream | None = None) -> None:
        """Put it behind all that a stream, by default the current one, was given so far."""
        self.record_on(current_stream() if stream is None else stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let what a stream, by default the current one, is given from now on wait for it."""
        (current_stream() if stream is None else stream).wait_event(self)


_chosen = threading.local()        # .streams: by device those that this thread chose, which live as long as that


def _choose(stream: Stream, alive: Stream | None) -> tuple[Stream, Stream | None]:
    """Choose a stream for this thread, and keep another alive meanwhile; returns both as they were before."""
    index = stream.device_index
    streams = vars(_chosen).setdefault("streams", {})
    before = current_stream(index), streams.get(index)
    if stream.cuda_stream:
        watch_streams(_cuda.stream_address, current_stream, default_stream, _cuda.choose_stream)
    _cuda.choose_stream(stream)
    streams[index] = alive
    return before


def current_stream(device: Any = None) -> Stream:
    """The stream to which this thread's work on a device goes."""
    index = _index(device)
    return Stream(index, stream_ptr=_cuda.stream_address(index))


def default_stream(device: Any = None) -> Stream:
    """The stream that is used where none is chosen."""
    return Stream(_index(device), stream_ptr=0)


def set_stream(stream: Stream | None) -> None:
    """Choose a stream for this thread's work on its device; None changes nothing."""
    if stream is not None:
        _choose(stream, stream)


class StreamContext:
    """A context in which this thread's work goes to a stream, whose device is current; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.entered: list[tuple[device, tuple[Stream, Stream | None]]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            place = device(self.stream.device_index)
            place.__enter__()
            self.entered.append((place, _choose(self.stream, self.stream)))

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            place, before = self.entered.pop()
            _choose(*before)
            place.__exit__()


def stream(stream: Stream | None) -> StreamContext:
    """A context in which this thread's work goes to a stream."""
    return StreamContext(stream)


# ---- random numbers


def _generator(device: Any) -> Any:
    return _cuda.default_generator_of(_index(device))


def manual_seed(seed: int) -> None:
    """Start the generator of the current device anew; without a device nothing happens."""
    if is_available():
        _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Start the generators of all devices anew; without a device nothing happens."""
    for i in range(device_count()):
        _generator(i).manual_seed(int(seed))


def seed() -> None:
    """Start the generator of the current device anew with a seed from the operating system."""
    if is_available():
        _generator(None).seed()


def seed_all() -> None:
    """Start the generators of all devices anew, with one seed from the operating system."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


def initial_seed() -> int:
    """The seed that the current device's generator was last started with."""
    return _generator(None).initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a device's generator, a uint8 tensor on the CPU."""
    return frombuffer(bytearray(_generator(device).get_state()), dtype=dtypes["uint8"])


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state of a device's generator."""
    _generator(device).set_state(bytes(new_state.tolist()))


def get_rng_state_all() -> list[Tensor]:
    """The states of the generators of all devices."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Set the states of the devices' generators, one each."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def __getattr__(name: str) -> object:
    if name == "amp":
        return import_module(f"{__name__}.amp")
    if name.endswith("Tensor"):
        from ..tensortypes import ON_DEVICES

        if name in ON_DEVICES:
            return ON_DEVICES[name]
    from .._later import missing_attribute

    raise missing_attribute(__name__, name)
