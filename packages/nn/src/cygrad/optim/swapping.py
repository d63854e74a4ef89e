"""An optimizer's step on other parameters and another state: `swap_in_optimizer_params_and_state`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cygrad import Tensor
from cygrad.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: Mapping[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Meanwhile, an optimizer has other parameters, options and state; afterwards, its own.

    Parameters
    ----------
    optimizer : Optimizer
        One that has stepped.
    swapin_parameters : mapping of str to Tensor
        In the order of the optimizer's.
    swapin_optim_state : dict
        As `Optimizer.state_dict` returns it. Its tensors are written by steps; new entries are not kept.

    Raises
    ------
    RuntimeError
        If the optimizer has no state, or what is given does not have its form. Nothing has changed then.
    """
    parameters = list(swapin_parameters.values())
    state = _checked(optimizer, parameters, swapin_optim_state)
    before = optimizer.state, [dict(group) for group in optimizer.param_groups], optimizer._repeats
    swapped: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    waiting = iter(parameters)
    try:
        for group, other in zip(optimizer.param_groups, swapin_optim_state["param_groups"], strict=True):
            params = [next(waiting) for _ in other["params"]]
            group.update(other | {"params": params})
            for param, number in zip(params, other["params"], strict=True):
                swapped[param] = dict(state.get(number, {}))
        optimizer.state = swapped
        yield
    finally:
        optimizer.state, groups, optimizer._repeats = before
        for group, kept in zip(optimizer.param_groups, groups, strict=False):
            group.clear()
            group.update(kept)


def _checked(optimizer: Optimizer, parameters: list[Tensor], given: Any) -> dict[Any, Any]:
    """The state by parameter number, if what is given has the form of the optimizer's own."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state: let it step once")
    if not isinstance(given, dict) or not isinstance(given.get("state"), dict):
        raise RuntimeError(f"{_NAME} requires what optimizer.state_dict() returns, got {type(given).__name__}")
    groups, state = given.get("param_groups"), given["state"]
    if not isinstance(groups, list) or len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the optimizer, "
            f"which has {len(optimizer.param_groups)}"
        )
    numbers: list[int] = []
    for k, (group, other) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        params = other.get("params") if isinstance(other, dict) else None
        if not isinstance(params, list) or not all(isinstance(number, int) for number in params):
            raise RuntimeError(f"{_NAME} requires that group {k} has 'params', a list of parameter numbers")
        if len(params) != len(group["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {k} has a different number of params than the optimizer's: "
                f"{len(params)}, not {len(group['params'])}"
            )
        if set(other) != set(group):
            raise RuntimeError(f"{_NAME}: the keys of group {k} differ by {sorted(set(other) ^ set(group))}")
        numbers += params
    if len(parameters) != len(numbers) or not all(isinstance(p, Tensor) for p in parameters):
        raise RuntimeError(
            f"{_NAME} requires {len(numbers)} tensors in swapin_parameters, got {len(parameters)} values"
        )
    wrong = [key for key, entry in state.items() if key not in numbers or not isinstance(entry, dict)]
    if wrong:
        raise RuntimeError(f"{_NAME} requires a state of dictionaries by parameter number; not of that form: {wrong!r}")
    return state
