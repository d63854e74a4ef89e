"""Calling a module, with the hooks that may surround its forward and its backward."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from cygrad import Tensor
from cygrad.utils.hooks import BackwardHook, RemovableHandle

__all__ = [
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class HookOptions(NamedTuple):
    """How one registered hook wants to be called."""

    with_kwargs: bool = False
    always_call: bool = False
    full: bool = True  # of backward hooks: whether they see the gradients of all inputs


KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

# Hooks on every module of the process: the same registries that an instance has.
_everywhere: dict[str, OrderedDict] = {kind: OrderedDict() for kind in KINDS}
_everywhere_options: OrderedDict[int, HookOptions] = OrderedDict()


class Hookable:
    """What makes a module callable.

    ``_hook_options`` has one entry for each hook of the four registries: while it is empty, a call costs one test
    more than ``forward`` itself.
    """

    forward: Callable[..., Any]
    _hook_options: OrderedDict[int, HookOptions]

    def _init_hooks(self) -> None:
        for kind in (*KINDS, "_hook_options"):
            object.__setattr__(self, kind, OrderedDict())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hook_options or _everywhere_options:
            return _call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def _register_hook(self, kind: str, hook: Callable, prepend: bool, options: HookOptions) -> RemovableHandle:
        return _register(getattr(self, kind), self._hook_options, hook, prepend, options)

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Have `hook` called before every ``forward``.

        Parameters
        ----------
        hook : callable
            ``hook(module, args) -> None, one value, or a tuple that replaces args``; with `with_kwargs`
            ``hook(module, args, kwargs) -> None or (args, kwargs)``.
        prepend : bool
            Run before the hooks that are already there.
        with_kwargs : bool
            Whether the hook receives the keyword arguments.

        Returns
        -------
        RemovableHandle
            ``remove()`` on it takes the hook away.
        """
        return self._register_hook("_forward_pre_hooks", hook, prepend, HookOptions(with_kwargs))

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Have `hook` called after every ``forward``.

        Parameters
        ----------
        hook : callable
            ``hook(module, args, output) -> None or the output to use instead``; with `with_kwargs`
            ``hook(module, args, kwargs, output)``.
        prepend : bool
            Run before the hooks that are already there.
        with_kwargs : bool
            Whether the hook receives the keyword arguments.
        always_call : bool
            Run the hook also when ``forward`` or another hook raises; the output may then be None.

        Returns
        -------
        RemovableHandle
            ``remove()`` on it takes the hook away.
        """
        return self._register_hook("_forward_hooks", hook, prepend, HookOptions(with_kwargs, always_call))

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Have `hook` called when the gradients of the module's outputs are known.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_output) -> None or a tuple that replaces grad_output``.
        prepend : bool
            Run before the hooks that are already there.

        Returns
        -------
        RemovableHandle
            ``remove()`` on it takes the hook away.
        """
        return self._register_hook("_backward_pre_hooks", hook, prepend, HookOptions())

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Have `hook` called when the gradients of the module's inputs are known.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_input, grad_output) -> None or a tuple that replaces grad_input``. Positional
            arguments only; the gradient of what is no tensor, or needs none, is None.
        prepend : bool
            Run before the hooks that are already there.

        Returns
        -------
        RemovableHandle
            ``remove()`` on it takes the hook away.
        """
        _refuse_other_kind(self._backward_hooks, self._hook_options, full=True)
        return self._register_hook("_backward_hooks", hook, prepend, HookOptions())

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Have `hook` called with the gradients at the last operation of the module: PyTorch's old way.

        ``grad_input`` is what that operation's gradient function gives, which is not that of the module's inputs if
        ``forward`` records several; a warning says so. Use `register_full_backward_hook`.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_input, grad_output) -> None or a tuple that replaces grad_input``.

        Returns
        -------
        RemovableHandle
            ``remove()`` on it takes the hook away.

        Raises
        ------
        RuntimeError
            If the module has full backward hooks.
        """
        _refuse_other_kind(self._backward_hooks, self._hook_options, full=False)
        return self._register_hook("_backward_hooks", hook, False, HookOptions(full=False))


