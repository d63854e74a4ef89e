"""Tensors that a `Module` registers when they are assigned to it."""

from __future__ import annotations

from typing import Any, SupportsIndex

import cygrad
from cygrad import Tensor
from cygrad.autograd._core import _without_values

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


def _tensor_of(data: Any, kind: str) -> Tensor:
    if data is None:
        return cygrad.empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{kind} is made from a Tensor, got {type(data).__name__}")
    return data


def _unpickle_parameter(cls: type, data: Tensor, requires_grad: bool) -> Parameter:
    return Tensor._make_subclass(cls, data, requires_grad)


class Parameter(Tensor):
    """A tensor that is trained: assigned as an attribute of a `Module`, it becomes one of its parameters.

    Parameters
    ----------
    data : Tensor, optional
        The values; the parameter shares their memory. Without it: an empty tensor of shape ``(0,)``.
    requires_grad : bool, default True
        Whether gradients are computed for it, also when it is made under `no_grad`.

    Raises
    ------
    TypeError
        If `data` is no tensor.
    RuntimeError
        If gradients are wanted for a type that has none (integers, bool).
    """

    _is_param = True

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        return Tensor._make_subclass(cls, _tensor_of(data, cls.__name__), requires_grad)

    def __deepcopy__(self, memo: dict) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        return _unpickle_parameter, (type(self), self.detach(), self.requires_grad)


