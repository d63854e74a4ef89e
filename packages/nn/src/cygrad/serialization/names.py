"""The names under which checkpoints know classes and functions, PyTorch's, and what they stand for here."""

from __future__ import annotations

import builtins
import codecs
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

import cygrad
from cygrad import Size, Tensor, TypedStorage, UntypedStorage, device, dtype
from cygrad.nn.parameter import Parameter

__all__ = ["KNOWN", "STORAGES", "Name", "name_of_dtype", "storage_name"]

STORAGES = {
    "FloatStorage": cygrad.float32,
    "DoubleStorage": cygrad.float64,
    "HalfStorage": cygrad.float16,
    "BFloat16Storage": cygrad.bfloat16,
    "LongStorage": cygrad.int64,
    "IntStorage": cygrad.int32,
    "ShortStorage": cygrad.int16,
    "CharStorage": cygrad.int8,
    "ByteStorage": cygrad.uint8,
    "BoolStorage": cygrad.bool,
    "ComplexFloatStorage": cygrad.complex64,
    "ComplexDoubleStorage": cygrad.complex128,
}
DTYPES = [*STORAGES.values(), cygrad.uint16, cygrad.uint32, cygrad.uint64]


class Name:
    """A class or function that is written into a pickle by its name alone. Each name is one object."""

    made: ClassVar[dict[tuple[str, str], Name]] = {}

    def __new__(cls, module: str, name: str) -> Name:
        if (module, name) not in cls.made:
            made = super().__new__(cls)
            made.module, made.name = module, name
            cls.made[module, name] = made
        return cls.made[module, name]

    module: str
    name: str

    def __call__(self) -> None:
        raise TypeError(f"{self.module}.{self.name} is only a name")  # pickle asks whether what it writes is callable


class StorageKind:
    """What a checkpoint's ``torch.FloatStorage`` and the like stand for: how a storage's bytes are read."""

    def __init__(self, dtype: dtype | None) -> None:
        self.dtype = dtype


def name_of_dtype(kind: dtype) -> str:
    """PyTorch's name of a dtype, without the module."""
    return repr(kind).rpartition(".")[2]


def named(value: Any) -> str:
    """What an error says of a value from a file: the text of nested tuples may be longer than memory."""
    return repr(value[:200]) if type(value) is str else f"a {type(value).__name__}"


def storage_name(kind: dtype) -> Name | None:
    """PyTorch's name of the storages of a dtype; None for those that have untyped storages only."""
    return next((Name("torch", name) for name, value in STORAGES.items() if value == kind), None)


# ---- what the functions named in a checkpoint do


def rebuild_tensor(
    storage: Any,
    offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """A tensor over a storage of the checkpoint that knows its dtype."""
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"a tensor needs a typed storage, got {type(storage).__name__}")
    return _over(storage.untyped(), storage.dtype, offset, size, stride, requires_grad, metadata)


def rebuild_tensor_with_dtype(
    storage: Any,
    offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool,
    hooks: Any,
    dtype: dtype,
    metadata: Any = None,
) -> Tensor:
    """A tensor over a storage that is only bytes."""
    if isinstance(storage, TypedStorage):
        storage = storage.untyped()
    if not isinstance(storage, UntypedStorage):
        raise TypeError(f"a tensor needs a storage, got {type(storage).__name__}")
    return _over(storage, dtype, offset, size, stride, requires_grad, metadata)


def _over(
    storage: UntypedStorage, kind: dtype, offset: int, size: tuple, stride: tuple, requires_grad: bool, metadata: Any
) -> Tensor:
    tensor = cygrad.empty(0, dtype=kind).set_(storage, offset, tuple(size), tuple(stride))
    if metadata is not None and type(metadata) is not dict:
        raise TypeError(f"the properties of a tensor are a dictionary, not {type(metadata).__name__}")
    for flag, value in (metadata or {}).items():
        if flag not in ("conj", "neg"):
            raise TypeError(f"a tensor with the property {named(flag)} is not supported")
        if value and tensor.numel() * kind.itemsize > storage.nbytes():
            raise TypeError("a conjugated or negated tensor whose elements share memory is not supported")
        if value:
            tensor = tensor.conj() if flag == "conj" else -tensor
    return tensor.requires_grad_(bool(requires_grad))


def rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any = None) -> Parameter:
    """A parameter over a tensor."""
    return Parameter(data, bool(requires_grad))


