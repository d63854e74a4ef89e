"""``FloatTensor`` and its like: PyTorch's old names for tensors of one dtype, to construct and to ask with."""

from __future__ import annotations

from . import Tensor, empty, tensor
from . import strided as _strided
from .storage.core import Storage, dtype
from .storage.core import dtypes as _dtypes
from .storage.typed import TypedStorage

NAMES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16", "IntTensor": "int32", "LongTensor": "int64",
    "BoolTensor": "bool",
}  # fmt: skip


class tensortype(type):
    """The class of these names. They have no instances of their own: a tensor is one if it has the dtype."""

    dtype: dtype
    layout = _strided
    is_cuda: bool
    is_sparse = False

    def __new__(cls, name, bases, members):
        if bases:
            base = getattr(bases[0], "__qualname__", bases)
            raise TypeError(f"type {base!r} is not an acceptable base type: it has no instances")
        return super().__new__(cls, name, bases, members)

    def __call__(cls, *args, device=None, **kwargs):
        """A tensor of this dtype: ``FloatTensor(*sizes)``, not filled, or ``FloatTensor(sequence)``.

        Raises
        ------
        TypeError
            The argument is neither, or a tensor of another dtype.
        RuntimeError
            There is no such device, or a size is negative.
        """
        if "data" in kwargs and not args:
            args = (kwargs.pop("data"),)
        if kwargs:
            raise TypeError(f"{cls.__name__}() has no argument {next(iter(kwargs))!r}")
        kind = "cuda" if cls.is_cuda else "cpu"
        # Or the error that says which devices there are.
        place = empty(0, device=kind if device is None else device).device
        if place.type != kind:
            raise RuntimeError(f"{cls.__qualname__}() makes tensors on {kind}, got device={device!r}")
        if len(args) != 1 or _is_size(args[0]):
            return empty(*args or (0,), dtype=cls.dtype, device=place)
        data = args[0]
        if isinstance(data, Tensor):
            if data.dtype != cls.dtype or data.is_cuda != cls.is_cuda:
                raise TypeError(f"{cls.__name__}() of a tensor wants {cls.dtype} on {kind}, got {data.dtype} on "
                                f"{data.device}: use x.type()")
            return data.detach()
        if isinstance(data, (Storage, TypedStorage)):
            memory = data.untyped() if isinstance(data, TypedStorage) else data
            return empty(0, dtype=cls.dtype, device=place).set_(memory)
        if isinstance(data, str) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise TypeError(f"{cls.__name__}(): data must be a sequence (got {type(data).__name__})")
        if isinstance(data, dict):
            raise TypeError(f"{cls.__name__}(): data must be a sequence (got dict)")
        made = empty if type(data).__name__ == "Size" else tensor
        return made(data, dtype=cls.dtype, device=place)

    def __instancecheck__(cls, value):
        return isinstance(value, Tensor) and value.dtype == cls.dtype and value.is_cuda == cls.is_cuda

    def __getattr__(cls, name):
        try:
            return getattr(Tensor, name)
        except AttributeError:
            raise AttributeError(f"type object {cls.__qualname__!r} has no attribute {name!r}") from None

    def __repr__(cls):
        return f"<class {cls.__qualname__!r}>"


def _is_size(value):
    """Whether a number is meant, not an array of one."""
    return hasattr(value, "__index__") and not hasattr(value, "__len__") and not isinstance(value, bool)


def _made(name, kind, cuda=False):
    place = "torch.cuda" if cuda else "torch"
    members = {
        "dtype": _dtypes[kind], "is_cuda": cuda, "__module__": place, "__qualname__": f"{place}.{name}",
        "__doc__": f"Tensors of {kind}: ``{name}(*sizes)``, ``{name}(sequence)``, ``isinstance(x, {name})``.",
    }  # fmt: skip
    return tensortype(name, (), members)


globals().update({name: _made(name, kind) for name, kind in NAMES.items()})
ON_DEVICES = {name: _made(name, kind, True) for name, kind in NAMES.items()}


def is_storage(obj):
    """Whether something is a storage."""
    return isinstance(obj, (Storage, TypedStorage))


def typename(obj):
    """The name of an object's type, with its module; of a tensor as ``x.type()``."""
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "") or ""
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if name is None:
        module, name = type(obj).__module__ or "", type(obj).__qualname__
    return name if module in ("", "builtins") else f"{module}.{name}"
