"""Settings of the whole process that PyTorch has at its top, ``cygrad.NAME``."""

import warnings

from cygrad.storage import core as _core
from cygrad.storage import cuda as _cuda
from cygrad.storage.core import device as _device
from cygrad.storage.core import dtype as _dtype
from cygrad.storage.core import dtypes as _dtypes

from .autograd._core import set_default_dtype as _set_default_dtype

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_default_device",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]

_state = {"deterministic": 0, "precision": "highest", "interop": 1, "warn_always": False}
_MODES = ("default", "warn", "error")


def _flag(value, function, argument):
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument '{argument}' must be bool, not {type(value).__name__}")
    return value


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembers the wish for results that are equal from run to run.

    They always are: each operation gives the same bits from the same inputs, for every number of threads. With it,
    ``backends.cudnn.benchmark`` does not change that for convolutions on CUDA devices.
    """
    warn = _flag(warn_only, "use_deterministic_algorithms", "warn_only")
    _be_deterministic((1 if warn else 2) if _flag(mode, "use_deterministic_algorithms", "mode") else 0)


def _be_deterministic(mode):
    _state["deterministic"] = mode
    _cuda.cudnn.always_deterministic = mode > 0


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was called; results are deterministic anyway."""
    return _state["deterministic"] > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was called with ``warn_only=True``."""
    return _state["deterministic"] == 1


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2, see `set_deterministic_debug_mode`."""
    return _state["deterministic"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a number or word: 0 ``"default"``, 1 ``"warn"``, 2 ``"error"``."""
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode).__name__}")
    if debug_mode not in (*_MODES, 0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, 2, `default`, `warn` or `error`, but got "
                           f"{debug_mode}")
    _be_deterministic(_MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode)


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given; ``"highest"`` from the start."""
    if not _cuda.matmul.allow_tf32:
        return "highest"
    return "high" if _state["precision"] == "highest" else _state["precision"]


def set_float32_matmul_precision(precision: str) -> None:
    """Say how precise products of float32 matrices have to be: ``"highest"``, ``"high"`` or ``"medium"``.

    On CUDA devices the last two allow TF32, as ``backends.cuda.matmul.allow_tf32 = True`` does; the CPU always computes
    in float32. Another word is passed over with a warning, as in PyTorch.
    """
    if precision in ("highest", "high", "medium"):
        _state["precision"] = precision
        _cuda.matmul.allow_tf32 = precision != "highest"
    else:
        warnings.warn(f"{precision!r} is not one of 'highest', 'high', 'medium': the precision stays "
                      f"{get_float32_matmul_precision()!r}", stacklevel=2)


def get_num_interop_threads() -> int:
    """Number of operations that may run at once: 1 here, or what `set_num_interop_threads` was given."""
    return _state["interop"]


def set_num_interop_threads(num: int) -> None:
    """Remembers how many operations may run at once; operations run one after the other, each with its own threads.

    Raises
    ------
    RuntimeError
        `num` is not positive.
    """
    if isinstance(num, bool) or not isinstance(num, int):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num).__name__}")
    if num < 1:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, but got {num}")
    _state["interop"] = num


def set_flush_denormal(mode: bool) -> bool:
    """Whether the processor now treats the tiniest numbers as 0: it never does here, so True for False only."""
    return not _flag(mode, "set_flush_denormal", "mode")


def set_warn_always(b: bool) -> None:
    """Remembers whether each warning should come every time; Python's `warnings.simplefilter` decides that here."""
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _state["warn_always"] = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given."""
    return _state["warn_always"]


def get_default_device() -> _device:
    """The device on which tensors are made that say nothing else."""
    return _core.get_default_device()


def set_default_device(device: str | _device | int | None) -> None:
    """Choose where tensors are made that say nothing else; None is the CPU.

    Raises
    ------
    RuntimeError
        There is no such device.
    """
    _core.set_default_device(device)


def set_default_tensor_type(t) -> None:
    """The default dtype, by the name of PyTorch's old tensor types, ``"torch.DoubleTensor"``, or such a type.

    Raises
    ------
    TypeError
        It is no floating-point type.
    """
    names = {"HalfTensor": "float16", "BFloat16Tensor": "bfloat16", "FloatTensor": "float32", "DoubleTensor": "float64"}
    if isinstance(t, str):
        found = _dtypes.get(names.get(t.rpartition(".")[2]))
    else:
        found = getattr(t, "dtype", None)
    if not (isinstance(found, _dtype) and found.is_floating_point):
        raise TypeError(f"only floating-point types are supported as the default type, got {t!r}")
    _set_default_dtype(found)
