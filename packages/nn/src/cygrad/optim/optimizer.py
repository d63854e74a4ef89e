"""`Optimizer`: parameter groups, per-parameter state, and their way into and out of a file."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from cygrad import Tensor, enable_grad
from cygrad.autograd._core import _observe_write
from cygrad.nn.parameter import clear_grad
from cygrad.optim._observed import after_step, before_step, observed, written
from cygrad.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "ParamsT", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]

KINDS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)

_every_step_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_every_step_post_hooks: OrderedDict[int, Callable] = OrderedDict()


class _Required:
    """Default of an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Have ``hook(optimizer, args, kwargs)`` called before every step of every optimizer."""
    return _register(_every_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Have ``hook(optimizer, args, kwargs)`` called after every step of every optimizer."""
    return _register(_every_step_post_hooks, hook)


def _register(registry: OrderedDict, hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(registry)
    registry[handle.id] = hook
    if prepend:
        registry.move_to_end(handle.id, last=False)
    return handle


def _with_hooks(step: Callable) -> Callable:
    """The `step` of a subclass, surrounded by the hooks of its instances."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        self.stepped = True
        if not (
            self._optimizer_step_pre_hooks
            or self._optimizer_step_post_hooks
            or _every_step_pre_hooks
            or _every_step_post_hooks
            or observed()
        ):
            return step(self, *args, **kwargs)
        for hook in [*_every_step_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]:
            answer = hook(self, args, kwargs)
            if answer is not None:
                if not (isinstance(answer, tuple) and len(answer) == 2):
                    raise RuntimeError(f"a step pre-hook must return None or (args, kwargs), got {answer!r}")
                args, kwargs = answer
        closure = args[0] if args else kwargs.get("closure")
        before_step(self, closure is not None)
        result = step(self, *args, **kwargs)
        after_step(self, closure is not None)
        for write in written(self):
            _observe_write(*write)
        for hook in [*self._optimizer_step_post_hooks.values(), *_every_step_post_hooks.values()]:
            hook(self, args, kwargs)
        return result

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


class Optimizer:
    """Base of all optimizers.

    A subclass defines ``step``; the state that it keeps for a parameter is a dictionary ``self.state[parameter]``.

    Parameters
    ----------
    params : iterable
        Tensors; (name, tensor) pairs; or dictionaries with a key ``"params"`` and options that differ from the
        defaults, one for each group.
    defaults : dict
        Options of groups that do not give them.

    Attributes
    ----------
    param_groups : list of dict
        Each has ``"params"`` and all options; changing an option in place takes effect at the next step.
    state : defaultdict of dict
        What is remembered between steps, by parameter.

    Raises
    ------
    TypeError
        If `params` is a tensor, or something in it is none.
    ValueError
        If there are no parameters, one is no leaf or in two groups, or a required option is missing.
    """

    stepped = False  # since the first schedule was made: a schedule warns if it is stepped first
    _watched = False
    _repeats = False  # whether a group names a parameter several times
    _optimizer_step_pre_hooks: OrderedDict[int, Callable]
    _optimizer_step_post_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not hasattr(step, "hooked"):
            cls.step = _with_hooks(step)  # type: ignore[method-assign]

    def __init__(self, params: Iterable, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("an optimizer takes an iterable of Tensors or of dicts, got one Tensor")
        if not isinstance(defaults, dict):
            raise TypeError(f"the defaults of an optimizer are a dict, got {type(defaults).__name__}")
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._init_hooks()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _init_hooks(self) -> None:
        for kind in KINDS:
            setattr(self, kind, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if KINDS[0] not in self.__dict__:
            self._init_hooks()
        for group in self.param_groups:
            for name, value in getattr(self, "defaults", {}).items():
                group.setdefault(name, value)
        self._repeats = any(_has_repeats(group["params"]) for group in self.param_groups)

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines += [""] if i else []
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + "\n)"

    # ---- groups --------------------------------------------------------------------------------------------------
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, for example layers that are unfrozen during training.

        Parameters
        ----------
        param_group : dict
            ``"params"`` (a tensor, or an ordered collection of tensors or (name, tensor) pairs) and any options.

        Raises
        ------
        TypeError
            If it is no dict, its parameters are a set, or one of them is no tensor.
        ValueError
            If a parameter is no leaf or in another group already, a required option is missing, or only some
            parameters have names.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, got {type(param_group).__name__}")
        group = dict(param_group)
        group.update(_split_names(group["params"]))
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"the parameter group lacks the required option {name!r}")
            group.setdefault(name, default)
        self._check_group(group)
        self.param_groups.append(group)
        self._repeats = self._repeats or _has_repeats(group["params"])

    def _rounds(self, group: dict[str, Any]) -> list[list[Tensor]]:
        """The group's parameters, each once; one that is named several times has an update in several rounds."""
        if not self._repeats:
            return [group["params"]]
        rounds: list[dict[Tensor, None]] = []
        for param in group["params"]:
            first = next((seen for seen in rounds if param not in seen), None)
            if first is None:
                rounds.append(first := {})
            first[param] = None
        return [list(seen) for seen in rounds]

    def _check_group(self, group: dict[str, Any]) -> None:
        params = group["params"]
        for i, param in enumerate(params):
            if not isinstance(param, Tensor):
                raise TypeError(f"an optimizer takes Tensors, parameter {i} is a {type(param).__name__}")
            inner = param.grad_fn is not None and not param.retains_grad
            if inner and not self.defaults.get("differentiable"):
                raise ValueError(
                    f"can't optimize a non-leaf Tensor: parameter {i} is the result of {param.grad_fn.name()}"
                )
        ids = {id(param) for param in params}
        if _has_repeats(params):
            warnings.warn("a parameter group contains a parameter several times", stacklevel=4)
        for i, other in enumerate(self.param_groups):
            if ("param_names" in group) != ("param_names" in other):
                raise ValueError("either all parameter groups have names for their parameters, or none has")
            if not ids.isdisjoint(id(param) for param in other["params"]):
                raise ValueError(f"some parameters appear in more than one parameter group: in the new one and in {i}")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Parameters
        ----------
        set_to_none : bool, default True
            Drop them, so that parameters that get no new one are left alone by `step`; otherwise fill them with zeros.
        """
        for group in self.param_groups:
            for param in group["params"]:
                clear_grad(param, set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters from their gradients; every subclass defines it.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss anew, with gradients, and returns it.

        Returns
        -------
        object
            What the closure returned, or None.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no step")

    def watch_steps(self) -> None:
        """Note from now on whether `step` was called, for the schedules of the learning rate."""
        if not self._watched:
            self._watched = True
            self.stepped = False

    @staticmethod
    def _loss_of(closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with enable_grad():
            return closure()

    # ---- state ---------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Return options and state, with the parameters replaced by numbers.

        Returns
        -------
        dict
            ``"state"``: a dictionary for each parameter number; ``"param_groups"``: the options and, under
            ``"params"``, the numbers of the parameters. It shares no memory with the optimizer.
        """
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {key: _copied(value) for key, value in group.items() if key != "params"}
            groups.append(packed | {"params": [numbers[id(param)] for param in group["params"]]})
        state = {
            (numbers[id(key)] if isinstance(key, Tensor) else key): _copied(value) for key, value in self.state.items()
        }
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._optimizer_state_dict_post_hooks.values()):
            answer = hook(self, result)
            result = result if answer is None else answer
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and state that `state_dict` returned.

        Parameters
        ----------
        state_dict : dict
            It is copied; floating-point state takes the dtype of its parameter.

        Raises
        ------
        ValueError
            If it has other groups than this optimizer, by number or by size. Nothing has changed then.
        """
        state_dict = dict(state_dict)
        for hook in list(self._optimizer_load_state_dict_pre_hooks.values()):
            answer = hook(self, state_dict)
            state_dict = state_dict if answer is None else answer
        saved = [_copied(group) for group in state_dict["param_groups"]]
        sizes = [len(group["params"]) for group in self.param_groups]
        saved_sizes = [len(group["params"]) for group in saved]
        if len(sizes) != len(saved_sizes):
            raise ValueError(
                f"the loaded state has {len(saved_sizes)} parameter groups, the optimizer has {len(sizes)}"
            )
        if sizes != saved_sizes:
            raise ValueError(
                f"the loaded parameter groups have {saved_sizes} parameters, those of the optimizer have {sizes}"
            )
        params: dict[int, Tensor] = {}
        for group, saved_group in zip(self.param_groups, saved, strict=True):
            params.update(zip(saved_group["params"], group["params"], strict=True))
            saved_group["params"] = group["params"]
            if "param_names" in group:
                saved_group.setdefault("param_names", group["param_names"])
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for number, value in state_dict["state"].items():
            param = params.get(number)
            state[number if param is None else param] = _copied(value) if param is None else _cast(value, param)
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    # ---- hooks ---------------------------------------------------------------------------------------------------
    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Have ``hook(optimizer, args, kwargs)`` called before every step; it may return new (args, kwargs)."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Have ``hook(optimizer, args, kwargs)`` called after every step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Have ``hook(optimizer)`` called before `state_dict` reads anything."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Have ``hook(optimizer, state_dict)`` called with the result of `state_dict`; it may return another one."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Have ``hook(optimizer, state_dict)`` called before a load; it may return what is loaded instead."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Have ``hook(optimizer)`` called after a load."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _has_repeats(params: list[Tensor]) -> bool:
    return len({id(param) for param in params}) != len(params)


def _split_names(params: Any) -> dict[str, list]:
    """The tensors of a group and, where they come as (name, tensor) pairs, their names."""
    if isinstance(params, Tensor):
        return {"params": [params]}
    if isinstance(params, set):
        raise TypeError("the parameters of a group must have an order that stays the same between runs, got a set")
    entries = list(params)
    names = [entry[0] for entry in entries if isinstance(entry, tuple)]
    tensors = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
    if names and len(names) != len(tensors):
        raise ValueError(f"only {len(names)} of the {len(tensors)} parameters of a group have names")
    return {"params": tensors, "param_names": names} if names else {"params": tensors}


def _copied(value: Any) -> Any:
    """A copy that shares no tensor memory and is cut from any graph."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(entry) for entry in value)
    return deepcopy(value)


def _cast(value: Any, param: Tensor, key: Any = None) -> Any:
    """A copy of state whose tensors, step counters apart, have the dtype of their parameter."""
    if isinstance(value, Tensor) and key != "step":
        dtype = param.dtype if param.is_floating_point() else value.dtype
        return value.detach().to(param.device, dtype, copy=True)
    if isinstance(value, dict):
        return {name: _cast(entry, param, name) for name, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(entry, param) for entry in value)
    return _copied(value)
