"""CUDA devices: which there are, and what they are."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from cygrad.storage import cuda as _devices
from cygrad.storage.core import device as _device

from ..autograd._core import Tensor
from . import _driver

_cuda: Any = _devices.extension()

if _cuda is not None:
    OutOfMemoryError, AcceleratorError = _cuda.OutOfMemoryError, _cuda.AcceleratorError
    StreamBase, EventBase = _cuda.Stream, _cuda.Event
else:

    class OutOfMemoryError(RuntimeError):
        """A device has not enough memory: what programs catch; the CPU's own is a MemoryError."""

    class AcceleratorError(RuntimeError):
        """A device reports an error."""

    class _Missing:
        """What stands for classes of a build without CUDA."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            need()

    class _NotBuilt:
        """Stands for the extension: whatever is asked of it says why it is not there."""

        def __getattr__(self, name: str) -> Any:
            need()

    OutOfMemoryError.__module__ = AcceleratorError.__module__ = "cygrad.cuda"
    StreamBase = EventBase = _Missing
    _cuda = _NotBuilt()

extension = _cuda


def need() -> None:
    """Raise RuntimeError where there is no device."""
    reason = _devices.why_not()
    if reason is not None:
        if reason == getattr(_devices.extension(), "FORKED", None):
            raise RuntimeError(reason)
        raise RuntimeError(f"no CUDA device is available: {reason}")


def index_of(device: Any = None, name: str = "device", error: type[Exception] = AcceleratorError) -> int:
    """Number of a device, which has to be there; None is the current one."""
    need()
    if device is None:
        return extension.chosen()
    if isinstance(device, int) and not isinstance(device, bool):
        index = device
    else:
        where = _device(device)
        if where.type != "cuda":
            raise ValueError(f"Expected a cuda {name}, but got: {where}")
        index = extension.chosen() if where.index is None else where.index
    if not 0 <= index < device_count():
        words = "CUDA error: invalid device ordinal" if error is AcceleratorError else f"Invalid {name} id"
        raise error(f"{words}: there is no CUDA device {index}, they are 0 to {device_count() - 1}")
    return index


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
    need()


def is_initialized() -> bool:
    """Whether CUDA devices are in use by this process."""
    return is_available() and any(extension.memory(i)["segments"] for i in range(device_count()))


def current_device() -> int:
    """The device that this thread uses where none is named."""
    return index_of()


def set_device(device: Any) -> None:
    """Choose the device that this thread uses where none is named; negative numbers choose none, and leave it."""
    if isinstance(device, int) and device < 0:
        return
    extension.choose(index_of(device))


class device:
    """A context in which another device is the current one.

    Parameters
    ----------
    device : device, str or int
        None and negative numbers change nothing.
    """

    def __init__(self, device: Any) -> None:
        nothing = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if nothing else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        if self.idx >= 0:
            self.prev_idx = current_device()
            extension.choose(self.idx)
        return self

    def __exit__(self, *_: object) -> None:
        if self.idx >= 0:
            extension.choose(self.prev_idx)


class device_of(device):
    """A context in which the device of a tensor is the current one; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device.index if obj.is_cuda else None)


class _Properties:
    """What a device is: name, memory and abilities. What only the driver knows is missing where it cannot be asked."""

    def __init__(self, index: int) -> None:
        self.name, self.total_memory, self.major, self.minor, *others = extension.properties(index)
        self.multi_processor_count, self.warp_size = others
        self.gcnArchName = self.name
        for name, number in _driver.ATTRIBUTES.items():
            value = _driver.attribute(index, number)
            if value is not None:
                setattr(self, name, value)
        uuid = _driver.uuid(index)
        if uuid is not None:
            self.uuid = UUID(bytes=uuid)

    def __repr__(self) -> str:
        others = [f", uuid={self.uuid}"] if hasattr(self, "uuid") else []
        others += [f", L2_cache_size={self.L2_cache_size >> 20}MB"] if hasattr(self, "L2_cache_size") else []
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, total_memory="
                f"{self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}{''.join(others)})")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} of {self.__dict__.get('name', 'a device')} is not known")


@cache
def _properties(index: int) -> _Properties:
    return _Properties(index)


def get_device_properties(device: Any = None) -> _Properties:
    """Name, memory and abilities of a device."""
    return _properties(index_of(device, error=AssertionError))