def rebuild_parameter_with_state(data: Tensor, requires_grad: bool, hooks: Any, state: Any) -> Parameter:
    """A parameter that has attributes."""
    parameter = Parameter(data, bool(requires_grad))
    set_attributes(parameter, state)
    return parameter


def rebuild_from_type(function: Callable, kind: type, args: tuple, state: Any) -> Tensor:
    """A tensor of a subclass, or one that has attributes."""
    if function not in REBUILDERS:
        raise TypeError(f"{named(function)} makes no tensor")
    tensor = function(*args)
    wanted = tensor.requires_grad
    if type(tensor) is not kind:
        tensor = tensor.detach()  # a leaf again, of its class
        if not (isinstance(kind, type) and issubclass(kind, Tensor)):
            raise TypeError(f"{named(kind)} is no class of tensors")
        tensor = tensor.as_subclass(kind).requires_grad_(wanted)
    set_attributes(tensor, state)
    return tensor


def set_attributes(target: Any, state: Any) -> None:
    """Give an object the attributes that it was saved with: a dictionary, or a pair of one and one for slots."""
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if part is None:
            continue
        if not isinstance(part, dict) or not all(isinstance(key, str) for key in part):
            raise TypeError("the attributes of an object are a dictionary with names as keys")
        for key, value in part.items():
            if key.startswith("__") or hasattr(type(target), key):
                raise TypeError(f"the attribute {key!r} of {type(target).__name__} is not a saved object's to set")
            setattr(target, key, value)


def default_dict(factory: Any = None, *args: Any) -> defaultdict:
    """A dictionary with a default, made by a class of containers or numbers."""
    makers = (None, dict, list, set, int, float, str, tuple, OrderedDict, Counter)
    if not any(factory is maker for maker in makers):
        raise TypeError(f"a defaultdict that makes its values by {named(factory)} is not supported")
    return defaultdict(factory, *args)


def encode(text: str, encoding: str) -> bytes:
    """Bytes, which old pickles keep as text."""
    if encoding != "latin1" or not isinstance(text, str):
        raise TypeError(f"bytes are kept as text in latin1, got {named(encoding)}")
    return codecs.encode(text, encoding)


def layout(name: str) -> Any:
    """A layout by its name."""
    if name != "torch.strided":
        raise TypeError(f"tensors of the layout {named(name)} are not supported")
    return cygrad.strided


def small(function: type) -> Callable:
    """A class of Python's that makes an object from containers or numbers which are there already."""

    def make(*args: Any) -> Any:
        for arg in args:
            if not isinstance(arg, (str, bytes, bytearray, list, tuple, set, frozenset, dict)) and (
                function is not complex or not isinstance(arg, (int, float))
            ):
                raise TypeError(f"{function.__name__} is made from containers, got {type(arg).__name__}")
        return function(*args)

    return make


REBUILDERS = (rebuild_tensor, rebuild_tensor_with_dtype, rebuild_parameter, rebuild_parameter_with_state)

# What a checkpoint may name: values, classes that are only compared, and callables with what is called in their place.
KNOWN: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor_with_dtype,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter_with_state,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild_from_type,
    ("torch", "Tensor"): Tensor,
    ("torch.nn.parameter", "Parameter"): Parameter,
    ("torch.storage", "UntypedStorage"): StorageKind(None),
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch.serialization", "_get_layout"): layout,
    ("_codecs", "encode"): encode,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "defaultdict"): defaultdict,
    ("collections", "Counter"): Counter,
}
KNOWN |= {("torch", name): StorageKind(kind) for name, kind in STORAGES.items()}
KNOWN |= {("torch", name_of_dtype(kind)): kind for kind in DTYPES}
for _module in ("builtins", "__builtin__"):
    for _name in ("dict", "list", "set", "frozenset", "tuple", "int", "float", "str", "bytes", "bytearray", "complex"):
        KNOWN[_module, _name] = getattr(builtins, _name)

# What may be called, and what is called then. Anything else that lies on the stack is data.
CALLED: dict[int, Callable] = {
    id(f): f for f in (*REBUILDERS, rebuild_from_type, layout, encode, Size, device)
} | {
    id(f): small(f) for f in (OrderedDict, Counter, set, frozenset, bytes, bytearray, complex, list, tuple, dict)
}
CALLED[id(defaultdict)] = default_dict
