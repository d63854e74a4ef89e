"""`autocast`, and the state behind it: whether it is on in this thread, the dtype, whether casts are kept."""

import copy
import functools
import warnings

from cygrad.storage import cuda as _devices
from cygrad.storage.core import dtype as _dtype
from cygrad.storage.core import dtypes

from ..autograd._core import (
    Tensor,
    _autocast_state,
    _set_autocast,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
)
from ..autograd.autocasting import watch_devices

__all__ = ["autocast", "custom_bwd", "custom_fwd", "get_autocast_cpu_dtype", "get_autocast_dtype",
           "get_autocast_gpu_dtype", "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_cpu_enabled",
           "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
           "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype"]

LOW_DTYPES = (dtypes["bfloat16"], dtypes["float16"])
HERE = ("cpu", "cuda")
ABSENT = ("xpu", "mps", "hpu", "mtia", "maia", "xla", "ipu", "privateuseone")   # devices that PyTorch knows


def is_autocast_available(device_type):
    """Whether autocast works on a kind of device: here, on the CPU and CUDA devices, whether there are some or not."""
    _check_device(device_type)
    return device_type in HERE


def _check_device(device_type):
    if not isinstance(device_type, str):
        raise TypeError(f"device_type must be str, not {type(device_type).__name__}")
    if device_type not in HERE and device_type not in ABSENT:
        raise RuntimeError(f"Expected one of {', '.join(HERE + ABSENT)} device type, got {device_type!r}: cygrad "
                           "computes on the CPU and on CUDA devices")


def is_autocast_enabled(device_type="cuda"):
    """Whether autocast is on in this thread; without an argument PyTorch, and so cygrad, answers for CUDA."""
    _check_device(device_type)
    return device_type in HERE and _autocast_state(device_type == "cuda")[0]


def get_autocast_dtype(device_type):
    """The dtype of operations that compute in fewer digits; by default bfloat16 for the CPU, float16 for CUDA."""
    _check_device(device_type)
    return _autocast_state(device_type == "cuda")[1] if device_type in HERE else dtypes["float16"]


def is_autocast_cache_enabled():
    """Whether casts of weights are kept until the outermost autocast ends."""
    return _autocast_state()[2]


def set_autocast_enabled(device_type, enabled):
    """Switch autocast on or off in this thread."""
    _check_device(device_type)
    if not isinstance(enabled, bool):
        raise TypeError("set_autocast_enabled(): argument 'enabled' (position 2) must be bool, not "
                        f"{type(enabled).__name__}")
    if device_type not in HERE:
        if enabled:
            raise RuntimeError(f"autocast cannot be enabled for {device_type!r}: cygrad computes on the CPU and on "
                               "CUDA devices")
        return
    away = device_type == "cuda"
    if away and enabled:
        watch_devices()
    _, low, keep = _autocast_state(away)
    _set_autocast(enabled, low, keep, away)


def set_autocast_dtype(device_type, dtype):
    """Set the dtype of operations that compute in fewer digits, in this thread."""
    _check_device(device_type)
    if not isinstance(dtype, _dtype):
        raise TypeError("set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not "
                        f"{type(dtype).__name__}")
    if device_type in HERE:
        on, _, keep = _autocast_state(device_type == "cuda")
        _set_autocast(on, dtype, keep, device_type == "cuda")


def set_autocast_cache_enabled(enabled):
    """Whether casts of weights are kept, in this thread."""
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    on, low, _ = _autocast_state()
    _set_autocast(on, low, enabled)


def _deprecated(name, instead):
    warnings.warn(f"torch.{name} is deprecated. Please use torch.{instead} instead.", DeprecationWarning, stacklevel=3)


def is_autocast_cpu_enabled():
    """Deprecated: ``is_autocast_enabled("cpu")``."""
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype():
    """Deprecated: ``get_autocast_dtype("cpu")``."""
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_enabled(enabled):
    """Deprecated: ``set_autocast_enabled("cpu", enabled)``."""
    _deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype):
    """Deprecated: ``set_autocast_dtype("cpu", dtype)``."""
    _deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype():
    """Deprecated: ``get_autocast_dtype("cuda")``."""
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype):
    """Deprecated: ``set_autocast_dtype("cuda", dtype)``."""
    _deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


