"""What strict mode and find_nan ask of an optimizer that steps."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from cygrad import Tensor
from cygrad.autograd._core import _observed as observed
from cygrad.autograd._core import _storage_owners
from cygrad.autograd.strict_mode import forget_uses, is_strict_enabled, refuse, refuse_missing

if TYPE_CHECKING:
    from cygrad.optim.optimizer import Optimizer


def _named(optimizer: Optimizer) -> list[tuple[str, Tensor]]:
    found = []
    for g, group in enumerate(optimizer.param_groups):
        names = group.get("param_names") or [f"parameter {i} of group {g}" for i in range(len(group["params"]))]
        found += zip(names, group["params"], strict=True)
    return found


def before_step(optimizer: Optimizer, closure: bool) -> None:
    """Strict mode's checks; those of gradients wait for the closure."""
    if is_strict_enabled():
        check_step(optimizer, gradients=not closure)


def after_step(optimizer: Optimizer, closure: bool) -> None:
    """The checks that waited."""
    if is_strict_enabled() and closure:
        check_step(optimizer, gradients=True)


def written(optimizer: Optimizer) -> list[tuple[str, Tensor, tuple[Tensor]]]:
    """What find_nan looks at after a step."""
    name = f"{type(optimizer).__name__}.step"
    return [(name, p, (p.grad,)) for _, p in _named(optimizer) if p.grad is not None] if observed() else []


def check_step(optimizer: Optimizer, gradients: bool) -> None:
    """Raise `StrictError` for parameters without gradients, if asked for, and for state that others hold.

    Raises
    ------
    StrictError
        Nothing has changed then.
    """
    name, named = type(optimizer).__name__, _named(optimizer)
    if gradients:
        wanting = [(n, p) for n, p in named if p.requires_grad]
        missing = [(n, p) for n, p in wanting if p.grad is None]
        if wanting and len(missing) == len(wanting):
            message = f"{name}.step(): no parameter has a gradient: backward() was not called since zero_grad()."
            refuse("no_gradient", message)
        elif missing:
            refuse_missing(missing, f"{name}.step()")
        forget_uses(p for _, p in named)
    for n, p in named:
        state = optimizer.state.get(p)
        if state:
            _check_state(name, n, state)


def _check_state(optimizer: str, parameter: str, state: dict[str, Any]) -> None:
    for key in state:
        value = state[key]
        if not isinstance(value, Tensor):
            continue
        # held by the state, by `value` and by the argument of getrefcount; its memory by itself alone
        if sys.getrefcount(value) > 3 or _storage_owners(value) > 1:
            others = _holders(value, state)
            refuse(
                "shared_state",
                f"{optimizer}.step(): the state {key!r} of {parameter} is shared with another object{others}; the step "
                "would change it there too. Take copies: state_dict() makes one, copy.deepcopy() too.",
            )


def _holders(value: Tensor, state: dict[str, Any]) -> str:
    frame = sys._getframe(1)
    found = [r for r in gc.get_referrers(value) if r is not state and r is not frame and not _is_frame(r)]
    kinds = sorted({f"a {type(r).__name__}" for r in found})
    return f" ({', '.join(kinds)})" if kinds else ""


def _is_frame(value: Any) -> bool:
    return type(value).__name__ == "frame"
