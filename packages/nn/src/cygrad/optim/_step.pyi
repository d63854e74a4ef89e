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