def get_device_name(device: Any = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Major and minor version of what a device can do."""
    p = get_device_properties(device)
    return p.major, p.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one device reads the memory of another without a copy: cygrad always copies."""
    index_of(device, error=AssertionError), index_of(peer_device, "peer device", AssertionError)
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether devices know bfloat16: all that there are do, for they compute in float32."""
    return is_available()


def is_tf32_supported() -> bool:
    """Whether the current device multiplies float32 with fewer digits, faster: from capability 8.0 on."""
    return is_available() and get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """For what device code was compiled: ``sm_90``, ``compute_80``. Empty where there is no device."""
    return list(extension.ARCHITECTURES) if is_available() else []


def get_gencode_flags() -> str:
    """Options of nvcc that ask for what `get_arch_list` names."""
    parts = [name.split("_") for name in get_arch_list()]
    return " ".join(f"-gencode compute=compute_{number},code={kind}_{number}" for kind, number in parts)


def synchronize(device: Any = None) -> None:
    """Wait until all work of a device is done."""
    extension.synchronize(index_of(device))


_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Whether calls that wait for a device warn or fail: only ``"default"``, 0, is there, with which they do neither.

    Raises
    ------
    NotImplementedError
        Another mode is asked for.
    RuntimeError
        There is no such mode.
    """
    need()
    if debug_mode not in (*_MODES, *range(len(_MODES))) or isinstance(debug_mode, bool):
        raise RuntimeError(f"set_sync_debug_mode(): a mode is one of {_MODES} or 0 to 2, got {debug_mode!r}")
    if debug_mode not in ("default", 0):
        raise NotImplementedError("set_sync_debug_mode(): calls that wait for a device are not watched here")


def get_sync_debug_mode() -> int:
    """0: calls that wait for a device neither warn nor fail."""
    need()
    return 0


def current_blas_handle() -> int:
    """NotImplementedError: handles of cuBLAS belong to cygrad's own calls."""
    raise NotImplementedError("current_blas_handle(): handles of cuBLAS are not given away here")


class _Runtime:
    """The few functions of CUDA's run time that programs call by `cudart`; 0 means that they succeeded."""

    @staticmethod
    def cudaProfilerStart() -> int:
        """Let a profiler that runs beside begin."""
        synchronize()                      # the driver wants a device that is in use
        return _driver.call("cuProfilerStart")

    @staticmethod
    def cudaProfilerStop() -> int:
        """Let it end."""
        return _driver.call("cuProfilerStop")

    @staticmethod
    def cudaMemGetInfo(device: int) -> tuple[int, int]:
        """(free, all) bytes of a device."""
        return extension.free_bytes(index_of(device))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"cudart() has no {name!r}: it has cudaProfilerStart, cudaProfilerStop and cudaMemGetInfo")


def cudart() -> _Runtime:
    """Functions of CUDA's run time: those that start and stop a profiler, and the one that counts memory."""
    need()
    return _Runtime()


def _management(device: Any) -> tuple[Any, Any]:
    """NVIDIA's management library, and a device as it knows it: by its place, for it counts devices in another way."""
    p = get_device_properties(device)
    try:
        import pynvml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("pynvml, which asks for loads and temperatures of devices, is not installed: "
                                  "pip install nvidia-ml-py") from error
    pynvml.nvmlInit()
    place = f"{p.pci_domain_id:08x}:{p.pci_bus_id:02x}:{p.pci_device_id:02x}.0"
    return pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(place.encode())


def utilization(device: Any = None) -> int:
    """Part of the time, in percent, in which a device computed lately, as nvidia-smi has it; needs pynvml."""
    library, handle = _management(device)
    return library.nvmlDeviceGetUtilizationRates(handle).gpu


def memory_usage(device: Any = None) -> int:
    """Part of the time, in percent, in which memory was read or written lately, as nvidia-smi has it; needs pynvml."""
    library, handle = _management(device)
    return library.nvmlDeviceGetUtilizationRates(handle).memory


def temperature(device: Any = None) -> int:
    """Degrees Celsius of a device; needs pynvml."""
    library, handle = _management(device)
    return library.nvmlDeviceGetTemperature(handle, 0)


def power_draw(device: Any = None) -> int:
    """Milliwatts that a device takes; needs pynvml."""
    library, handle = _management(device)
    return library.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device: Any = None) -> int:
    """MHz of a device's multiprocessors; needs pynvml."""
    library, handle = _management(device)
    return library.nvmlDeviceGetClockInfo(handle, 1)


def device_memory_used(device: Any = None) -> int:
    """Bytes of a device that are in use, by whoever it is."""
    free, total = extension.free_bytes(index_of(device))
    return total - free


def list_gpu_processes(device: Any = None) -> str:
    """The processes that use a device and the memory of each, a line each; needs pynvml, else it says so."""
    try:
        library, handle = _management(device)
    except ModuleNotFoundError as error:
        return str(error)
    lines = [f"GPU:{index_of(device)}"]
    for process in library.nvmlDeviceGetComputeRunningProcesses(handle):
        used = "?" if process.usedGpuMemory is None else f"{process.usedGpuMemory / 2**20:12.3f}"
        lines.append(f"process {process.pid:>10d} uses {used} MB GPU memory")
    return "\n".join(lines if len(lines) > 1 else [*lines, "no processes are running"])
