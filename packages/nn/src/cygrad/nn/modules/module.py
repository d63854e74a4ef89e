"""`Module`: registration of parameters, buffers and children, and everything that walks the tree they form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, TypeVar

from cygrad import Tensor
from cygrad.nn.modules.convert import Convertible
from cygrad.nn.modules.hooks import KINDS as HOOK_KINDS
from cygrad.nn.modules.hooks import (
    Hookable,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from cygrad.nn.modules.state import KINDS as STATE_HOOK_KINDS
from cygrad.nn.modules.state import Stateful
from cygrad.nn.parameter import Buffer, Parameter, clear_grad

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

M = TypeVar("M", bound="Module")
_NOTHING: MappingProxyType = MappingProxyType({})


class Module(Hookable, Stateful, Convertible):
    """Base of everything that has parameters and a ``forward``.

    A subclass calls ``super().__init__()``, assigns parameters, buffers and other modules as attributes, and defines
    ``forward``; an instance is called like a function.

    Attributes
    ----------
    training : bool
        Whether the module is being trained; layers such as dropout behave differently in evaluation.

    Examples
    --------
    >>> import cygrad as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.Parameter(torch.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> Scale()(torch.tensor([1.0, 3.0])).tolist()
    [2.0, 6.0]
    """

    training: bool
    call_super_init = False
    dump_patches = False

    # Before __init__ has run, lookups find nothing here instead of asking __getattr__ for these very dictionaries.
    _parameters: Any = _NOTHING
    _buffers: Any = _NOTHING
    _modules: Any = _NOTHING

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
            raise TypeError(
                f"{type(self).__name__}.__init__() takes no further arguments, got {', '.join(given)} (an unexpected "
                "keyword argument or positional arguments beyond self)"
            )
        new = object.__setattr__
        new(self, "training", True)
        new(self, "_parameters", {})
        new(self, "_buffers", {})
        new(self, "_modules", {})
        new(self, "_non_persistent_buffers_set", set())
        self._init_hooks()
        self._init_state_hooks()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every subclass defines it. Call the module itself, so that its hooks run."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    # ---- attributes ----------------------------------------------------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        value = self._parameters.get(name)
        if value is not None:
            return value
        for registry in (self._parameters, self._buffers, self._modules):
            if name in registry:
                return registry[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._require_init("parameter")
            _require_leaf(name, value)
            self._leave_other_registries(name, "_parameters")
            self.register_parameter(name, value)
        elif name in self._parameters:
            _refuse_unless_none(name, value, "a parameter", "a Parameter")
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._require_init("module")
            self._leave_other_registries(name, "_modules")
            self._modules[name] = registered("module", self, name, value)
        elif name in self._modules:
            _refuse_unless_none(name, value, "a child module", "a Module")
            self._modules[name] = None
        elif name in self._buffers or isinstance(value, Buffer):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if not (value is None or isinstance(value, Tensor)):
            raise TypeError(f"cannot assign a {type(value).__name__} as buffer '{name}' (a Tensor or None is wanted)")
        self._require_init("buffer")
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        self._leave_other_registries(name, "_buffers")
        if name in self._buffers:
            self._buffers[name] = registered("buffer", self, name, value)
            _keep_in(self._non_persistent_buffers_set, name, not persistent)
        else:
            self.register_buffer(name, value, persistent)

    def _leave_other_registries(self, name: str, keep: str) -> None:
        """A name is either an ordinary attribute or in exactly one registry."""
        for registry in (self.__dict__, self._buffers, self._modules, self._parameters):
            if registry is not getattr(self, keep) and name in registry:
                del registry[name]
        if keep != "_buffers":
            self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*object.__dir__(self), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if name.isidentifier())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A pickle of an earlier version may lack a registry that calls and loads look at.
        if any(kind not in self.__dict__ for kind in (*HOOK_KINDS, "_hook_options")):
            self._init_hooks()
        if any(kind not in self.__dict__ for kind in STATE_HOOK_KINDS):
            self._init_state_hooks()

    # ---- registration --------------------------------------------------------------------------------------------
    def _require_init(self, kind: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign a {kind} before Module.__init__() has been called")

    def _check_name(self, name: Any, kind: str, registry: Any) -> None:
        self._require_init(kind)
        if not isinstance(name, str):
            raise TypeError(f"the name of a {kind} must be a string, got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'the name of a {kind} cannot contain ".", got "{name}"')
        if name == "":
            raise KeyError(f'the name of a {kind} cannot be empty, got ""')
        if hasattr(self, name) and name not in registry:
            raise KeyError(f"attribute '{name}' already exists and is no {kind}")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under `name`.

        Parameters
        ----------
        name : str
            Attribute name; without dots, and not in use otherwise.
        param : Parameter or None
            None reserves the name, as ``bias=False`` does.

        Raises
        ------
        TypeError
            If `param` is no Parameter, or `name` no string.
        KeyError
            If `name` cannot be used.
        ValueError
            If `param` is the result of a recorded computation.
        """
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign a {type(param).__name__} as parameter '{name}' (a Parameter or None is wanted)"
            )
        if param is not None:
            _require_leaf(name, param)
            param = registered("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained, such as a running mean.

        Parameters
        ----------
        name : str
            Attribute name; without dots, and not in use otherwise.
        tensor : Tensor or None
            None reserves the name.
        persistent : bool, default True
            Whether `state_dict` contains it.

        Raises
        ------
        TypeError
            If `tensor` is no Tensor, or `name` no string.
        KeyError
            If `name` cannot be used.
        """
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign a {type(tensor).__name__} as buffer '{name}' (a Tensor or None is wanted)")
        self._buffers[name] = registered("buffer", self, name, tensor)
        _keep_in(self._non_persistent_buffers_set, name, not persistent)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under `name`; raises TypeError and KeyError as `register_parameter` does."""
        self._require_init("module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"a {type(module).__name__} is no Module and cannot be added as '{name}'")
        self._check_name(name, "module", self._modules)
        self._modules[name] = registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Do what `add_module` does."""
        self.add_module(name, module)

    # ---- looking up by path --------------------------------------------------------------------------------------
    def get_submodule(self, target: str) -> Module:
        """Return the module at a dotted path such as ``"encoder.0"``; ``""`` is this module itself.

        Raises
        ------
        AttributeError
            If a step of the path does not exist or is no module.
        """
        module: Any = self
        for step in target.split(".") if target else ():
            if not hasattr(module, step):
                raise AttributeError(f"'{target}': {type(module).__name__} has no attribute '{step}'")
            module = getattr(module, step)
            if not isinstance(module, Module):
                raise AttributeError(f"'{target}': '{step}' is a {type(module).__name__}, not a Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a dotted path.

        Parameters
        ----------
        target : str
            Path whose parent exists.
        module : Module
            What to put there.
        strict : bool
            Demand that a module is already at the path.

        Raises
        ------
        ValueError
            If the path is empty or `module` no Module.
        AttributeError
            If the parent does not exist, or what is there is no module.
        """
        if target == "":
            raise ValueError("the path of a submodule to replace cannot be empty")
        if not isinstance(module, Module):
            raise ValueError(f"a Module is wanted at '{target}', got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            self.get_submodule(target)
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path; AttributeError if there is none."""
        return self._get_tensor(target, "_parameters", "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path; AttributeError if there is none."""
        return self._get_tensor(target, "_buffers", "buffer")

    def _get_tensor(self, target: str, registry: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"'{target}': {type(module).__name__} has no attribute '{name}'")
        if name not in getattr(module, registry):
            raise AttributeError(f"'{target}' is no {kind} of {type(module).__name__}")
        return getattr(module, registry)[name]

    # ---- walking the tree ----------------------------------------------------------------------------------------
    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (path, module) of this module (path `prefix`) and all below it.

        Parameters
        ----------
        memo : set, optional
            Modules to leave out; those that are yielded are added.
        prefix : str
            Path of this module.
        remove_duplicate : bool, default True
            Yield a module that is reachable by several paths once.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) of the direct children, each module once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the direct children, each once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (path, parameter).

        Parameters
        ----------
        prefix : str
            Path of this module.
        recurse : bool, default True
            Whether to descend into child modules.
        remove_duplicate : bool, default True
            Yield a parameter that several modules share once, under its first path.
        """
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield every parameter once, in the order of registration."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, buffer); the arguments are those of `named_parameters`."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield every buffer once, in the order of registration."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named_members(
        self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in owners:
            for name, tensor in getattr(module, registry).items():
                if tensor is None or id(tensor) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(tensor))
                yield (f"{path}.{name}" if path else name), tensor

    # ---- changing the whole tree ---------------------------------------------------------------------------------
    def apply(self: M, fn: Callable[[Module], None]) -> M:
        """Call `fn` with every module of the tree, children before their parent, and return this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: M, mode: bool = True) -> M:
        """Set ``training`` of the whole tree to `mode`, and return this module; ValueError if `mode` is no bool."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """Set the whole tree to evaluation mode, and return this module."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Have gradients computed, or not, for all parameters, and return this module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Parameters
        ----------
        set_to_none : bool, default True
            Drop them; otherwise they are filled with zeros and keep their memory.
        """
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none)

    # ---- text ----------------------------------------------------------------------------------------------------
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what `repr` shows between the parentheses; subclasses override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + indented(repr(module)) for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        lines += children
        if not lines:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def indented(text: str) -> str:
    """`text` with every line but the first moved two columns in."""
    return text.replace("\n", "\n  ")


def require_module(function: str, argument: str, value: Any) -> None:
    if not isinstance(value, Module):
        raise TypeError(f"{function}(): argument '{argument}' must be Module, not {type(value).__name__}")


def _require_leaf(name: str, parameter: Parameter) -> None:
    if parameter.grad_fn is not None:
        raise ValueError(
            f"parameter '{name}' must be a leaf, got the result of {parameter.grad_fn.name()}: compute it in "
            "forward() from parameters instead"
        )


def _keep_in(names: set[str], name: str, wanted: bool) -> None:
    if wanted:
        names.add(name)
    else:
        names.discard(name)


def _refuse_unless_none(name: str, value: Any, role: str, wanted: str) -> None:
    if value is not None:
        raise TypeError(
            f"cannot assign a {type(value).__name__} as '{name}', which is {role} ({wanted} or None is wanted)"
        )
