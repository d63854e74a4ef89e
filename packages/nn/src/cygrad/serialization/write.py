"""Writing objects as a checkpoint's pickle, in which tensors and their kin have PyTorch's names."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import IO, Any, ClassVar

from cygrad import Size, Tensor, TypedStorage, UntypedStorage, device, dtype
from cygrad.nn.parameter import Parameter
from cygrad.serialization.names import Name, name_of_dtype, storage_name

__all__ = ["Pickler"]

UNTYPED = Name("torch.storage", "UntypedStorage")
REBUILD_TENSOR = Name("torch._utils", "_rebuild_tensor_v2")
REBUILD_TENSOR_WITH_DTYPE = Name("torch._utils", "_rebuild_tensor_v3")
REBUILD_PARAMETER = Name("torch._utils", "_rebuild_parameter")
REBUILD_PARAMETER_WITH_STATE = Name("torch._utils", "_rebuild_parameter_with_state")
REBUILD_FROM_TYPE = Name("torch._tensor", "_rebuild_from_type_v2")


# The pickler in C writes a name only if it can import it; the one in Python leaves that to a method.
class Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Pickles objects; what is in storages is left to the caller.

    Parameters
    ----------
    file : binary file
        Where the pickle goes.
    protocol : int
        Of pickle.

    Attributes
    ----------
    storages : list of UntypedStorage
        Those that were met; the number of each is its name.
    """

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[UntypedStorage] = []
        self.numbers: dict[int, tuple[int, dtype | None]] = {}

    def persistent_id(self, obj: Any) -> Any:
        """What stands for a storage."""
        if isinstance(obj, UntypedStorage):
            return self._named(obj, None)
        if isinstance(obj, TypedStorage):
            return self._named(obj.untyped(), obj.dtype)
        return None

    def _named(self, storage: UntypedStorage, kind: dtype | None) -> tuple:
        if id(storage) not in self.numbers:
            self.numbers[id(storage)] = len(self.storages), kind
            self.storages.append(storage)
        number, before = self.numbers[id(storage)]
        if before != kind:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: one storage is "
                f"read as {before or 'bytes'} and as {kind or 'bytes'}; clone() one of the tensors"
            )
        if kind is None:
            return "storage", UNTYPED, str(number), str(storage.device), storage.nbytes()
        return "storage", storage_name(kind), str(number), str(storage.device), storage.nbytes() // kind.itemsize

    def reducer_override(self, obj: Any) -> Any:
        """How tensors, shapes and devices are made again."""
        if isinstance(obj, Tensor):
            return _reduced(obj)
        if isinstance(obj, Size):
            return Name("torch", "Size"), (tuple(obj),)
        if isinstance(obj, device):
            return Name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def save_name(self, obj: Name) -> None:
        """Write a name that nobody can import here."""
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[Name] = save_name

    def save_dtype(self, obj: dtype) -> None:
        """Write a dtype by its name."""
        self.save(Name("torch", name_of_dtype(obj)))

    dispatch[dtype] = save_dtype


def _reduced(tensor: Tensor) -> tuple:
    """Function and arguments that make a tensor, in PyTorch's names."""
    data = tensor.detach().as_subclass(Tensor)
    geometry = data.storage_offset(), tuple(data.shape), data.stride()
    storage = data.untyped_storage()
    state = getattr(tensor, "__dict__", None)
    if type(tensor) is Parameter:
        parts = data, tensor.requires_grad, OrderedDict()
        return (REBUILD_PARAMETER_WITH_STATE, (*parts, state)) if state else (REBUILD_PARAMETER, parts)
    if storage_name(data.dtype) is None:
        function = REBUILD_TENSOR_WITH_DTYPE
        args = storage, *geometry, tensor.requires_grad, OrderedDict(), data.dtype
    else:
        function = REBUILD_TENSOR
        args = TypedStorage(storage, data.dtype), *geometry, tensor.requires_grad, OrderedDict()
    kind = type(tensor)
    if kind is Tensor or getattr(kind, "_is_buffer", False):
        kind = Name("torch", "Tensor")
        if not state:
            return function, args
    return REBUILD_FROM_TYPE, (function, kind, args, state)
