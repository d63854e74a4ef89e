"""Modules that hold other modules, or parameters, in order or by name."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from cygrad import Tensor
from cygrad.nn.modules.module import Module, indented
from cygrad.nn.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _position(index: Any, length: int, owner: object) -> int:
    """A Python index, negative ones counted from the end, as a place in 0 .. length - 1."""
    place = operator.index(index)
    if not -length <= place < length:
        raise IndexError(f"index {place} is out of range: {type(owner).__name__} has {length} entries")
    return place % length


class _Ordered(Module):
    """A module whose children are named by their position."""

    def _name_at(self, index: Any) -> str:
        return list(self._modules)[_position(index, len(self), self)]

    def _set_children(self, modules: Iterable[Module | None]) -> None:
        """Make `modules` the children, renumbered from 0."""
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        children = list(self._modules.values())
        if isinstance(index, slice):
            del children[index]
        else:
            del children[_position(index, len(self), self)]
        self._set_children(children)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Any:
        """Add `module` at the end, and return this container."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put `module` before position `index`, and return this container; IndexError outside -len .. len."""
        if not isinstance(module, Module):
            raise TypeError(f"a {type(module).__name__} is no Module and cannot be inserted")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"cannot insert at {index}: {type(self).__name__} has {len(self)} entries")
        children = list(self._modules.values())
        children.insert(index, module)
        self._set_children(children)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end, and return this container; TypeError if `modules` is not iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend takes an iterable, got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any = -1) -> Any:
        """Remove the child at place `key`, or those of a slice, and return it."""
        removed = self[key]
        del self[key]
        return removed


class Sequential(_Ordered):
    """Modules called one after the other, each with the output of the one before.

    Parameters
    ----------
    *args : Module, or one OrderedDict of name to Module
        The steps.

    Examples
    --------
    >>> import cygrad as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> net(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def extend(self, sequential: Iterable[Module]) -> Any:
        """Add modules at the end, and return this container; TypeError if `sequential` is not iterable."""
        return super().extend(sequential)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"a Sequential can be joined with a Sequential only, got {type(other).__name__}")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"a Sequential can be joined with a Sequential only, got {type(other).__name__}")
        return self.extend(list(other))

    def __mul__(self, times: int) -> Sequential:
        self._check_times(times)
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        self._check_times(times)
        return self.extend(list(self) * (times - 1))

    @staticmethod
    def _check_times(times: Any) -> None:
        if not isinstance(times, int):
            raise TypeError(f"a Sequential is repeated an integer number of times, got {type(times).__name__}")
        if times <= 0:
            raise ValueError(f"a Sequential is repeated a positive number of times, got {times}")


class ModuleList(_Ordered):
    """A list of modules, registered as children; it has no ``forward``.

    Parameters
    ----------
    modules : iterable of Module, optional
        The entries.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._name_at(index)]

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Show runs of equal entries once, as ``(0-2): 3 x Linear(...)``."""
        if not len(self):
            return f"{self._get_name()}()"
        lines = []
        for text, run in groupby(enumerate(repr(module) for module in self), key=lambda entry: entry[1]):
            places = [i for i, _ in run]
            head = f"({places[0]}): " if len(places) == 1 else f"({places[0]}-{places[-1]}): {len(places)} x "
            lines.append(head + indented(text))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name, registered as children; it has no ``forward``.

    Parameters
    ----------
    modules : mapping, or iterable of (name, Module), optional
        The entries.
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all entries."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove the entry `key` and return its module; KeyError if there is none."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Return (name, module) pairs."""
        return self._modules.items()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace entries from a mapping or an iterable of pairs; nothing changes if it is neither."""
        for key, module in _pairs(modules, type(self).__name__):
            self[key] = module


def _pairs(entries: Any, owner: str) -> list[tuple[str, Any]]:
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
        return list(entries.items())
    if not isinstance(entries, Iterable):
        raise TypeError(f"{owner}.update takes a mapping or (key, value) pairs, got {type(entries).__name__}")
    pairs = []
    for i, entry in enumerate(entries):
        if not isinstance(entry, Iterable):
            raise TypeError(f"{owner}.update: entry {i} is a {type(entry).__name__}, not a (key, value) pair")
        pair = tuple(entry)
        if len(pair) != 2:
            raise ValueError(f"{owner}.update: entry {i} has length {len(pair)}, a (key, value) pair has 2")
        pairs.append(pair)
    return pairs


def _as_parameter(value: Any) -> Any:
    """A tensor put into a parameter container becomes a Parameter; anything else stays what it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _entry_line(key: Any, value: Any, by_type: bool = False) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.shape)
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({key}): {kind} containing: [{value.type() if by_type else value.dtype} of size {size}]"


class ParameterList(Module):
    """A list of parameters; tensors that are put in become parameters, other objects stay as they are.

    Parameters
    ----------
    values : iterable, optional
        The entries.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, str(_position(index, len(self), self)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, len(self), self)), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def append(self, value: Any) -> ParameterList:
        """Add `value` at the end, and return this list."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end, and return this list; TypeError if `values` is a tensor or not iterable."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend takes an iterable of values, got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    __iadd__ = extend

    def extra_repr(self) -> str:
        return "\n".join(_entry_line(i, value) for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a ParameterList holds parameters and cannot be called")


class ParameterDict(Module):
    """Parameters by name; tensors that are put in become parameters, other objects stay as they are.

    Parameters
    ----------
    parameters : mapping, or iterable of (name, value), optional
        The entries.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"'{key}' is an attribute of ParameterDict and cannot name a parameter")
        setattr(self, key, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        if key not in self._keys:
            raise KeyError(key)
        delattr(self, key)
        del self._keys[key]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        """Return the names."""
        return self._keys.keys()

    def values(self) -> Iterator[Any]:
        """Yield the values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the entry `key`, or `default`."""
        return self[key] if key in self else default  # noqa: SIM401

    def pop(self, key: str) -> Any:
        """Remove the entry `key` and return it; KeyError if there is none."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self._keys):
            del self[key]

    def update(self, parameters: Any) -> None:
        """Add or replace entries from a mapping or an iterable of pairs; nothing changes if it is neither.

        Those of a plain dict come in the order of their names, as PyTorch's: an optimizer's state counts parameters.
        """
        pairs = _pairs(parameters, type(self).__name__)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs, key=operator.itemgetter(0))
        for key, value in pairs:
            self[key] = value

    def popitem(self) -> tuple[str, Any]:
        """Remove the newest entry and return it; KeyError if there is none."""
        if not self._keys:
            raise KeyError("popitem: the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the entry `key`, after setting it to `default` if it was missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def copy(self) -> ParameterDict:
        """Return a ParameterDict with the same values."""
        return ParameterDict(self)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a ParameterDict that has `default` under every key."""
        return ParameterDict((key, default) for key in keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_entry_line(key, value, True) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a ParameterDict holds parameters and cannot be called")