class Buffer(Tensor):
    """A tensor that belongs to a module's state but is not trained, as a running mean is.

    Assigned as an attribute of a `Module`, it does what `Module.register_buffer` does.

    Parameters
    ----------
    data : Tensor, optional
        The values; the buffer shares their memory. Without it: an empty tensor of shape ``(0,)``.
    persistent : bool, default True
        Whether `Module.state_dict` contains it.
    """

    _is_buffer = True
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        data = _tensor_of(data, cls.__name__)
        buffer = Tensor._make_subclass(cls, data, data.requires_grad)
        buffer.persistent = persistent
        return buffer

    def __repr__(self) -> str:
        return repr(self.detach().requires_grad_(self.requires_grad))

    def __deepcopy__(self, memo: dict) -> Buffer:
        if id(self) not in memo:
            copy = self.detach().clone().requires_grad_(self.requires_grad)
            memo[id(self)] = type(self)(copy, persistent=self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        return _unpickle_buffer, (type(self), self.detach(), self.requires_grad, self.persistent)


def _unpickle_buffer(cls: type, data: Tensor, requires_grad: bool, persistent: bool) -> Buffer:
    return cls(data.requires_grad_(requires_grad), persistent=persistent)


def clear_grad(parameter: Tensor, set_to_none: bool) -> None:
    """Drop a gradient, or fill it with zeros after cutting it from any graph that it is part of."""
    grad = parameter.grad
    if grad is None:
        return
    if set_to_none:
        parameter.grad = None
        return
    if grad.grad_fn is not None:
        grad = parameter.grad = grad.detach()
    else:
        grad.requires_grad_(False)
    grad.zero_()


# What an uninitialised tensor can do: all else that is called would read values, or a shape, that it has not got.
_CONVERSIONS = ("bfloat16", "double", "float", "half", "int", "long", "short")
_POSSIBLE = frozenset((
    *_CONVERSIONS, "char", "copy_", "cpu", "cuda", "get_device", "is_complex", "is_floating_point", "materialize",
    "share_memory_", "size", "to",
))  # fmt: skip
_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
_REFUSED = (
    *(way + name for name in _BINARY for way in ("", "r", "i")),
    "array", "bool", "complex", "contains", "eq", "float", "ge", "getitem", "gt", "index", "int", "invert", "iter",
    "le", "len", "lt", "ne", "neg", "pos", "setitem",
)  # fmt: skip


def _no_values(tensor: Tensor, name: str) -> ValueError:
    return ValueError(
        f"Attempted to use an uninitialized parameter in {name}: a {type(tensor).__name__} has no shape and no values "
        "yet. Call the lazy module that it belongs to once, with an example of its input, before anything is computed "
        "with its parameters"
    )


class UninitializedTensorMixin:
    """What `UninitializedParameter` and `UninitializedBuffer` have in common."""

    cls_to_become: type

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Take a shape, and memory that is not filled; the object becomes what its class stands for.

        Parameters
        ----------
        shape : sequence of int
            Of the tensor from now on.
        device, dtype : optional
            By default those that it was made with.
        """
        device = self.device if device is None else device
        self._put_over(cygrad.empty(shape, device=device, dtype=self.dtype if dtype is None else dtype))
        self.__class__ = self.cls_to_become

    def _put_over(self, data: Tensor) -> None:
        _without_values(self, False)
        try:
            self.data = data
        except Exception:  # a dtype that has no gradients
            _without_values(self, True)
            raise

    def _become(self, other: Any) -> None:
        """Take over dtype and device of another uninitialised tensor."""
        self._put_over(cygrad.empty(0, dtype=other.dtype, device=other.device))
        _without_values(self, True)

    def _converted(self, dtype: Any, device: Any = None) -> Any:
        return type(self)(self.requires_grad, self.device if device is None else device, dtype)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """An uninitialised tensor of the dtype and on the device that the arguments of `Tensor.to` ask for."""
        asked = self.data.to(*args, **kwargs)
        return self._converted(asked.dtype, asked.device)

    def cpu(self) -> Any:
        return self if self.is_cpu else self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        return self._converted(self.dtype, self.data.cuda(device).device)

    def copy_(self, src: Tensor, non_blocking: bool = False) -> Any:
        if not is_lazy(src):
            raise _no_values(self, "copy_")
        return self

    def size(self, dim: int | None = None) -> Any:
        size = cygrad.Size((0,))
        return size if dim is None else size[dim]

    @property
    def data(self) -> Tensor:
        return cygrad.empty(0, dtype=self.dtype, device=self.device)

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.__set__(self, value)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer: call its module once before, with an "
            "example of its input. In load_state_dict this means that an uninitialized state goes into a module that "
            "is initialized"
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer: call its module once before, with an example "
            "of its input"
        )

    def __getattribute__(self, name: str) -> Any:
        if name not in _POSSIBLE and name[:2] != "__" and callable(getattr(Tensor, name, None)):
            raise _no_values(self, name)
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self._converted(self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        return type(self), (self.requires_grad, self.device, self.dtype)


def _refusing(name: str) -> Any:
    def refused(self: Any, *args: Any) -> Any:
        raise _no_values(self, name)

    return refused


for _name in _REFUSED:
    setattr(UninitializedTensorMixin, f"__{_name}__", _refusing(f"__{_name}__"))
for _name in _CONVERSIONS:
    _dtype = getattr(cygrad, _name)
    setattr(UninitializedTensorMixin, _name, lambda self, dtype=_dtype: self._converted(dtype))
UninitializedTensorMixin.char = lambda self: self._converted(cygrad.int8)  # type: ignore[attr-defined]


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet, see `cygrad.nn.LazyLinear`; `materialize` makes it a `Parameter`.

    It can be converted, copied and pickled. Everything else raises ValueError, asking for its shape RuntimeError.

    Parameters
    ----------
    requires_grad : bool, default True
        Whether gradients will be computed for it.
    device, dtype : optional
        Of the tensor that it will be.
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        made = Tensor._make_subclass(cls, cygrad.empty(0, device=device, dtype=dtype), requires_grad)
        return _without_values(made, True)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet; `materialize` makes it a `Buffer`. See `UninitializedParameter`.

    Parameters
    ----------
    requires_grad : bool, default False
        Whether gradients will be computed for it.
    device, dtype : optional
        Of the tensor that it will be.
    persistent : bool, default True
        Whether `Module.state_dict` contains it.
    """

    cls_to_become = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        buffer = Tensor._make_subclass(cls, cygrad.empty(0, device=device, dtype=dtype), requires_grad)
        buffer.persistent = persistent
        return _without_values(buffer, True)

    def _converted(self, dtype: Any, device: Any = None) -> UninitializedBuffer:
        device = self.device if device is None else device
        return type(self)(self.requires_grad, device, dtype, self.persistent)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        return type(self), (self.requires_grad, self.device, self.dtype, self.persistent)


def is_lazy(param: Any) -> bool:
    """Whether something is a parameter or buffer whose shape is not known yet."""
    return isinstance(param, UninitializedTensorMixin)
