"""Hooks on modules: the handle that registering one returns, and the frame that catches gradients around a call."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from cygrad import Tensor, is_grad_enabled
from cygrad.autograd import Function

__all__ = ["BackwardHook", "RemovableHandle"]


class RemovableHandle:
    """Takes a registered hook away again.

    The handle knows its registries only weakly: keeping a handle keeps no module alive.

    Parameters
    ----------
    hooks_dict : OrderedDict
        The registry that the hook was, or will be, put into under the key `id`.
    extra_dict : OrderedDict or list of OrderedDict, optional
        Registries with facts about the hook, cleared together with it.

    Attributes
    ----------
    id : int
        Key of the hook, unique in the process.
    """

    id: int
    _ids = count()

    def __init__(self, hooks_dict: OrderedDict, *, extra_dict: Any = None) -> None:
        self.id = next(RemovableHandle._ids)
        extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self._registries = tuple(weakref.ref(d) for d in (hooks_dict, *extra))

    def remove(self) -> None:
        """Take the hook away; doing it twice, or after the module is gone, is fine."""
        for ref in self._registries:
            registry = ref()
            if registry is not None:
                registry.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple[int, tuple]:
        return self.id, tuple(ref() for ref in self._registries)

    def __setstate__(self, state: tuple[int, tuple]) -> None:
        self.id, registries = state
        self._registries = tuple(weakref.ref(OrderedDict() if r is None else r) for r in registries)


class BackwardHookFunction(Function):
    """The identity, whose backward hands all gradients at once to a callback and passes on what that returns."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, callback, *tensors):
        ctx.callback = callback
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return None, *ctx.callback(grads)

    @staticmethod
    def jvp(ctx, _, *tangents):
        return tangents


class BackwardHook:
    """One call of a module, framed so that its backward hooks see the gradients of all outputs and all inputs.

    The inputs and the outputs each pass through one identity node. Backward through the output node runs the
    pre-hooks and remembers the gradients of the outputs; backward through the input node then runs the hooks.

    Parameters
    ----------
    module : Module
        First argument of every hook.
    user_hooks : sequence of callable
        ``hook(module, grad_input, grad_output) -> tuple or None``.
    user_pre_hooks : sequence of callable
        ``hook(module, grad_output) -> tuple or None``.
    """

    def __init__(self, module: Any, user_hooks: Sequence[Callable], user_pre_hooks: Sequence[Callable]) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: tuple | None = None
        self._inputs: Any = None  # _Slots, or None when no gradient flows there
        self._outputs: Any = None

    def setup_input_hook(self, args: tuple) -> tuple:
        """Return `args` with its tensors led through the input node."""
        self._n_inputs = len(args)
        self._inputs, args = _frame(args, self._at_inputs)
        return args

    def setup_output_hook(self, result: Any) -> Any:
        """Return `result` (a tensor or a tuple) with its tensors led through the output node."""
        values = result if isinstance(result, tuple) else (result,)
        self._outputs, values = _frame(values, self._at_outputs)
        return values if isinstance(result, tuple) else values[0]

    def _at_outputs(self, grads: tuple) -> tuple:
        outputs = self._outputs
        grad_outputs = outputs.spread(grads)
        for hook in self.user_pre_hooks:
            grad_outputs = _replaced(hook(self.module, grad_outputs), grad_outputs, "Backward pre hook", "grad_output")
        self.grad_outputs = grad_outputs
        if self._inputs is None:
            self._without_inputs()
        return outputs.pick(grad_outputs)

    def _without_inputs(self) -> None:
        if self.user_hooks:
            warnings.warn(
                f"full backward hooks of {type(self.module).__name__} run with the gradients of its outputs only: "
                "none of its inputs requires a gradient",
                stacklevel=2,
            )
        grad_inputs = (None,) * self._n_inputs
        for hook in self.user_hooks:
            answer = hook(self.module, grad_inputs, self.grad_outputs)
            if answer is not None and not (isinstance(answer, tuple) and all(g is None for g in answer)):
                raise RuntimeError(
                    f"a backward hook of {type(self.module).__name__} returned gradients of inputs, but no input "
                    "requires a gradient: it must return None or a tuple of None"
                )
        self.grad_outputs = None

    def _at_inputs(self, grads: tuple) -> tuple:
        if self.grad_outputs is None:
            return grads  # a second derivative reaches the inputs from the inside, not from the outputs
        grad_inputs = self._inputs.spread(grads)
        for hook in self.user_hooks:
            answer = hook(self.module, grad_inputs, self.grad_outputs)
            grad_inputs = _replaced(answer, grad_inputs, "Backward hook", "grad_input")
        self.grad_outputs = None
        return self._inputs.pick(grad_inputs)


class _Slots:
    """Where the tensors stand among the arguments (or results) of a call."""

    def __init__(self, places: list[int], length: int) -> None:
        self.places = places
        self.length = length

    def spread(self, tensors: tuple) -> tuple:
        values: list = [None] * self.length
        for place, tensor in zip(self.places, tensors, strict=True):
            values[place] = tensor
        return tuple(values)

    def pick(self, values: tuple) -> tuple:
        return tuple(values[place] for place in self.places)


def _frame(values: tuple, callback: Callable) -> tuple[_Slots | None, tuple]:
    """Lead the tensors of `values` through one identity node, if a gradient can flow through it at all."""
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    tensors = [values[i] for i in places]
    if not is_grad_enabled() or not any(t.requires_grad for t in tensors):
        return None, values
    framed = BackwardHookFunction.apply(callback, *tensors)
    framed = framed if isinstance(framed, tuple) else (framed,)
    out = list(values)
    for place, tensor in zip(places, framed, strict=True):
        out[place] = tensor
    return _Slots(places, len(values)), tuple(out)


def _replaced(answer: Any, grads: tuple, who: str, what: str) -> tuple:
    if answer is None:
        return grads
    answer = answer if isinstance(answer, tuple) else (answer,)
    if len(answer) != len(grads):
        raise RuntimeError(f"{who} returned {len(answer)} gradients for {what}, which has {len(grads)}")
    return answer