def _refuse_other_kind(registry: OrderedDict, options: OrderedDict, full: bool) -> None:
    if any(options[key].full != full for key in registry if key in options):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks: register_full_backward_hook() and "
            "register_backward_hook() exclude each other"
        )


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Have ``hook(module, args)`` called before the forward of every module of the process."""
    return _register_everywhere("_forward_pre_hooks", hook, HookOptions())


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Have ``hook(module, args, output)`` called after the forward of every module of the process."""
    return _register_everywhere("_forward_hooks", hook, HookOptions(with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Have ``hook(module, grad_output)`` called before the backward of every module of the process."""
    return _register_everywhere("_backward_pre_hooks", hook, HookOptions())


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Have ``hook(module, grad_input, grad_output)`` called after the backward of every module of the process."""
    _refuse_other_kind(_everywhere["_backward_hooks"], _everywhere_options, full=True)
    return _register_everywhere("_backward_hooks", hook, HookOptions())


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """`Hookable.register_backward_hook` for every module of the process."""
    _refuse_other_kind(_everywhere["_backward_hooks"], _everywhere_options, full=False)
    return _register_everywhere("_backward_hooks", hook, HookOptions(full=False))


# Hooks on every registration in the process, by what is registered.
_registrations: dict[str, OrderedDict] = {"buffer": OrderedDict(), "module": OrderedDict(), "parameter": OrderedDict()}


def _register_registration(kind: str, hook: Callable) -> RemovableHandle:
    handle = RemovableHandle(_registrations[kind])
    _registrations[kind][handle.id] = hook
    return handle


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Have ``hook(module, name, buffer)`` called when a buffer is registered; what it returns is taken instead."""
    return _register_registration("buffer", hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Have ``hook(module, name, submodule)`` called when a child is registered; what it returns is taken instead."""
    return _register_registration("module", hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Have ``hook(module, name, parameter)`` called when a parameter is registered; its result is taken instead."""
    return _register_registration("parameter", hook)


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What is to be registered, after the hooks have seen it."""
    for hook in list(_registrations[kind].values()):
        answer = hook(module, name, value)
        value = value if answer is None else answer
    return value


def _register_everywhere(kind: str, hook: Callable, options: HookOptions) -> RemovableHandle:
    return _register(_everywhere[kind], _everywhere_options, hook, False, options)


def _register(
    registry: OrderedDict, all_options: OrderedDict, hook: Callable, prepend: bool, options: HookOptions
) -> RemovableHandle:
    handle = RemovableHandle(registry, extra_dict=all_options)
    registry[handle.id] = hook
    all_options[handle.id] = options
    if prepend:
        registry.move_to_end(handle.id, last=False)
    return handle


def _hooks(module: Hookable, kind: str) -> Iterator[tuple[int, Callable, HookOptions]]:
    """Hooks of one kind in calling order; a snapshot, since a hook may remove itself."""
    for registry, options in ((_everywhere[kind], _everywhere_options), (getattr(module, kind), module._hook_options)):
        for key, hook in list(registry.items()):
            yield key, hook, options.get(key, HookOptions())


def _call_with_hooks(module: Hookable, args: tuple, kwargs: dict) -> Any:
    result = None
    called = set()
    try:
        args, kwargs = _run_pre_hooks(module, args, kwargs)
        frame = _backward_frame(module)
        if frame is not None:
            args = frame.setup_input_hook(args)
        result = module.forward(*args, **kwargs)
        for key, hook, options in _hooks(module, "_forward_hooks"):
            called.add(key)
            answer = _run_forward_hook(module, hook, options, args, kwargs, result)
            result = result if answer is None else answer
        if frame is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn(
                    f"full backward hooks see the gradients of a Tensor or a tuple of them; "
                    f"{type(module).__name__} returned {type(result).__name__}, whose gradients they will not see",
                    stacklevel=3,
                )
            result = frame.setup_output_hook(result)
        _hook_last_node(module, args, result)
        return result
    except Exception:
        _run_remaining_hooks(module, args, kwargs, result, called)
        raise


def _run_pre_hooks(module: Hookable, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    for _, hook, options in _hooks(module, "_forward_pre_hooks"):
        if options.with_kwargs:
            answer = hook(module, args, kwargs)
            if answer is None:
                continue
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise RuntimeError(
                    f"a forward pre-hook with keyword arguments must return None or (args, kwargs), got {answer!r}"
                )
            args, kwargs = answer
        else:
            answer = hook(module, args)
            if answer is not None:
                args = answer if isinstance(answer, tuple) else (answer,)
    return args, kwargs


def _run_forward_hook(
    module: Hookable, hook: Callable, options: HookOptions, args: tuple, kwargs: dict, result: Any
) -> Any:
    return hook(module, args, kwargs, result) if options.with_kwargs else hook(module, args, result)


def _run_remaining_hooks(module: Hookable, args: tuple, kwargs: dict, result: Any, called: set[int]) -> None:
    for key, hook, options in _hooks(module, "_forward_hooks"):
        if not options.always_call or key in called:
            continue
        try:
            answer = _run_forward_hook(module, hook, options, args, kwargs, result)
            result = result if answer is None else answer
        except Exception as error:
            warnings.warn(
                f"a forward hook of {type(module).__name__} that is always called raised {error!r} while another "
                "exception was being handled; it is ignored",
                stacklevel=4,
            )


def _backward_frame(module: Hookable) -> BackwardHook | None:
    hooks = [hook for _, hook, options in _hooks(module, "_backward_hooks") if options.full]
    pre_hooks = [hook for _, hook, _ in _hooks(module, "_backward_pre_hooks")]
    return BackwardHook(module, hooks, pre_hooks) if hooks or pre_hooks else None


def _hook_last_node(module: Hookable, args: tuple, result: Any) -> None:
    """Put the hooks that are not full ones to the operation that made the (first) result."""
    hooks = [hook for _, hook, options in _hooks(module, "_backward_hooks") if not options.full]
    if not hooks:
        return
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(partial(hook, module))
    outputs = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(t, Tensor) for t in (*outputs, *args)):
        missing = "results or arguments are no tensors"
    elif {t.grad_fn for t in outputs} - {None, node}:
        missing = "the results come from several operations"
    elif {t.grad_fn for t in args} - {None} != {n for n, _ in node.next_functions if n is not None}:
        missing = "forward records several operations"
    else:
        return
    warnings.warn(
        f"a backward hook of {type(module).__name__} sees the last operation only, and {missing}: use "
        "register_full_backward_hook",
        FutureWarning,
        stacklevel=4,
    )