class autocast:
    """Mixed precision inside ``with autocast("cuda"):`` or ``@autocast("cuda")``, for this thread.

    Products of matrices, linear layers, convolutions and attention compute in `dtype`; losses in float32; everything
    else computes in the dtypes that it gets, apart from what needs digits: on the CPU products of all elements,
    decompositions and Fourier transforms, on devices exponentials, logarithms, powers, sums, norms and normalisation,
    which compute in float32. The lists are PyTorch's, one for the CPU and one for CUDA. Casts are recorded, so weights
    stay float32 and get float32 gradients. float64 is left alone, and so are in-place operations and ``out=``, and
    tensors on the other kind of device.

    Parameters
    ----------
    device_type : str
        "cpu" or "cuda", which is switched off with a warning where there is no device.
    dtype : dtype, optional
        bfloat16 or float16, by default the first for the CPU and the second for CUDA; any other switches autocast off
        with a warning.
    enabled : bool
        False switches it off inside.
    cache_enabled : bool, optional
        Keep the cast of a weight until the outermost autocast ends, so that it is made once. A weight that is written
        meanwhile is cast anew. By default as set in this thread, at first True.

    Raises
    ------
    ValueError
        `device_type` is no str.
    RuntimeError
        It is no device that has autocast.
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        _check_device(device_type)
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled)
        self._before = []
        if not self._enabled:
            return
        name = device_type.upper()
        if device_type not in HERE or (device_type == "cuda" and _devices.why_not() is not None):
            warnings.warn(f"{name} is not available. Disabling autocast.", stacklevel=2)
            self._enabled = False
        elif self.fast_dtype not in LOW_DTYPES:
            warnings.warn(f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n{name} "
                          f"Autocast only supports dtypes of {', '.join(map(str, LOW_DTYPES))} currently.",
                          stacklevel=2)
            self._enabled = False

    def __enter__(self):
        away = self.device == "cuda"
        before = _autocast_state(away)
        self._before.append(before)
        autocast_increment_nesting()
        if self.device in HERE:
            if away and self._enabled:
                watch_devices()
            low = self.fast_dtype if isinstance(self.fast_dtype, _dtype) else before[1]
            _set_autocast(self._enabled, low, bool(self._cache_enabled), away)
        return self

    def __exit__(self, *exc):
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        _set_autocast(*self._before.pop(), self.device == "cuda")
        return False

    def __call__(self, func):
        if not callable(func):
            raise TypeError(f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use "
                            "autocast as a context manager: with autocast(...)?")

        @functools.wraps(func)
        def decorated(*args, **kwargs):
            mode = copy.copy(self)
            mode._before = []            # a call inside this one, or in another thread, has its own
            with mode:
                return func(*args, **kwargs)

        return decorated


def _cast(value, dtype, device_type):
    """Floating-point tensors of a kind of device in nested containers, but those of float64, in a dtype."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.dtype is not dtypes["float64"]
        return value.to(dtype) if eligible and value.device.type == device_type else value
    if isinstance(value, dict):
        return {_cast(k, dtype, device_type): _cast(v, dtype, device_type) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_cast(v, dtype, device_type) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _check_type(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorate the ``forward`` of a `cygrad.autograd.Function` whose ``backward`` has `custom_bwd`.

    Parameters
    ----------
    fwd : function, optional
        Without it, a decorator is returned.
    device_type : str
    cast_inputs : dtype, optional
        Inside autocast, cast floating-point arguments to it (float64 excepted) and run without autocast.
    """
    _check_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx, *args, **kwargs):
        on = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs, device_type), **_cast(kwargs, cast_inputs, device_type))

    return decorated


def custom_bwd(bwd=None, *, device_type):
    """Decorate a ``backward``: it runs in the autocast in which the ``forward``, which has `custom_fwd`, ran."""
    _check_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx, *args, **kwargs):
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return decorated
