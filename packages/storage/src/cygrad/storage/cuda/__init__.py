"""CUDA devices for storage: whether there are some, and which. The extension is loaded when somebody asks."""

import sys
from functools import cache
from importlib import import_module
from types import SimpleNamespace

# How convolutions use cuDNN. `benchmark` allows sums in any order as well, which neither of the two settings below it
# does.
cudnn = SimpleNamespace(
    enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, always_deterministic=False, allow_tf32=True
)
# How products of float32 and complex64 are computed; halves are always added up in float32.
matmul = SimpleNamespace(
    allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True
)
NOT_BUILT = "cygrad-storage was installed without CUDA, which CYGRAD_CUDA=1 builds in"


@cache
def extension():
    """The module that reaches the devices; None where it was not built.

    Raises
    ------
    ImportError
        It belongs to another build of cygrad-storage.
    """
    try:
        return import_module(f"{__name__}._cuda")
    except ModuleNotFoundError:
        return None


def why_not():
    """Why there is no CUDA device, as a sentence; None where there is one."""
    if extension() is None:
        return NOT_BUILT
    try:
        return None if extension().count() else "no CUDA device is found"
    except RuntimeError as error:
        return str(error)


def is_host():
    """Whether devices are imitated on the processor (a build for tests)."""
    return extension() is not None and extension().IS_HOST


def device_count():
    """Number of CUDA devices; 0 where CUDA cannot be used."""
    return extension().count() if why_not() is None else 0


def make_generator(code):
    """A generator for a device, as a Meta counts them. Autograd enters one whose states are tensors."""
    from cygrad.storage.ops import Generator

    return Generator(code)


def generators():
    """The default generators of all devices; none as long as nothing has used a device."""
    module = sys.modules.get(f"{__name__}._cuda")
    if module is None or why_not() is not None:
        return []
    return [module.default_generator_of(i) for i in range(module.count())]


def code_of(device):
    """The number by which a Meta knows a CUDA device; one without an index is the one that this thread chose.

    Raises
    ------
    RuntimeError
        There is no CUDA, or no such device.
    """
    reason = why_not()
    if reason is not None and reason == getattr(extension(), "FORKED", None):
        raise RuntimeError(reason)
    if reason is not None:
        reason = reason[0].upper() + reason[1:]
        raise RuntimeError(f"there is no device '{device}' here; the devices are: 'cpu'. {reason}")
    index = extension().chosen() if device.index is None else device.index
    if index >= extension().count():
        raise RuntimeError(f"there is no device '{device}' here; CUDA devices are 0 to {extension().count() - 1}")
    return index + 1
