"""The state of a module as a flat dictionary of named tensors, and back.

A load changes nothing before all of it is known to fit: `Stateful.load_state_dict` first lets every module of the tree
compare its entries, collecting the writes, and only then makes them.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import cygrad
from cygrad import Tensor
from cygrad.nn.parameter import Parameter, is_lazy
from cygrad.utils.hooks import RemovableHandle

__all__ = []

EXTRA_STATE = "_extra_state"
KINDS = (
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `Stateful.load_state_dict` found in one of the two sides only."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class Write(NamedTuple):
    """One write that a load will make once everything is known to fit."""

    module: Any
    name: str
    value: Any
    assign: bool

    def target(self) -> Tensor:
        parameters = self.module._parameters
        return (parameters if self.name in parameters else self.module._buffers)[self.name]

    def inverse(self) -> Write:
        """The write that puts back what is there now."""
        if self.name == EXTRA_STATE:
            return self._replace(value=self.module.get_extra_state())
        target = self.target()
        if is_lazy(target):
            return self._replace(value=deepcopy(target), assign=True)
        return self._replace(value=target if self.assign else target.detach().clone())

    def commit(self) -> None:
        if self.name == EXTRA_STATE:
            self.module.set_extra_state(self.value)
            return
        target, value = self.target(), self.value
        if is_lazy(target) and not is_lazy(value) and not self.assign:
            target.materialize(value.shape)
        if not self.assign:
            with cygrad.no_grad():
                target.copy_(value)
            return
        if isinstance(target, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, requires_grad=target.requires_grad)
        else:
            value.requires_grad_(target.requires_grad)
        setattr(self.module, self.name, value)


class _Silent(NamedTuple):
    """A hook that may return nothing. (A class, not a closure: modules are pickled with their hooks.)"""

    hook: Callable

    def __call__(self, *args: Any) -> None:
        answer = self.hook(*args)
        if answer is not None:
            raise RuntimeError(f"a state_dict post-hook must return None and change its argument, got {answer!r}")


class _WithoutModule(NamedTuple):
    """A hook that is called without its first argument."""

    hook: Callable

    def __call__(self, module: Any, *args: Any) -> Any:
        return self.hook(*args)


class Stateful:
    """What gives a module its `state_dict`."""

    _version: int = 1
    _parameters: Any
    _buffers: Any
    _modules: Any
    _non_persistent_buffers_set: set[str]
    _state_dict_pre_hooks: OrderedDict[int, Callable]
    _state_dict_hooks: OrderedDict[int, Callable]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_post_hooks: OrderedDict[int, Callable]

    def _init_state_hooks(self) -> None:
        for kind in KINDS:
            object.__setattr__(self, kind, OrderedDict())

    def get_extra_state(self) -> Any:
        """Return what `state_dict` saves besides tensors; a subclass that defines it also defines `set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: it does not define get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` returned."""
        raise RuntimeError(f"{type(self).__name__} cannot take back an extra state: it does not define set_extra_state")

    def state_dict(
        self, *args: Any, destination: dict | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return all parameters and persistent buffers by name.

        Parameters
        ----------
        destination : dict, optional
            Dictionary to fill; a new one by default.
        prefix : str
            Put in front of every name.
        keep_vars : bool
            Give the parameters themselves. By default: detached tensors, which share their memory.

        Returns
        -------
        dict
            Names such as ``"0.weight"`` in the order of registration, with an attribute ``_metadata`` that holds each
            module's version. The tensors are not copies.
        """
        for value, name in zip(args, ("destination", "prefix", "keep_vars"), strict=False):
            if name == "destination":
                destination = value
            elif name == "prefix":
                prefix = value
            else:
                keep_vars = value
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            answer = hook(self, destination, prefix, local_metadata)
            destination = destination if answer is None else answer
        return destination

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                yield name, parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer

    def _has_extra_state(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Stateful, method)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        """Put this module's own entries, not its children's, into `destination`."""
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if self._has_extra_state("get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Have ``hook(module, prefix, keep_vars)`` called before `state_dict` reads this module."""
        return self._register_state_hook("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Have ``hook(module, state_dict, prefix, local_metadata)`` called after `state_dict` has read this module.

        The hook changes ``state_dict`` in place and returns None.
        """
        return self._register_state_hook("_state_dict_hooks", _Silent(hook))

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """`register_state_dict_post_hook` as it was before it was public: a dict that `hook` returns is the result."""
        return self._register_state_hook("_state_dict_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Have `hook` called before this module looks at its entries.

        Its arguments: ``(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)``; it may change ``state_dict``, which is a copy of what the user passed.
        """
        return self._register_state_hook("_load_state_dict_pre_hooks", hook)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Have ``hook(module, incompatible_keys)`` called after this module and its children were loaded.

        The hook may change the lists ``incompatible_keys.missing_keys`` and ``.unexpected_keys``: what it takes out is
        forgiven.
        """
        return self._register_state_hook("_load_state_dict_post_hooks", hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        """`register_load_state_dict_pre_hook` as it was before it was public: `hook` is given the module on request."""
        return self._register_state_hook("_load_state_dict_pre_hooks", hook if with_module else _WithoutModule(hook))

    def _register_state_hook(self, kind: str, hook: Callable) -> RemovableHandle:
        registry = getattr(self, kind)
        handle = RemovableHandle(registry)
        registry[handle.id] = hook
        return handle

    def _load_from_state_dict(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Compare this module's own entries with `state_dict` and write those that fit.

        Subclasses override it to read older layouts: they change `state_dict` and call this one. The writes are
        appended to ``local_metadata["writes"]`` where `load_state_dict` put a list there, and made at once otherwise.
        """
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        writes: list[Write] = []
        for name, tensor in self._own_state():
            key = prefix + name
            if key in state_dict:
                value = _fitting(key, state_dict[key], tensor, error_msgs)
                if value is not None:
                    writes.append(Write(self, name, value, assign))
            elif strict:
                missing_keys.append(key)
        key = prefix + EXTRA_STATE
        if self._has_extra_state("set_extra_state"):
            if key in state_dict:
                writes.append(Write(self, EXTRA_STATE, state_dict[key], assign))
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)
        if strict:
            unexpected_keys += self._unexpected(state_dict, prefix)
        deferred = local_metadata.get("writes")
        if deferred is not None:
            deferred += writes
        else:
            for write in writes:
                write.commit()

    def _unexpected(self, state_dict: Mapping[str, Any], prefix: str) -> Iterator[str]:
        own = {name for name, _ in self._own_state()}
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + EXTRA_STATE:
                name, dot, _ = key[len(prefix) :].partition(".")
                if name not in (self._modules if dot else own):
                    yield key

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy tensors by name into the parameters and buffers of this module and its children.

        Parameters
        ----------
        state_dict : mapping
            As `state_dict` returns it; it is not changed.
        strict : bool, default True
            Whether names that only one side has are an error.
        assign : bool, default False
            Make the given tensors themselves parameters and buffers (dtype and layout included) instead of copying.

        Returns
        -------
        named tuple
            ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        TypeError
            If `state_dict` is no mapping.
        RuntimeError
            If names (with `strict`) or shapes differ. The message lists all of them; no parameter has changed.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict takes a mapping of names to tensors, got {type(state_dict).__name__}")
        load = _Load(self, state_dict, strict, assign)
        load.compare(self, load.state, "")
        load.finish()
        return load.keys


class _Load:
    """One call of `Stateful.load_state_dict`."""

    def __init__(self, root: Stateful, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> None:
        self.root = root
        self.state = OrderedDict(state_dict)  # pre-hooks may rename entries of it
        self.metadata = getattr(state_dict, "_metadata", None)
        if self.metadata is not None:
            self.state._metadata = self.metadata  # type: ignore[attr-defined]
        self.strict = strict
        self.assign = assign
        self.keys = _IncompatibleKeys([], [])
        self.errors: list[str] = []
        self.writes: list[Write] = []
        self.post_hooks: list[tuple[Stateful, Callable]] = []

    def compare(self, module: Stateful, state: dict, prefix: str) -> None:
        local_metadata = {} if self.metadata is None else dict(self.metadata.get(prefix[:-1], {}))
        local_metadata["assign_to_params_buffers"] = self.assign
        local_metadata["writes"] = self.writes
        module._load_from_state_dict(
            state, prefix, local_metadata, True, self.keys.missing_keys, self.keys.unexpected_keys, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                child_prefix = f"{prefix}{name}."
                self.compare(child, {k: v for k, v in state.items() if k.startswith(child_prefix)}, child_prefix)
        self.post_hooks += ((module, hook) for hook in module._load_state_dict_post_hooks.values())

    def finish(self) -> None:
        """Write if everything fits; otherwise raise with all tensors as they were."""
        if self.errors or (self._mismatch() and not self.post_hooks):
            raise self._error()
        # Post-hooks expect loaded values and may forgive names: only then is a way back needed.
        way_back = [write.inverse() for write in self.writes] if self._mismatch() else []
        for write in self.writes:
            write.commit()
        for module, hook in self.post_hooks:
            if hook(module, self.keys) is not None:
                raise RuntimeError("a load_state_dict post-hook must return None and change its argument")
        if self._mismatch():
            for write in way_back:
                write.commit()
            raise self._error()

    def _mismatch(self) -> bool:
        return self.strict and bool(self.keys.missing_keys or self.keys.unexpected_keys)

    def _error(self) -> RuntimeError:
        lines = []
        if self.strict:
            for what, keys in zip(("Missing", "Unexpected"), self.keys, strict=True):
                if keys:
                    lines.append(f"{what} key(s) in state_dict: " + ", ".join(f'"{k}"' for k in keys) + ". ")
        lines += self.errors
        name = type(self.root).__name__
        return RuntimeError(f"Error(s) in loading state_dict for {name}:\n\t" + "\n\t".join(lines))


def _fitting(key: str, value: Any, target: Tensor, errors: list[str]) -> Tensor | None:
    """`value` if it can become `target`; None, and a line in `errors`, otherwise."""
    if not isinstance(value, Tensor):
        errors.append(f'"{key}" must be a Tensor, got {type(value).__name__}')
        return None
    if is_lazy(value) and not is_lazy(target):
        errors.append(f'"{key}" is an {type(value).__name__} in the state, which has no values for the current model')
        return None
    if is_lazy(target):
        return value
    if target.dim() == 0 and tuple(value.shape) == (1,):
        value = value[0]  # scalars were saved as one-element vectors by old files
    if value.shape != target.shape:
        errors.append(f"size mismatch for {key}: the state has {value.shape}, the current model {target.shape}.")
        return None
    return value
