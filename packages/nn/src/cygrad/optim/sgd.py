"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cygrad import Tensor
from cygrad.optim import _recorded, _step
from cygrad.optim._options import check_choices, check_not_negative, check_rate
from cygrad.optim.optimizer import Optimizer

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent, with momentum if wanted.

    Momentum after Sutskever et al., "On the importance of initialization and momentum in deep learning" (2013), in the
    form ``buffer = momentum * buffer + (1 - dampening) * grad``, ``param -= lr * buffer``; the first gradient enters
    the buffer undamped.

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 1e-3
        Learning rate.
    momentum : float, default 0
        Share of the buffer that is kept from step to step.
    dampening : float, default 0
        Share of the gradient that does not enter the buffer.
    weight_decay : float, default 0
        This times the parameter is added to the gradient.
    nesterov : bool, default False
        Use Nesterov's momentum, which needs momentum and no dampening.
    maximize : bool, default False
        Go up the gradient.
    foreach, fused : bool, optional
        Accepted for PyTorch programs: there is one implementation, which updates all parameters in one pass.
    differentiable : bool, default False
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_not_negative("momentum value", momentum)
        check_not_negative("weight_decay value", weight_decay)
        check_choices(foreach, fused, differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"Nesterov momentum needs a momentum and no dampening, got momentum={momentum}, dampening={dampening}"
            )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            if group["differentiable"]:
                _recorded.recorded_step(self, group, _recorded.sgd, lambda p: {})
                continue
            _step.sgd(
                group["params"],
                self.state,
                group["lr"],
                group["momentum"],
                group["dampening"],
                group["weight_decay"],
                group["nesterov"],
                group["maximize"],
            )
        return loss
