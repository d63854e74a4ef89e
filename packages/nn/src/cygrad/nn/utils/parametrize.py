"""Parameters that are functions of other parameters, computed anew whenever the module reads them.

A module with a parametrization has, in place of the tensor, a property that computes it; the tensors that it is
computed from are in ``module.parametrizations.NAME``, a `ParametrizationList`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn.functional.checks import require_tensor
from cygrad.nn.modules.container import ModuleDict, ModuleList
from cygrad.nn.modules.module import Module, require_module
from cygrad.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_users = 0  # of the cache: how many `cached()` blocks are open
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once inside the ``with`` block, when it is first read.

    For modules that read one several times in a forward pass, as the cells of a recurrent network do.
    """
    global _users
    _users += 1
    try:
        yield
    finally:
        _users -= 1
        if not _users:
            _cache.clear()


def _put(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _overwrite(tensor: Tensor, value: Tensor) -> None:
    """Put the tensor over the memory of `value`: the object, which an optimizer may know, stays."""
    with cygrad.no_grad():
        tensor.set_(value.detach())


def _check_like(what: str, found: Any, shape: Sequence[int], dtype: Any, hint: str) -> None:
    if not isinstance(found, Tensor):
        raise ValueError(f"{what} must be a tensor, got {type(found).__name__}")
    if found.dtype != dtype:
        raise ValueError(f"{what} has the dtype {found.dtype}, the tensor {dtype}: it may not change it{hint}")
    if found.shape != shape:
        raise ValueError(
            f"{what} has the shape {tuple(found.shape)}, the tensor {tuple(shape)}: it may not change it{hint}"
        )


_UNLESS = ", unless the `unsafe` flag is enabled"


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in turn, and what the first is applied to.

    Called, it gives the tensor. What it is computed from is ``original``, or ``original0``, ``original1``, ... if the
    ``right_inverse`` of the first parametrization gives several tensors.

    Parameters
    ----------
    modules : sequence of Module
        One or more.
    original : Tensor
        The tensor that is parametrized from now on.
    unsafe : bool
        Allow another shape and dtype of the result.

    Raises
    ------
    ValueError
        If there is no module, or shapes, dtypes or kinds of results do not fit.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not isinstance(modules, Sequence) or isinstance(modules, (str, range)):
            raise TypeError(f"ParametrizationList takes a sequence of modules, got {type(modules).__name__}")
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        require_tensor("ParametrizationList", "original", original)
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with cygrad.no_grad():
            new: Any = original
            for module in reversed(list(self)):
                new = _inverse_or_same(module, new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            before = original.detach()
            _overwrite(original, new)
            _put(self, "original", original)
        else:
            self._take_several(new, original)
        if not unsafe:
            try:
                _check_like("The result of a parametrization", self(), shape, dtype, _UNLESS)
            except Exception:
                if self.is_tensor:
                    _overwrite(original, before)
                raise

    def _take_several(self, tensors: Sequence[Tensor], original: Tensor) -> None:
        for i, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {i} of the sequence with type {type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _put(self, f"original{i}", tensor)

    def _originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals such that the tensor becomes `value`, as assigning to the module's attribute does.

        Raises
        ------
        RuntimeError
            If a parametrization has no ``right_inverse``.
        ValueError
            If one gives other shapes, dtypes or numbers of tensors than before.
        """
        with cygrad.no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                new = module.right_inverse(new)
            if self.is_tensor:
                if not isinstance(new, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
                new = [new]
            elif not isinstance(new, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(new).__name__}.")
            elif len(new) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(new)}."
                )
            originals = self._originals()
            for i, (tensor, original) in enumerate(zip(new, originals, strict=True)):
                if not isinstance(tensor, Tensor):
                    raise ValueError(f"`right_inverse` must return tensors. Got {type(tensor).__name__} at place {i}")
                if tensor.dtype != original.dtype:
                    raise ValueError(
                        f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while `original{i}` has "
                        f"dtype {original.dtype}"
                    )
            for tensor, original in zip(new, originals, strict=True):
                _overwrite(original, tensor)

    def forward(self) -> Any:
        first, *others = self
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _inverse_or_same(module: Module, value: Any) -> Any:
    """What a parametrization gives for a tensor; without a ``right_inverse`` it is taken as it is."""
    if not hasattr(module, "right_inverse"):
        return value
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def _deepcopy(module: Module, memo: dict) -> Module:
    """Copy a module whose class was made for it alone: the copy gets a class of its own."""
    if id(module) in memo:
        return memo[id(module)]
    made = type(module)
    own = _class_of(made.__bases__[0])
    for name, value in vars(made).items():
        if isinstance(value, property):
            setattr(own, name, value)
    replica = own.__new__(own)
    memo[id(module)] = replica
    replica.__dict__ = copy.deepcopy(module.__dict__, memo)
    return replica


def _no_state(module: Module) -> None:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(): its class exists in this "
        "process only. Save state_dict(), and load it into a module that was parametrized in the same way"
    )


def _class_of(cls: type) -> type:
    """A subclass of a module's class for one object, which is to get properties."""
    members: dict[str, Any] = {"__getstate__": _no_state, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    return type(f"Parametrized{cls.__name__}", (cls,), members)


def _property_of(name: str) -> property:
    def get(self: Module) -> Any:
        parametrization = self.parametrizations[name]
        if not _users:
            return parametrization()
        key = id(self), name
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def put(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Have a parameter or buffer computed by a module.

    Parameters
    ----------
    module : Module
        Its class becomes a subclass of what it was, with a property of the tensor's name.
    tensor_name : str
        Of the parameter, buffer, or tensor that has a parametrization already: then this one is applied after it.
    parametrization : Module
        Computes the tensor from another, or several. Its ``right_inverse(tensor)``, if it has one, gives those from the
        tensor: it is asked now, and whenever somebody assigns to the attribute.
    unsafe : bool
        Allow that the parametrization changes shape and dtype.

    Returns
    -------
    Module
        The same.

    Raises
    ------
    ValueError
        If there is no such tensor, or shapes, dtypes or kinds of results do not fit.

    Examples
    --------
    >>> import cygrad as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = torch.nn.utils.parametrize.register_parametrization(torch.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original']
    """
    require_module("register_parametrization", "module", module)
    require_module("register_parametrization", "parametrization", parametrization)
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        known = module.parametrizations[tensor_name]
        if not unsafe:
            _check_further(getattr(module, tensor_name), parametrization)
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _class_of(type(module))
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property_of(tensor_name))
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_further(tensor: Tensor, parametrization: Module) -> None:
    """Whether a further parametrization maps tensors of this shape and dtype to such, forth and back."""
    result = parametrization(tensor)
    _check_like("The result of a parametrization", result, tensor.shape, tensor.dtype, _UNLESS)
    _check_like(
        "What parametrization.right_inverse returned",
        _inverse_or_same(parametrization, result),
        tensor.shape,
        tensor.dtype,
        _UNLESS,
    )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations: any, or of the tensor of this name."""
    known = getattr(module, "parametrizations", None)
    if not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor a parameter or buffer again.

    Parameters
    ----------
    module : Module
        Its class becomes what it was when nothing is parametrized any more.
    tensor_name : str
        Of the tensor.
    leave_parametrized : bool, default True
        Keep the value that the parametrizations compute; otherwise the original's.

    Returns
    -------
    Module
        The same.

    Raises
    ------
    ValueError
        If the tensor has no parametrization, or its original, which is to be left, is several tensors.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with cygrad.no_grad():
                _overwrite(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _put(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before anything of it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another, and the same originals.

    Parameters
    ----------
    from_module, to_module : Module
    tensor_name : str, optional
        Of the tensor whose parametrizations are taken over; all by default.

    Returns
    -------
    Module
        `to_module`.
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for key in ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]:
            setattr(target, key, getattr(source, key))
    return to_module
