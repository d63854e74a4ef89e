from collections.abc import Callable
from typing import Any

from cygrad import Tensor

def sgd(
    params: list[Tensor],
    state: dict[Any, dict[str, Any]],
    lr: Any,
    momentum: Any,
    dampening: Any,
    weight_decay: Any,
    nesterov: bool,
    maximize: bool,
) -> None: ...
def adam(
    params: list[Tensor],
    state: dict[Any, dict[str, Any]],
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: Any,
    weight_decay: Any,
    decoupled: bool,
    amsgrad: bool,
    maximize: bool,
) -> None: ...

KINDS: tuple[str, ...]

def step(
    kind: int,
    params: list[Tensor],
    state: dict[Any, dict[str, Any]],
    make: Callable[..., Any],
    names: tuple[str, ...],
    options: dict[str, Any],
) -> None: ...
